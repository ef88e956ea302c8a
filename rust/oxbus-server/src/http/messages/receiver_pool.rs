// SPDX-License-Identifier: Apache-2.0
//! The receivers of a connection: one for each entity that it receives from, with a receive cache as in the service.
//!
//! A receive on a partitioned entity asks all partitions, delivers one message and keeps the others locked for later
//! requests of the same connection (B-125, B-130). After the connection closes they stay locked until their locks
//! expire (B-129).

use std::sync::{Arc, Mutex};

use oxbus_broker::{Namespace, Receiver, ReceiverOptions};
use oxbus_model::Result;
use oxbus_model::caps::HTTP_RECEIVERS_MAX;
use oxbus_model::name::EntityName;
use oxbus_model::options::{LockPolicy, ReceiveMode};
use oxbus_model::sync::ignore_poison;

/// The receivers of a connection, the most recently used last. A panic leaves it consistent: a receiver that is not in
/// the list is closed.
#[derive(Default, Clone)]
pub(super) struct ReceiverPool(Arc<Mutex<Vec<PooledReceiver>>>);

/// The entity's case-insensitive key, and its receiver.
type PooledReceiver = (String, Arc<Receiver>);

impl ReceiverPool {
    /// The peek-lock receiver of an entity. Opens it if necessary.
    pub(super) fn receiver(&self, namespace: &Namespace, path: &str) -> Result<Arc<Receiver>> {
        let key = EntityName::key_of(path);
        let mut receivers = ignore_poison(self.0.lock());
        let found = receivers
            .iter()
            .position(|(name, _)| *name == key)
            .map(|at| receivers.remove(at));
        // An entity that was deleted and created again needs a new receiver.
        let alive = found.filter(|(_, receiver)| !receiver.is_closed() && receiver.entity().check_alive().is_ok());
        let entry = match alive {
            Some(entry) => entry,
            None => (key, Arc::new(open(namespace, path, ReceiveMode::PeekLock)?)),
        };
        if receivers.len() >= HTTP_RECEIVERS_MAX {
            receivers.remove(0);
        }
        let receiver = Arc::clone(&entry.1);
        receivers.push(entry);
        Ok(receiver)
    }

    /// Drops all receivers.
    pub(super) fn close(&self) {
        ignore_poison(self.0.lock()).clear();
    }
}

/// Opens a receiver for a path, which may name a dead-letter queue.
pub(super) fn open(namespace: &Namespace, path: &str, mode: ReceiveMode) -> Result<Receiver> {
    let (path, sub_queue) = EntityName::split_sub_queue(path);
    let options = ReceiverOptions {
        sub_queue,
        mode,
        lock_policy: Some(match mode {
            ReceiveMode::PeekLock => LockPolicy::Faithful,
            // There is no cache in receive-and-delete mode, because its messages would be lost with the connection.
            ReceiveMode::ReceiveAndDelete => LockPolicy::Fresh,
        }),
        ..ReceiverOptions::default()
    };
    namespace.receiver(path, options)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use oxbus_broker::{Namespace, NamespaceOptions};
    use oxbus_model::caps::HTTP_RECEIVERS_MAX;

    use oxbus_model::sync::ignore_poison;
    use oxbus_store::Wait;

    use super::ReceiverPool;

    #[test]
    fn number_of_receivers_per_connection_is_limited() {
        // A client that receives once from each of many entities must not fill the memory with caches.
        let namespace = Namespace::open(NamespaceOptions::default()).expect("a namespace in memory");
        let receivers = ReceiverPool::default();
        for number in 0..HTTP_RECEIVERS_MAX + 2 {
            namespace
                .create_queue_with(&format!("q{number}"), Vec::new(), &Wait::FOREVER)
                .expect("a queue");
            receivers
                .receiver(&namespace, &format!("q{number}"))
                .expect("a receiver");
            receivers.receiver(&namespace, "Q0").expect("a receiver");
        }
        let names = ignore_poison(receivers.0.lock());
        let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), HTTP_RECEIVERS_MAX);
        assert_eq!(
            (names[0], names[names.len() - 1]),
            ("q3", "q0"),
            "the least recently used one goes first"
        );
    }

    #[test]
    fn recreated_entity_gets_a_new_receiver() {
        let namespace = Namespace::open(NamespaceOptions::default()).expect("a namespace in memory");
        let receivers = ReceiverPool::default();
        namespace
            .create_queue_with("q", Vec::new(), &Wait::FOREVER)
            .expect("a queue");
        let first = receivers.receiver(&namespace, "q").expect("a receiver");
        assert!(Arc::ptr_eq(
            &first,
            &receivers.receiver(&namespace, "q").expect("a receiver")
        ));
        namespace
            .queue("q")
            .and_then(|queue| namespace.delete(&queue))
            .expect("deleted");
        namespace
            .create_queue_with("q", Vec::new(), &Wait::FOREVER)
            .expect("a queue");
        assert!(!Arc::ptr_eq(
            &first,
            &receivers.receiver(&namespace, "q").expect("a receiver")
        ));
    }
}
