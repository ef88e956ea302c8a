// SPDX-License-Identifier: Apache-2.0
//! A queue in files.

use std::hint::black_box;

use oxbus_broker::client::{Batch, Settlement};
use oxbus_model::caps::BATCH_SIZE_BYTES_DEFAULT;

use crate::bus::{WAIT, durable, ends, fields, take};

/// Messages to one partition, each written before it is acknowledged.
pub(crate) fn send(rounds: usize) {
    let namespace = durable();
    let (sender, _receiver) = ends(&namespace, "orders");
    let fields = fields(Some("customer-4711"));
    for _ in 0..rounds {
        sender.send(black_box(&fields), None, WAIT).expect("room");
    }
}

/// A message is received; in one transaction it is completed and the next one sent.
pub(crate) fn transaction(rounds: usize) {
    let namespace = durable();
    let (sender, receiver) = ends(&namespace, "orders");
    let fields = fields(Some("customer-4711"));
    sender.send(&fields, None, WAIT).expect("room");
    for _ in 0..rounds {
        let key = take(&receiver);
        let work = namespace.transaction(false).expect("a transaction");
        work.settle(&receiver, &[key], Settlement::Complete, WAIT)
            .expect("a lock that holds");
        let mut batch = Batch::new(BATCH_SIZE_BYTES_DEFAULT);
        batch.push(black_box(&fields)).expect("room in the batch");
        work.send(&sender, batch, None).expect("room");
        work.commit(WAIT).expect("all of it");
    }
}
