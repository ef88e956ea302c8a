// SPDX-License-Identifier: Apache-2.0
//! Builds tables of received, browsed and reserved messages.
//!
//! Only selected columns are built, a chunk of rows at a time: first the columns that need no encoded bytes, each in
//! one loop, then those that do.

use std::sync::Arc;

use arrow_array::types::{Int16Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{ArrayRef, FixedSizeBinaryArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_schema::{Field, Schema};
use oxbus_broker::Receiver;
use oxbus_broker::client::{BrowseItem, Delivery, SettleKey};
use oxbus_broker::entity::Entity;
use oxbus_model::Result;
use oxbus_model::options::ReceiveMode;
use oxbus_store::PeekedMessage;

use crate::column_selection::{COLUMNS, Column, ColumnSelection};
use crate::message_row::{MessageRow, PeekedRow, ReservedRow};
use crate::number_column::NumberColumn;
use crate::properties::PropertiesFormat;
use crate::record_columns::{RecordColumns, micros};
use crate::remote::RemoteRow;
use crate::sparse::NullColumns;
use crate::state_column::StateColumn;
use crate::unreadable;

const TOKEN_BYTES: usize = 16;
/// Rows of a chunk. Their encoded bytes are prefetched together.
const CHUNK_ROWS: usize = 16;

/// The partition of a row of a queue, if the queue has partitions.
fn partition_in<R: MessageRow>(queue: &Entity) -> impl Fn(&R) -> Option<u16> {
    |row| Some(queue.visible_partition(row.index())?.0)
}

/// Builds a table of messages, with all or selected columns.
pub struct TableBuilder {
    rows: usize,
    records: RecordColumns,
    sequence_number: Option<NumberColumn<Int64Type>>,
    partition_id: Option<NumberColumn<Int16Type>>,
    enqueued: Option<NumberColumn<TimestampMicrosecondType>>,
    locked_until: Option<NumberColumn<TimestampMicrosecondType>>,
    delivery_count: Option<NumberColumn<Int32Type>>,
    /// The tokens of all rows, or of none.
    lock_token: Option<Vec<u8>>,
    state: Option<StateColumn>,
}

impl TableBuilder {
    /// A builder of the selected columns. `rows` and `body_bytes` are the expected size.
    pub fn new(selection: ColumnSelection, rows: usize, body_bytes: usize) -> Self {
        Self {
            rows: 0,
            records: RecordColumns::of(selection, rows, body_bytes),
            sequence_number: selection.when(Column::SequenceNumber, || NumberColumn::with_capacity(rows)),
            partition_id: selection.when(Column::PartitionId, || NumberColumn::with_capacity(rows)),
            enqueued: selection.when(Column::EnqueuedTime, || NumberColumn::with_capacity(rows)),
            locked_until: selection.when(Column::LockedUntil, || NumberColumn::with_capacity(rows)),
            delivery_count: selection.when(Column::DeliveryCount, || NumberColumn::with_capacity(rows)),
            lock_token: selection.when(Column::LockToken, Vec::new),
            state: selection.when(Column::State, StateColumn::default),
        }
    }

    /// Sets the format of application properties.
    #[must_use]
    pub fn with_properties(mut self, format: PropertiesFormat) -> Self {
        self.records.set_properties_format(format);
        self
    }

    /// Keeps or omits bodies. Without bodies the column `body` has only nulls.
    #[must_use]
    pub fn with_bodies(mut self, keep: bool) -> Self {
        if !keep {
            self.records.leave_bodies_out();
        }
        self
    }

    /// True if a selected column is read from the encoded bytes of messages.
    pub fn needs_records(&self) -> bool {
        self.records.need_records()
    }

    /// Adds received messages.
    pub fn push_deliveries(&mut self, receiver: &Receiver, deliveries: &[Delivery]) -> Result<()> {
        if let Some(tokens) = &mut self.lock_token
            && receiver.mode() == ReceiveMode::PeekLock
        {
            tokens.reserve_exact(TOKEN_BYTES * deliveries.len());
        }
        for chunk in deliveries.chunks(CHUNK_ROWS) {
            if let Some(tokens) = &mut self.lock_token
                && receiver.mode() == ReceiveMode::PeekLock
            {
                for delivery in chunk {
                    let at = SettleKey {
                        index: delivery.index,
                        key: delivery.claimed.key,
                    };
                    tokens.extend_from_slice(&receiver.token(at).0);
                }
            }
            if self.needs_records() {
                prefetch(chunk);
            }
            self.push_chunk(partition_in(receiver.entity()), chunk)?;
        }
        Ok(())
    }

    /// Adds messages from a server.
    pub(crate) fn push_remote(&mut self, rows: &[RemoteRow<'_>]) -> Result<()> {
        if let Some(tokens) = &mut self.lock_token {
            for token in rows.iter().filter_map(|row| row.lock_token) {
                tokens.extend_from_slice(&token.0);
            }
        }
        for chunk in rows.chunks(CHUNK_ROWS) {
            self.push_chunk(|row| row.partition, chunk)?;
        }
        Ok(())
    }

    /// Adds reserved messages, which have no lock token: the reservation locks them.
    pub fn push_reserved(&mut self, queue: &Entity, messages: &[Delivery]) -> Result<()> {
        for chunk in messages.chunks(CHUNK_ROWS) {
            if self.needs_records() {
                prefetch(chunk);
            }
            let rows: Vec<ReservedRow<'_>> = chunk.iter().map(ReservedRow).collect();
            self.push_chunk(partition_in(queue), &rows)?;
        }
        Ok(())
    }

    /// Adds browsed messages, which have no lock.
    pub fn push_browsed(&mut self, queue: &Entity, items: &[BrowseItem]) -> Result<()> {
        for chunk in items.chunks(CHUNK_ROWS) {
            let rows: Vec<PeekedRow<'_>> = chunk.iter().map(PeekedRow::from).collect();
            self.push_chunk(partition_in(queue), &rows)?;
        }
        Ok(())
    }

    /// Adds a message of the partition with this index. `record` is its encoded bytes, which may be empty if
    /// [`Self::needs_records`] is false.
    pub fn push_peeked(&mut self, queue: &Entity, index: usize, message: &PeekedMessage, record: &[u8]) -> Result<()> {
        let row = PeekedRow { index, message, record };
        self.push_chunk(partition_in(queue), &[row])
    }

    /// Adds rows to all columns except that of the lock tokens.
    #[inline]
    fn push_chunk<R: MessageRow>(&mut self, partition: impl Fn(&R) -> Option<u16>, chunk: &[R]) -> Result<()> {
        if let Some(column) = &mut self.sequence_number {
            let number = |row: &R| Entity::sequence_number(row.index(), row.counter()).0 as i64;
            column.extend(chunk.iter().map(number));
        }
        if let Some(column) = &mut self.partition_id {
            column.extend_options(chunk.iter().map(|row| Some(partition(row)? as i16)));
        }
        if let Some(column) = &mut self.enqueued {
            column.extend(chunk.iter().map(|row| micros(row.enqueued_at())));
        }
        if let Some(column) = &mut self.locked_until {
            column.extend_options(chunk.iter().map(|row| row.locked_until().map(micros)));
        }
        if let Some(column) = &mut self.delivery_count {
            column.extend(chunk.iter().map(|row| row.delivery_count() as i32));
        }
        if let Some(column) = &mut self.state {
            column.extend(chunk.iter().map(MessageRow::state));
        }
        if self.records.need_records() {
            for (row, message) in (self.rows..).zip(chunk) {
                self.records.push(row, message.record())?;
            }
        } else {
            self.records.push_nulls(chunk.len());
        }
        self.rows += chunk.len();
        Ok(())
    }

    /// Finishes the table.
    pub fn finish(mut self) -> Result<RecordBatch> {
        let rows = self.rows;
        let mut nulls = NullColumns::new(rows);
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for (column, name) in COLUMNS {
            if let Some(array) = self.finish_column(column, &mut nulls)? {
                fields.push(Field::new(name, array.data_type().clone(), true));
                columns.push(array);
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map_err(unreadable)
    }

    /// Finishes a column, if it is selected.
    fn finish_column(&mut self, column: Column, nulls: &mut NullColumns) -> Result<Option<ArrayRef>> {
        let rows = self.rows;
        Ok(match column {
            Column::SequenceNumber => self.sequence_number.take().map(NumberColumn::finish),
            Column::PartitionId => self.partition_id.take().map(NumberColumn::finish),
            Column::EnqueuedTime => self.enqueued.take().map(NumberColumn::finish_as_utc),
            Column::LockedUntil => self.locked_until.take().map(NumberColumn::finish_as_utc),
            Column::DeliveryCount => self.delivery_count.take().map(NumberColumn::finish),
            Column::LockToken => self.lock_token.take().map(|tokens| finish_tokens(tokens, rows)),
            Column::State => self.state.take().map(StateColumn::finish),
            other => self.records.finish_column(other, rows, nulls)?,
        })
    }
}

/// The column of lock tokens. Without tokens all rows are null.
fn finish_tokens(tokens: Vec<u8>, rows: usize) -> ArrayRef {
    let width = TOKEN_BYTES as i32;
    Arc::new(if tokens.is_empty() {
        FixedSizeBinaryArray::new_null(width, rows)
    } else {
        FixedSizeBinaryArray::new(width, Buffer::from_vec(tokens), None)
    })
}

/// Reads a byte at each end of each record, so that the processor loads them into its cache in parallel.
fn prefetch(deliveries: &[Delivery]) {
    let ends = |it: &Delivery| {
        let record = it.claimed.record.in_memory()?;
        Some(record.first()? ^ record.last()?)
    };
    std::hint::black_box(deliveries.iter().filter_map(ends).fold(0, |sum, byte| sum ^ byte));
}
