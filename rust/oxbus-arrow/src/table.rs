// SPDX-License-Identifier: Apache-2.0
//! Builds tables of received, browsed and reserved messages.

use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, DurationMicrosecondBuilder, FixedSizeBinaryBuilder, Int16Builder, Int32Builder,
    Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{Field, Schema};
use oxbus_broker::client::{BrowseItem, Delivery, SettleKey};
use oxbus_broker::entity::Entity;
use oxbus_broker::{Receiver, record};
use oxbus_model::message::{Body, Fields, MessageId, Value};
use oxbus_model::options::ReceiveMode;
use oxbus_model::{Counter, Result, Timestamp};
use oxbus_store::{MessagePhase, PeekedMessage, StoredRecord};

use crate::column_selection::{COLUMNS, Column, ColumnSelection};
use crate::properties::{PropertiesColumnBuilder, PropertiesFormat};
use crate::sparse::SparseColumn;
use crate::unreadable;

const TOKEN_BYTES: i32 = 16;

fn micros(time: Timestamp) -> i64 {
    time.0 as i64 * 1000
}

/// A message as a row of a table.
struct MessageRow<'a> {
    index: usize,
    counter: Counter,
    record: &'a [u8],
    with_body: bool,
    enqueued_at: Timestamp,
    delivery_count: u32,
    locked_until: Option<Timestamp>,
    state: &'static str,
}

/// Builds a table of messages, with all or selected columns.
pub struct TableBuilder {
    rows: usize,
    body: Option<BinaryBuilder>,
    /// Text, which `finish` validates.
    message_id: Option<BinaryBuilder>,
    texts: [Option<SparseColumn<StringBuilder>>; 7],
    application_properties: Option<PropertiesColumnBuilder>,
    scheduled: Option<SparseColumn<TimestampMicrosecondBuilder>>,
    time_to_live: Option<SparseColumn<DurationMicrosecondBuilder>>,
    sequence_number: Option<Int64Builder>,
    partition_id: Option<Int16Builder>,
    enqueued: Option<TimestampMicrosecondBuilder>,
    locked_until: Option<TimestampMicrosecondBuilder>,
    delivery_count: Option<Int32Builder>,
    lock_token: Option<FixedSizeBinaryBuilder>,
    state: Option<StringBuilder>,
    dead_letter: [Option<SparseColumn<StringBuilder>>; 2],
}

/// The columns of `texts`.
const TEXTS: [Column; 7] = [
    Column::SessionId,
    Column::PartitionKey,
    Column::Subject,
    Column::CorrelationId,
    Column::ContentType,
    Column::To,
    Column::ReplyTo,
];

/// The columns of `dead_letter`.
const DEAD_LETTER: [Column; 2] = [Column::DeadLetterReason, Column::DeadLetterDescription];

impl TableBuilder {
    /// A builder of all columns. `rows` and `body_bytes` are the expected size.
    pub fn new(rows: usize, body_bytes: usize) -> Self {
        Self::of(&ColumnSelection::default(), rows, body_bytes)
    }

    /// A builder of the selected columns.
    pub fn of(selection: &ColumnSelection, rows: usize, body_bytes: usize) -> Self {
        let text = |column| selection.when(column, || SparseColumn(StringBuilder::with_capacity(rows, 0)));
        let time = || TimestampMicrosecondBuilder::with_capacity(rows).with_timezone("UTC");
        Self {
            rows: 0,
            body: selection.when(Column::Body, || BinaryBuilder::with_capacity(rows, body_bytes)),
            message_id: selection.when(Column::MessageId, || BinaryBuilder::with_capacity(rows, rows * 32)),
            texts: TEXTS.map(text),
            application_properties: selection.when(Column::ApplicationProperties, || {
                PropertiesColumnBuilder::new(PropertiesFormat::Map)
            }),
            scheduled: selection.when(Column::ScheduledEnqueueTime, || SparseColumn(time())),
            time_to_live: selection.when(Column::TimeToLive, || {
                SparseColumn(DurationMicrosecondBuilder::with_capacity(rows))
            }),
            sequence_number: selection.when(Column::SequenceNumber, || Int64Builder::with_capacity(rows)),
            partition_id: selection.when(Column::PartitionId, || Int16Builder::with_capacity(rows)),
            enqueued: selection.when(Column::EnqueuedTime, time),
            locked_until: selection.when(Column::LockedUntil, time),
            delivery_count: selection.when(Column::DeliveryCount, || Int32Builder::with_capacity(rows)),
            lock_token: selection.when(Column::LockToken, || {
                FixedSizeBinaryBuilder::with_capacity(rows, TOKEN_BYTES)
            }),
            state: selection.when(Column::State, || StringBuilder::with_capacity(rows, rows * 6)),
            dead_letter: DEAD_LETTER.map(text),
        }
    }

    /// Sets the format of application properties.
    #[must_use]
    pub fn with_properties(mut self, form: PropertiesFormat) -> Self {
        if let Some(column) = &mut self.application_properties {
            *column = PropertiesColumnBuilder::new(form);
        }
        self
    }

    /// Adds a received message.
    pub fn push_delivery(&mut self, receiver: &Receiver, delivery: &Delivery) -> Result<()> {
        let claimed = &delivery.claimed;
        let at = SettleKey {
            index: delivery.index,
            key: claimed.key,
        };
        if let Some(tokens) = &mut self.lock_token {
            if receiver.mode() == ReceiveMode::PeekLock {
                let token = receiver.token(at).0;
                tokens.append_value(token).map_err(unreadable)?;
            } else {
                tokens.append_null();
            }
        }
        self.push(
            receiver.entity(),
            &MessageRow {
                index: delivery.index,
                counter: claimed.key.counter,
                record: bytes_of(&claimed.record),
                with_body: true,
                enqueued_at: claimed.enqueued_at,
                delivery_count: claimed.delivery_count,
                locked_until: delivery.locked_until,
                state: if claimed.deferred { "deferred" } else { "active" },
            },
        )
    }

    /// Adds a browsed message, which has no lock.
    pub fn push_browsed(&mut self, queue: &Entity, browsed: &BrowseItem, with_body: bool) -> Result<()> {
        let BrowseItem { index, message } = browsed;
        self.push_peeked(queue, *index, message, bytes_of(&message.record), with_body)
    }

    /// Adds a message of the partition with this index. `record` is its encoded bytes.
    pub fn push_peeked(
        &mut self,
        queue: &Entity,
        index: usize,
        message: &PeekedMessage,
        record: &[u8],
        with_body: bool,
    ) -> Result<()> {
        self.push_unlocked(
            queue,
            &MessageRow {
                index,
                counter: message.counter,
                record,
                with_body,
                enqueued_at: message.enqueued_at,
                delivery_count: message.delivery_count,
                locked_until: None,
                state: match message.phase {
                    MessagePhase::Deferred | MessagePhase::DeferredLocked => "deferred",
                    MessagePhase::Scheduled => "scheduled",
                    MessagePhase::Ready | MessagePhase::Cached | MessagePhase::Locked => "active",
                },
            },
        )
    }

    /// Adds a reserved message, which has no lock token: the reservation locks it.
    pub fn push_reserved(&mut self, queue: &Entity, delivery: &Delivery, with_body: bool) -> Result<()> {
        let claimed = &delivery.claimed;
        self.push_unlocked(
            queue,
            &MessageRow {
                index: delivery.index,
                counter: claimed.key.counter,
                record: bytes_of(&claimed.record),
                with_body,
                enqueued_at: claimed.enqueued_at,
                delivery_count: claimed.delivery_count,
                locked_until: None,
                state: "active",
            },
        )
    }

    fn push_unlocked(&mut self, queue: &Entity, row: &MessageRow<'_>) -> Result<()> {
        if let Some(tokens) = &mut self.lock_token {
            tokens.append_null();
        }
        self.push(queue, row)
    }

    fn push(&mut self, queue: &Entity, row: &MessageRow<'_>) -> Result<()> {
        let fields = Fields::decode(row.record)?;
        self.push_fields(&fields, row.with_body)?;
        if let Some(column) = &mut self.sequence_number {
            column.append_value(Entity::sequence_number(row.index, row.counter).0 as i64);
        }
        if let Some(column) = &mut self.partition_id {
            let partition = queue.visible_partition(row.index);
            column.append_option(partition.map(|partition| partition.0 as i16));
        }
        if let Some(column) = &mut self.enqueued {
            column.append_value(micros(row.enqueued_at));
        }
        if let Some(column) = &mut self.locked_until {
            column.append_option(row.locked_until.map(micros));
        }
        if let Some(column) = &mut self.delivery_count {
            column.append_value(row.delivery_count as i32);
        }
        if let Some(column) = &mut self.state {
            column.append_value(row.state);
        }
        self.rows += 1;
        Ok(())
    }

    /// Adds the fields that the sender set, and the dead-letter reason and description.
    fn push_fields(&mut self, fields: &Fields<'_>, with_body: bool) -> Result<()> {
        if let Some(column) = &mut self.body {
            match fields.body {
                Body::Data(bytes) if with_body => column.append_value(bytes),
                body @ Body::Sections(_) if with_body => column.append_value(body.data()),
                Body::Data(_) | Body::Null | Body::Sections(_) => column.append_null(),
            }
        }
        if let Some(column) = &mut self.message_id {
            match fields.message_id {
                Some(MessageId::Given(id)) => column.append_value(id),
                Some(MessageId::Assigned(id)) => column.append_value(id.hex()),
                None => column.append_null(),
            }
        }
        let texts = [
            fields.session_id,
            fields.partition_key,
            fields.subject,
            fields.correlation_id,
            fields.content_type,
            fields.to,
            fields.reply_to,
        ];
        for (column, text) in self.texts.iter_mut().zip(texts) {
            if let (Some(column), Some(text)) = (column, text) {
                column.at(self.rows).append_value(text);
            }
        }
        let properties = fields.application_properties;
        if let Some(column) = &mut self.application_properties {
            column.push(properties)?;
        }
        if let (Some(column), Some(due)) = (&mut self.scheduled, fields.scheduled_enqueue_time) {
            column.at(self.rows).append_value(micros(due));
        }
        if let (Some(column), Some(ms)) = (&mut self.time_to_live, fields.time_to_live_ms) {
            let micros = (ms as i64).saturating_mul(1000);
            column.at(self.rows).append_value(micros);
        }
        let Some(properties) = properties else { return Ok(()) };
        for (column, name) in self
            .dead_letter
            .iter_mut()
            .zip([record::DEAD_LETTER_REASON, record::DEAD_LETTER_DESCRIPTION])
        {
            if let Some(column) = column
                && let Some(Value::Text(text)) = properties.get(name)
            {
                column.at(self.rows).append_value(text);
            }
        }
        Ok(())
    }

    /// Finishes the table.
    pub fn finish(mut self) -> Result<RecordBatch> {
        let rows = self.rows;
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for (column, name) in COLUMNS {
            if let Some(array) = self.finish_column(column)? {
                fields.push(Field::new(name, array.data_type().clone(), true));
                columns.push(array);
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map_err(unreadable)
    }

    /// Finishes a column, if it is selected.
    fn finish_column(&mut self, column: Column) -> Result<Option<ArrayRef>> {
        fn finish_builder(builder: Option<&mut impl ArrayBuilder>) -> Option<ArrayRef> {
            Some(builder?.finish())
        }
        let rows = self.rows;
        let sparse = |texts: &mut [Option<SparseColumn<StringBuilder>>], columns: &[Column]| {
            let found = columns.iter().zip(texts).find(|(it, _)| **it == column);
            Some(found?.1.as_mut()?.finish(rows))
        };
        Ok(match column {
            Column::Body => finish_builder(self.body.as_mut()),
            Column::MessageId => {
                let text = self
                    .message_id
                    .take()
                    .map(|mut ids| StringArray::try_from_binary(ids.finish()));
                let text = text.transpose().map_err(unreadable)?;
                text.map(|text| Arc::new(text) as ArrayRef)
            }
            Column::SessionId
            | Column::PartitionKey
            | Column::Subject
            | Column::CorrelationId
            | Column::ContentType
            | Column::To
            | Column::ReplyTo => sparse(&mut self.texts, &TEXTS),
            Column::ApplicationProperties => self.application_properties.take().map(PropertiesColumnBuilder::finish),
            Column::ScheduledEnqueueTime => self.scheduled.as_mut().map(|it| it.finish(rows)),
            Column::TimeToLive => self.time_to_live.as_mut().map(|it| it.finish(rows)),
            Column::SequenceNumber => finish_builder(self.sequence_number.as_mut()),
            Column::PartitionId => finish_builder(self.partition_id.as_mut()),
            Column::EnqueuedTime => finish_builder(self.enqueued.as_mut()),
            Column::LockedUntil => finish_builder(self.locked_until.as_mut()),
            Column::DeliveryCount => finish_builder(self.delivery_count.as_mut()),
            Column::LockToken => finish_builder(self.lock_token.as_mut()),
            Column::State => finish_builder(self.state.as_mut()),
            Column::DeadLetterReason | Column::DeadLetterDescription => sparse(&mut self.dead_letter, &DEAD_LETTER),
        })
    }
}

/// The bytes of a delivered message.
fn bytes_of(record: &StoredRecord) -> &[u8] {
    record.in_memory().expect("delivered messages are in memory")
}
