// SPDX-License-Identifier: Apache-2.0
//! A settlement that a full journal rejects: it took effect in memory, and its durable effect is unknown.
//!
//! Its error once said that nothing was stored, although the message was removed from memory and from the next
//! snapshot.

use oxbus_store::Wait;
use std::path::PathBuf;
use std::sync::Arc;

use oxbus_broker::client::{SettleKey, Settlement};
use oxbus_broker::durable::StoreOptions;
use oxbus_broker::{ManualClock, Namespace, NamespaceOptions, Receiver, ReceiverOptions};
use oxbus_model::message::{Body, Fields};
use oxbus_model::options::{Durability, QueueSettings};
use oxbus_model::{Effect, ErrorKind, Timestamp};
use oxbus_store::fault::FaultDisk;

const HELD: usize = 8;
/// More locked messages than fit the drain reserve.
const MESSAGES: usize = 6_000;

fn open(disk: &FaultDisk) -> Namespace {
    let options = NamespaceOptions {
        store: Some(StoreOptions {
            path: PathBuf::from("/bus"),
            durability: Durability::Os,
            owned: None,
            disk: Some(Arc::new(disk.clone())),
            segment_bytes: Some((16 << 10, 32 << 10)),
        }),
        partitions: Some(1),
        clock: Some(Arc::new(ManualClock::new(Timestamp(1_000_000)))),
        ..NamespaceOptions::default()
    };
    Namespace::open(options).expect("an intact directory")
}

/// A queue with messages on a full disk: it recorded as many deliveries as fit, and folded them until even the folded
/// form has no space.
fn full(disk: &FaultDisk) -> (Namespace, Receiver, Vec<SettleKey>) {
    let namespace = open(disk);
    let settings = QueueSettings {
        max_delivery_count: 2_000,
        ..QueueSettings::default()
    };
    namespace
        .create_queue("q", settings, &Wait::FOREVER)
        .expect("there is room yet");
    let sender = namespace.sender("q").expect("there is the queue");
    let fields = Fields {
        body: Body::Data(b"body"),
        ..Fields::default()
    };
    for _ in 0..MESSAGES {
        sender.send(&fields, None, &Wait::FOREVER).expect("there is room yet");
    }
    let receiver = namespace.receiver("q", ReceiverOptions::default()).expect("there");
    let keys = |receiver: &Receiver, count| -> oxbus_model::Result<Vec<SettleKey>> {
        let taken = receiver.receive_now(count, &Wait::FOREVER)?.unwrap_or_default();
        let key = |it: &oxbus_broker::client::Delivery| SettleKey {
            index: it.index,
            key: it.claimed.key,
        };
        Ok(taken.iter().map(key).collect())
    };
    let held = keys(&receiver, HELD).expect("there is room yet");
    disk.set_capacity(Some(0));
    let refusal = loop {
        match keys(&receiver, 1) {
            Ok(one) => assert_eq!(one.len(), 1, "an empty answer on a full disk"),
            Err(error) => break error,
        }
    };
    assert_eq!(refusal.kind(), ErrorKind::QuotaExceeded, "{refusal}");
    (namespace, receiver, held)
}

#[test]
fn a_settlement_that_a_full_journal_refuses_has_an_unknown_effect_and_is_not_undone() {
    let disk = FaultDisk::new();
    let (namespace, receiver, held) = full(&disk);
    for (at, settlement) in held.iter().zip([Settlement::Complete, Settlement::Defer(&[])]) {
        let error = receiver
            .settle(*at, settlement, &Wait::FOREVER)
            .expect_err("the journal is full");
        assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{error}");
        assert_eq!(error.effect(), Some(Effect::Unknown), "{error}");
        assert_eq!(error.numbers().len(), 1, "{error}");
        assert!(!error.detail().contains("nothing was stored"), "{error}");
        // It took effect in memory.
        let again = receiver
            .settle(*at, Settlement::Complete, &Wait::FOREVER)
            .expect_err("settled");
        assert_eq!(again.kind(), ErrorKind::MessageLockLost);
    }
    let unsettled = receiver
        .complete_many(&held[2..], &Wait::FOREVER)
        .expect_err("the journal is full");
    assert_eq!(unsettled.positions, (0..HELD - 2).collect::<Vec<_>>());
    assert_eq!(unsettled.error.effect(), Some(Effect::Unknown));
    disk.set_capacity(None);
    drop((receiver, namespace));
    // The close wrote the state in memory: one message is deferred, and the other settled messages are removed.
    let namespace = open(&disk);
    let total = namespace.queue_counts("q", &Wait::FOREVER).expect("there").total;
    // The active count includes deferred messages.
    assert_eq!((total.deferred, total.active), (1, (MESSAGES - HELD + 1) as u64));
}
