// SPDX-License-Identifier: Apache-2.0
//! The store alone, and a queue in memory.

use std::hint::black_box;

use oxbus_broker::Namespace;
use oxbus_broker::client::{Batch, Deliveries, Receiver, SettleKey, Settlement};
use oxbus_model::caps::BATCH_SIZE_BYTES_DEFAULT;
use oxbus_model::{Ticks, Timestamp};
use oxbus_store::{ClaimMode, MessageStore, NewMessage, Record, SlotLog};

use crate::bus::{BODY, NOW, WAIT, ends, fields, in_memory, key_of};

/// Messages through the store alone: append, claim, complete.
pub(crate) fn store(rounds: usize, batch: usize) {
    let log = SlotLog::default();
    let hold = ClaimMode::Lock {
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
        assert_eq!(log.claim(batch, hold, NOW, &mut out, &mut expired), batch);
        keys.extend(out.iter().map(|claimed| claimed.key));
        black_box(&out);
        out.clear();
        log.complete(&keys, Ticks(1), &mut lost);
        keys.clear();
    }
    assert!(lost.is_empty() && expired.is_empty(), "every lock held");
}

/// Messages one by one: so many sent, then each received and completed, so many times.
pub(crate) fn queue(rounds: usize, messages: usize, key: Option<&'static str>) {
    let namespace = in_memory();
    let (sender, receiver) = ends(&namespace, "orders");
    let fields = fields(key);
    let mut deliveries = Deliveries::new();
    for _ in 0..rounds {
        for _ in 0..messages {
            sender.send(black_box(&fields), None, WAIT).expect("room");
        }
        for _ in 0..messages {
            receiver
                .receive_into(1, &mut deliveries, WAIT)
                .expect("an open receiver");
            let delivery = deliveries.pop().expect("what was sent");
            receiver
                .settle(key_of(&delivery), Settlement::Complete, WAIT)
                .expect("a lock that holds");
        }
    }
}

/// The same by the hundred.
pub(crate) fn queue_by_100(rounds: usize) {
    let namespace = in_memory();
    let (sender, receiver) = ends(&namespace, "orders");
    let fields = fields(None);
    let mut deliveries = Deliveries::new();
    let mut keys = Vec::new();
    for _ in 0..rounds {
        let mut batch = Batch::new(BATCH_SIZE_BYTES_DEFAULT).with_capacity(100);
        for _ in 0..100 {
            batch.push(black_box(&fields)).expect("room in the batch");
        }
        sender.send_batch(batch, None, WAIT).expect("room");
        receive_and_complete(100, &receiver, &mut deliveries, &mut keys);
    }
}

/// 32 messages, two from each of 16 partitions: sent in pairs, received, and completed as one list.
pub(crate) fn complete_16_cells(namespace: &Namespace, rounds: usize) {
    let (sender, receiver) = ends(namespace, "orders");
    let fields = fields(None);
    let mut deliveries = Deliveries::new();
    let mut keys = Vec::new();
    for _ in 0..rounds / 16 {
        for _ in 0..16 {
            let mut batch = Batch::new(BATCH_SIZE_BYTES_DEFAULT);
            for _ in 0..2 {
                batch.push(black_box(&fields)).expect("room in the batch");
            }
            sender.send_batch(batch, None, WAIT).expect("room");
        }
        receive_and_complete(32, &receiver, &mut deliveries, &mut keys);
    }
}

/// So many messages, completed as one list.
fn receive_and_complete(messages: usize, receiver: &Receiver, deliveries: &mut Deliveries, keys: &mut Vec<SettleKey>) {
    while keys.len() < messages {
        receiver
            .receive_into(messages - keys.len(), deliveries, WAIT)
            .expect("an open receiver");
        keys.extend(deliveries.drain(..).map(|delivery| key_of(&delivery)));
    }
    let lost = receiver.complete_many(keys, WAIT).expect("a store that works");
    assert!(lost.is_empty(), "every lock held");
    keys.clear();
}
