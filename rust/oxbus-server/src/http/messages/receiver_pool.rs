// SPDX-License-Identifier: Apache-2.0
//! What a connection keeps of the entities that it receives from: a receiver each, with a cache as in the service.
//!
//! A receive on a partitioned entity asks all partitions, hands out one message and keeps the others locked for later
//! requests of the same connection (B-125, B-130). When the connection ends they stay locked until their locks end (B-129).

use std::sync::{Arc, Mutex};

use oxbus_broker::{Namespace, Receiver, ReceiverOptions};
use oxbus_model::Result;
use oxbus_model::caps::HTTP_RECEIVERS_MAX;
use oxbus_model::name::EntityName;
use oxbus_model::options::{LockPolicy, ReceiveMode};
use oxbus_model::sync::whole;

/// The receivers of a connection, the one used last at the end. Whole after a panic: one that is not in it is closed.
#[derive(Default, Clone)]
pub(super) struct ReceiverPool(Arc<Mutex<Vec<PooledReceiver>>>);

/// An entity's name without case, and its receiver.
type PooledReceiver = (String, Arc<Receiver>);

impl ReceiverPool {
    /// The receiver of an entity in peek-lock mode.
    pub(super) fn receiver(&self, namespace: &Namespace, path: &str) -> Result<Arc<Receiver>> {
        let key = EntityName::key_of(path);
        let mut receivers = whole(self.0.lock());
        let found = receivers
            .iter()
            .position(|(name, _)| *name == key)
            .map(|at| receivers.remove(at));
        // An entity that was deleted and created again is another one.
        let alive = found.filter(|(_, receiver)| !receiver.is_closed() && receiver.queue().check_alive().is_ok());
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

    /// Ends all of them.
    pub(super) fn close(&self) {
        whole(self.0.lock()).clear();
    }
}

/// A receiver of a path, which may name a dead-letter queue.
pub(super) fn open(namespace: &Namespace, path: &str, mode: ReceiveMode) -> Result<Receiver> {
    let (path, sub_queue) = EntityName::split_sub_queue(path);
    let options = ReceiverOptions {
        sub_queue,
        mode,
        lock_policy: Some(match mode {
            ReceiveMode::PeekLock => LockPolicy::Faithful,
            // What is received and deleted is never kept: it would be lost with the connection.
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

    use oxbus_model::sync::whole;
    use oxbus_store::Wait;

    use super::ReceiverPool;

    #[test]
    fn a_connection_keeps_a_bounded_number_of_receivers() {
        // A client that asks each entity once must not fill the memory with caches.
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
        let names = whole(receivers.0.lock());
        let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), HTTP_RECEIVERS_MAX);
        assert_eq!(
            (names[0], names[names.len() - 1]),
            ("q3", "q0"),
            "the one used last stays longest"
        );
    }

    #[test]
    fn an_entity_that_was_made_again_has_another_receiver() {
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
