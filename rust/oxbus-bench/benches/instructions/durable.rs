// SPDX-License-Identifier: Apache-2.0
//! Cases with a durable queue.

use std::hint::black_box;

use oxbus_broker::client::{Batch, Settlement};
use oxbus_model::caps::BATCH_SIZE_BYTES_DEFAULT;

use crate::bus::{WAIT, durable, fields, receive, sender_and_receiver};

/// Sends `rounds` messages to one partition, each written before it is acknowledged.
pub(crate) fn send(rounds: usize) {
    let namespace = durable();
    let (sender, _receiver) = sender_and_receiver(&namespace, "orders");
    let fields = fields(Some("customer-4711"));
    for _ in 0..rounds {
        sender.send(black_box(&fields), None, WAIT).expect("sends");
    }
}

/// Each round receives a message, and in one transaction completes it and sends the next.
pub(crate) fn transaction(rounds: usize) {
    let namespace = durable();
    let (sender, receiver) = sender_and_receiver(&namespace, "orders");
    let fields = fields(Some("customer-4711"));
    sender.send(&fields, None, WAIT).expect("sends");
    for _ in 0..rounds {
        let key = receive(&receiver);
        let transaction = namespace.transaction(false).expect("begins a transaction");
        transaction
            .settle(&receiver, &[key], Settlement::Complete, WAIT)
            .expect("the lock is valid");
        let mut batch = Batch::new(BATCH_SIZE_BYTES_DEFAULT);
        batch.push(black_box(&fields)).expect("fits the batch");
        transaction.send(&sender, batch, None).expect("sends");
        transaction.commit(WAIT).expect("commits");
    }
}
