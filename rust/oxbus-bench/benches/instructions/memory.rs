// SPDX-License-Identifier: Apache-2.0
//! Cases with a store alone, and with a queue in memory.

use std::hint::black_box;

use oxbus_broker::Namespace;
use oxbus_broker::client::{Batch, Deliveries, Receiver, SettleKey, Settlement};
use oxbus_model::caps::BATCH_SIZE_BYTES_DEFAULT;
use oxbus_model::{Ticks, Timestamp};
use oxbus_store::{ClaimMode, MessageStore, NewMessage, Record, SlotLog};

use crate::bus::{BODY, NOW, WAIT, fields, in_memory, key_of, sender_and_receiver};

/// Each round appends, claims and completes a batch in a store.
pub(crate) fn store(rounds: usize, batch: usize) {
    let log = SlotLog::default();
    let mode = ClaimMode::Lock {
        deadline: Ticks(60_000),
    };
    let message = || NewMessage {
        record: Record::from_slice(BODY).into(),
        expires_at: Timestamp::NEVER,
    };
    let (mut messages, mut out, mut expired, mut lost) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut keys = Vec::new();
    for _ in 0..rounds {
        if batch == 1 {
            log.append_one(message(), NOW);
        } else {
            messages.extend((0..batch).map(|_| message()));
            log.append(&mut messages, NOW);
        }
        assert_eq!(log.claim(batch, mode, NOW, &mut out, &mut expired), batch);
        keys.extend(out.iter().map(|claimed| claimed.key));
        black_box(&out);
        out.clear();
        log.complete(&keys, Ticks(1), &mut lost);
        keys.clear();
    }
    assert!(
        lost.is_empty() && expired.is_empty(),
        "no lock was lost, no message expired"
    );
}

/// A namespace in memory whose metrics are on.
pub(crate) fn metered() -> Namespace {
    let namespace = in_memory();
    namespace.switch_metrics_on();
    namespace
}

/// Each round sends `messages` messages one by one, then receives and completes each.
pub(crate) fn queue(namespace: &Namespace, rounds: usize, messages: usize, key: Option<&'static str>) {
    let (sender, receiver) = sender_and_receiver(namespace, "orders");
    let fields = fields(key);
    let mut deliveries = Deliveries::new();
    for _ in 0..rounds {
        for _ in 0..messages {
            sender.send(black_box(&fields), None, WAIT).expect("sends");
        }
        for _ in 0..messages {
            receiver.receive_into(1, &mut deliveries, WAIT).expect("receives");
            let delivery = deliveries.pop().expect("a message was sent");
            receiver
                .settle(key_of(&delivery), Settlement::Complete, WAIT)
                .expect("the lock is valid");
        }
    }
}

/// The same in batches of 100.
pub(crate) fn queue_by_100(namespace: &Namespace, rounds: usize) {
    let (sender, receiver) = sender_and_receiver(namespace, "orders");
    let fields = fields(None);
    let mut deliveries = Deliveries::new();
    let mut keys = Vec::new();
    for _ in 0..rounds {
        let mut batch = Batch::new(BATCH_SIZE_BYTES_DEFAULT).with_capacity(100);
        for _ in 0..100 {
            batch.push(black_box(&fields)).expect("fits the batch");
        }
        sender.send_batch(batch, None, WAIT).expect("sends");
        receive_and_complete(100, &receiver, &mut deliveries, &mut keys);
    }
}

/// Sends 32 messages, two to each of 16 partitions, in pairs; receives them, and completes them in one call.
pub(crate) fn complete_16_cells(namespace: &Namespace, rounds: usize) {
    let (sender, receiver) = sender_and_receiver(namespace, "orders");
    let fields = fields(None);
    let mut deliveries = Deliveries::new();
    let mut keys = Vec::new();
    for _ in 0..rounds / 16 {
        for _ in 0..16 {
            let mut batch = Batch::new(BATCH_SIZE_BYTES_DEFAULT);
            for _ in 0..2 {
                batch.push(black_box(&fields)).expect("fits the batch");
            }
            sender.send_batch(batch, None, WAIT).expect("sends");
        }
        receive_and_complete(32, &receiver, &mut deliveries, &mut keys);
    }
}

/// Receives `messages` messages and completes them in one call.
fn receive_and_complete(messages: usize, receiver: &Receiver, deliveries: &mut Deliveries, keys: &mut Vec<SettleKey>) {
    while keys.len() < messages {
        receiver
            .receive_into(messages - keys.len(), deliveries, WAIT)
            .expect("receives");
        keys.extend(deliveries.drain(..).map(|delivery| key_of(&delivery)));
    }
    let lost = receiver.complete_many(keys, WAIT).expect("completes");
    assert!(lost.is_empty(), "no lock was lost");
    keys.clear();
}
