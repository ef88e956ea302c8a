// SPDX-License-Identifier: Apache-2.0
//! Tables of received and reserved messages.

use arrow_array::RecordBatch;
use oxbus_broker::Receiver;
use oxbus_broker::client::Delivery;
use oxbus_broker::entity::Entity;
use oxbus_model::Result;

use crate::table::TableBuilder;

/// Records that are prefetched at once.
const PREFETCHED_RECORDS: usize = 16;

/// Reads a byte at each end of each record, so that the processor loads them into its cache in parallel.
fn prefetch(deliveries: &[Delivery]) {
    let ends = |it: &Delivery| {
        let record = it.claimed.record.in_memory()?;
        Some(record.first()? ^ record.last()?)
    };
    std::hint::black_box(deliveries.iter().filter_map(ends).fold(0, |sum, byte| sum ^ byte));
}

/// A table of received messages.
pub fn table(receiver: &Receiver, deliveries: &[Delivery]) -> Result<RecordBatch> {
    let body_bytes = deliveries.iter().map(|delivery| delivery.claimed.record.len()).sum();
    let mut builder = TableBuilder::new(deliveries.len(), body_bytes);
    for deliveries in deliveries.chunks(PREFETCHED_RECORDS) {
        prefetch(deliveries);
        for delivery in deliveries {
            builder.push_delivery(receiver, delivery)?;
        }
    }
    builder.finish()
}

/// A table of messages of a reservation.
pub fn reserved_table(queue: &Entity, messages: &[Delivery], with_body: bool) -> Result<RecordBatch> {
    let body_bytes = messages.iter().map(|it| it.claimed.record.len()).sum();
    let mut builder = TableBuilder::new(messages.len(), if with_body { body_bytes } else { 0 });
    for messages in messages.chunks(PREFETCHED_RECORDS) {
        prefetch(messages);
        for message in messages {
            builder.push_reserved(queue, message, with_body)?;
        }
    }
    builder.finish()
}
