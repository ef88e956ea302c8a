// SPDX-License-Identifier: Apache-2.0
//! Tables of received and reserved messages.

use arrow_array::RecordBatch;
use oxbus_broker::Receiver;
use oxbus_broker::client::Delivery;
use oxbus_broker::entity::Entity;
use oxbus_model::Result;

use crate::column_selection::ColumnSelection;
use crate::table::TableBuilder;

/// Encoded bytes of messages, which bound those of their bodies.
fn encoded_bytes(messages: &[Delivery]) -> usize {
    messages.iter().map(|it| it.claimed.record.len()).sum()
}

/// A table of received messages.
pub fn table(columns: ColumnSelection, receiver: &Receiver, deliveries: &[Delivery]) -> Result<RecordBatch> {
    let mut builder = TableBuilder::new(columns, deliveries.len(), encoded_bytes(deliveries));
    builder.push_deliveries(receiver, deliveries)?;
    builder.finish()
}

/// A table of messages of a reservation.
pub fn reserved_table(
    columns: ColumnSelection,
    queue: &Entity,
    messages: &[Delivery],
    with_bodies: bool,
) -> Result<RecordBatch> {
    let body_bytes = if with_bodies { encoded_bytes(messages) } else { 0 };
    let mut builder = TableBuilder::new(columns, messages.len(), body_bytes).with_bodies(with_bodies);
    builder.push_reserved(queue, messages)?;
    builder.finish()
}
