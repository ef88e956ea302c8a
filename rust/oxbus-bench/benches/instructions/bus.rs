// SPDX-License-Identifier: Apache-2.0
//! The namespaces that the cases work on, and their messages.

use std::path::PathBuf;
use std::sync::Arc;

use oxbus_broker::client::{Delivery, Receiver, Sender, SettleKey, Settlement};
use oxbus_broker::clock::ManualClock;
use oxbus_broker::durable::StoreOptions;
use oxbus_broker::{Namespace, NamespaceOptions, ReceiverOptions};
use oxbus_model::Timestamp;
use oxbus_model::message::{Body, Fields};
use oxbus_model::options::{Durability, QueueSettings};
use oxbus_store::Wait;
use oxbus_store::fault::FaultDisk;

pub(crate) const NOW: Timestamp = Timestamp(1_700_000_000_000);
pub(crate) const BODY: &[u8] = &[7; 100];
pub(crate) const WAIT: &Wait<'static> = &Wait::FOREVER;

/// A namespace in memory with a partitioned queue `orders`.
pub(crate) fn in_memory() -> Namespace {
    with_orders(NamespaceOptions::default())
}

/// The same in files that stand in memory. Nothing is synced, and its clock stands.
pub(crate) fn durable() -> Namespace {
    with_orders(NamespaceOptions {
        store: Some(StoreOptions {
            path: PathBuf::from("/bus"),
            durability: Durability::Os,
            owned: None,
            disk: Some(Arc::new(FaultDisk::new())),
            segment_bytes: None,
        }),
        clock: Some(Arc::new(ManualClock::new(NOW))),
        ..NamespaceOptions::default()
    })
}

fn with_orders(options: NamespaceOptions) -> Namespace {
    let namespace = Namespace::open(options).expect("a namespace");
    let settings = QueueSettings {
        enable_partitioning: true,
        ..QueueSettings::default()
    };
    namespace.create_queue("orders", settings, WAIT).expect("a new queue");
    namespace
}

/// A sender to a queue, and a receiver from it.
pub(crate) fn ends(namespace: &Namespace, queue: &str) -> (Sender, Receiver) {
    let sender = namespace.sender(queue).expect("a sender");
    (sender, receiver(namespace, queue))
}

pub(crate) fn receiver(namespace: &Namespace, path: &str) -> Receiver {
    namespace
        .receiver(path, ReceiverOptions::default())
        .expect("a receiver")
}

pub(crate) fn fields(key: Option<&'static str>) -> Fields<'static> {
    Fields {
        body: Body::Data(BODY),
        partition_key: key,
        ..Fields::default()
    }
}

pub(crate) fn key_of(delivery: &Delivery) -> SettleKey {
    SettleKey {
        index: delivery.index,
        key: delivery.claimed.key,
    }
}

/// The next message, which there is.
pub(crate) fn take(receiver: &Receiver) -> SettleKey {
    let taken = receiver.receive_now(1, WAIT).expect("an open receiver");
    key_of(&taken.expect("what was sent")[0])
}

/// The next message, completed.
pub(crate) fn complete(receiver: &Receiver) {
    receiver
        .settle(take(receiver), Settlement::Complete, WAIT)
        .expect("a lock that holds");
}
