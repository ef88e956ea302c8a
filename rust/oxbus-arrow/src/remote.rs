// SPDX-License-Identifier: Apache-2.0
//! Tables of messages that a server delivered, and rows as messages for a server.

use arrow_array::RecordBatch;
use oxbus_model::message::{Fields, MessageId, NewId, PropertiesBuilder};
use oxbus_model::{Counter, LockToken, Result, SequenceNumber, Timestamp};

use crate::column_selection::ColumnSelection;
use crate::message_row::MessageRow;
use crate::rows::InputColumns;
use crate::send::at_row;
use crate::state_column::RowState;
use crate::table::TableBuilder;

/// A message from a server.
#[derive(Debug, Clone, Copy)]
pub struct RemoteRow<'a> {
    /// The sequence number.
    pub number: SequenceNumber,
    /// The partition, if the server tells it.
    pub partition: Option<u16>,
    /// When it was enqueued.
    pub enqueued_at: Timestamp,
    /// Earlier deliveries.
    pub delivery_count: u32,
    /// The end of its lock. `None` for a message without a lock of its own.
    pub locked_until: Option<Timestamp>,
    /// True if it was deferred.
    pub is_deferred: bool,
    /// The lock token. `None` for a message that is deleted already.
    pub lock_token: Option<LockToken>,
    /// Its encoded bytes.
    pub record: &'a [u8],
}

impl MessageRow for RemoteRow<'_> {
    fn index(&self) -> usize {
        usize::from(self.number.partition().0)
    }

    fn counter(&self) -> Counter {
        self.number.counter()
    }

    fn record(&self) -> &[u8] {
        self.record
    }

    fn enqueued_at(&self) -> Timestamp {
        self.enqueued_at
    }

    fn delivery_count(&self) -> u32 {
        self.delivery_count
    }

    fn locked_until(&self) -> Option<Timestamp> {
        self.locked_until
    }

    fn state(&self) -> RowState {
        if self.is_deferred {
            RowState::Deferred
        } else {
            RowState::Active
        }
    }
}

/// A table of messages from a server.
pub fn remote_table(columns: ColumnSelection, rows: &[RemoteRow<'_>]) -> Result<RecordBatch> {
    let bytes = rows.iter().map(|row| row.record.len()).sum();
    let mut builder = TableBuilder::new(columns, rows.len(), bytes);
    builder.push_remote(rows)?;
    builder.finish()
}

/// Calls `take` with the fields of each row, which `number` rows of earlier chunks precede.
pub fn each_row(
    chunk: &InputColumns,
    number: usize,
    new_id: NewId,
    mut take: impl FnMut(&Fields<'_>) -> Result<()>,
) -> Result<()> {
    let ids = new_id(chunk.rows() as u64);
    let mut properties = PropertiesBuilder::default();
    for row in 0..chunk.rows() {
        let taken = chunk.with_row(row, &mut properties, |fields| {
            if fields.message_id.is_none() {
                fields.message_id = Some(MessageId::Assigned(ids.following(row as u64)));
            }
            fields.check()?;
            take(fields)
        });
        taken.map_err(|error| at_row(number + row, &error))?;
    }
    Ok(())
}
