// SPDX-License-Identifier: Apache-2.0
//! What a connection keeps of the entities that it receives from: a receiver each, with a cache as in the service.
//!
//! A receive on a partitioned entity asks all partitions, hands out one message and keeps the others locked for later
//! requests of the same connection (B-125, B-130). When the connection ends they stay locked until their locks end (B-129).

use std::sync::{Arc, Mutex, PoisonError};

use oxbus_broker::{Namespace, Receiver, ReceiverOptions};
use oxbus_model::Result;
use oxbus_model::caps::HTTP_RECEIVERS_MAX;
use oxbus_model::name::EntityName;
use oxbus_model::options::{LockPolicy, ReceiveMode};

/// The receivers of a connection, the one used last at the end.
#[derive(Default, Clone)]
pub(in crate::http) struct Kept(Arc<Mutex<Vec<(String, Arc<Receiver>)>>>);

impl Kept {
    /// The receiver of an entity in peek-lock mode.
    pub(super) fn receiver(&self, namespace: &Namespace, path: &str) -> Result<Arc<Receiver>> {
        let key = EntityName::key_of(path);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(name, _)| *name == key).map(|at| kept.remove(at));
        // An entity that was deleted and created again is another one.
        let alive = found.filter(|(_, receiver)| !receiver.is_closed() && receiver.queue().check_alive().is_ok());
        let entry = match alive {
            Some(entry) => entry,
            None => (key, Arc::new(open(namespace, path, ReceiveMode::PeekLock)?)),
        };
        if kept.len() >= HTTP_RECEIVERS_MAX {
            kept.remove(0);
        }
        let receiver = Arc::clone(&entry.1);
        kept.push(entry);
        Ok(receiver)
    }

    /// Ends all of them.
    pub(in crate::http) fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A receiver of a path, which may name a dead-letter queue.
pub(super) fn open(namespace: &Namespace, path: &str, mode: ReceiveMode) -> Result<Receiver> {
    let (path, sub_queue) = EntityName::split_sub_queue(path);
    let entity = namespace.entity(path)?;
    // What is received and deleted is never kept: it would be lost with the connection.
    let caches = mode == ReceiveMode::PeekLock && entity.is_partitioned();
    let options = ReceiverOptions {
        sub_queue,
        mode,
        prefetch: if caches {
            usize::from(entity.partitions()) - 1
        } else {
            0
        },
        lock_policy: Some(LockPolicy::Faithful),
        ..ReceiverOptions::default()
    };
    namespace.receiver(path, options)
}
