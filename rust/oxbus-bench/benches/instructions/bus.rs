// SPDX-License-Identifier: Apache-2.0
//! Namespaces and messages of the cases.

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

/// A namespace with orders and a journal in an in-memory file system. It does not sync, and its clock does not advance.
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
    let namespace = Namespace::open(options).expect("opens");
    let settings = QueueSettings {
        enable_partitioning: true,
        ..QueueSettings::default()
    };
    namespace
        .create_queue("orders", settings, WAIT)
        .expect("creates the queue");
    namespace
}

/// A sender and a receiver of a queue.
pub(crate) fn sender_and_receiver(namespace: &Namespace, queue: &str) -> (Sender, Receiver) {
    let sender = namespace.sender(queue).expect("opens a sender");
    (sender, receiver(namespace, queue))
}

pub(crate) fn receiver(namespace: &Namespace, path: &str) -> Receiver {
    namespace
        .receiver(path, ReceiverOptions::default())
        .expect("opens a receiver")
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

/// Receives the next message. Panics when there is none.
pub(crate) fn receive(receiver: &Receiver) -> SettleKey {
    let deliveries = receiver.receive_now(1, WAIT).expect("receives");
    key_of(&deliveries.expect("a message was sent")[0])
}

/// Receives and completes the next message.
pub(crate) fn complete(receiver: &Receiver) {
    receiver
        .settle(receive(receiver), Settlement::Complete, WAIT)
        .expect("the lock is valid");
}
