// SPDX-License-Identifier: Apache-2.0
//! Received and browsed messages as columns.

use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, DurationMicrosecondBuilder, FixedSizeBinaryBuilder, Int16Builder, Int32Builder,
    Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use oxbus_broker::client::{Browsed, Delivery, SettleKey};
use oxbus_broker::entity::Queue;
use oxbus_broker::{Receiver, record};
use oxbus_model::message::{Body, Fields, MessageId, Value};
use oxbus_model::options::ReceiveMode;
use oxbus_model::{Counter, Result, Timestamp};
use oxbus_store::{Phase, Stored};

use crate::properties::{PropertiesAs, PropertiesColumn};
use crate::unreadable;

const TOKEN_BYTES: i32 = 16;
/// Records that are fetched at once.
const AHEAD: usize = 16;

fn micros(time: Timestamp) -> i64 {
    time.0 as i64 * 1000
}

/// A column that few rows have a value in: a row without one costs nothing until a later row has one.
struct Sparse<B>(B);

/// What a sparse column needs of its builder.
trait Nulls: ArrayBuilder {
    fn append_nulls(&mut self, rows: usize);
}

impl Nulls for StringBuilder {
    fn append_nulls(&mut self, rows: usize) {
        Self::append_nulls(self, rows);
    }
}

impl Nulls for TimestampMicrosecondBuilder {
    fn append_nulls(&mut self, rows: usize) {
        Self::append_nulls(self, rows);
    }
}

impl Nulls for DurationMicrosecondBuilder {
    fn append_nulls(&mut self, rows: usize) {
        Self::append_nulls(self, rows);
    }
}

impl<B: Nulls> Sparse<B> {
    /// The builder, ready for the value of a row.
    fn at(&mut self, row: usize) -> &mut B {
        self.0.append_nulls(row - self.0.len());
        &mut self.0
    }

    /// The column of that many rows.
    fn finish(&mut self, rows: usize) -> ArrayRef {
        self.at(rows).finish()
    }
}

/// A message as a row shows it.
struct Shown<'a> {
    index: usize,
    counter: Counter,
    record: &'a Stored,
    with_body: bool,
    enqueued_at: Timestamp,
    delivery_count: u32,
    locked_until: Option<Timestamp>,
    state: &'static str,
}

/// The columns of received messages, in the order of the public contract.
pub struct TableBuilder {
    rows: usize,
    body: BinaryBuilder,
    /// Text, which is checked when the column is finished.
    message_id: BinaryBuilder,
    texts: [Sparse<StringBuilder>; 7],
    application_properties: PropertiesColumn,
    scheduled: Sparse<TimestampMicrosecondBuilder>,
    time_to_live: Sparse<DurationMicrosecondBuilder>,
    sequence_number: Int64Builder,
    partition_id: Int16Builder,
    enqueued: TimestampMicrosecondBuilder,
    locked_until: TimestampMicrosecondBuilder,
    delivery_count: Int32Builder,
    lock_token: FixedSizeBinaryBuilder,
    state: StringBuilder,
    dead_letter: [Sparse<StringBuilder>; 2],
}

const TEXTS: [&str; 7] = [
    "session_id",
    "partition_key",
    "subject",
    "correlation_id",
    "content_type",
    "to",
    "reply_to",
];

impl TableBuilder {
    /// For that many rows, whose bodies take at most `body_bytes`.
    pub fn new(rows: usize, body_bytes: usize) -> Self {
        let text = || Sparse(StringBuilder::with_capacity(rows, 0));
        let time = || TimestampMicrosecondBuilder::with_capacity(rows).with_timezone("UTC");
        Self {
            rows: 0,
            body: BinaryBuilder::with_capacity(rows, body_bytes),
            message_id: BinaryBuilder::with_capacity(rows, rows * 32),
            texts: std::array::from_fn(|_| text()),
            application_properties: PropertiesColumn::new(PropertiesAs::Map),
            scheduled: Sparse(time()),
            time_to_live: Sparse(DurationMicrosecondBuilder::with_capacity(rows)),
            sequence_number: Int64Builder::with_capacity(rows),
            partition_id: Int16Builder::with_capacity(rows),
            enqueued: time(),
            locked_until: time(),
            delivery_count: Int32Builder::with_capacity(rows),
            lock_token: FixedSizeBinaryBuilder::with_capacity(rows, TOKEN_BYTES),
            state: StringBuilder::with_capacity(rows, rows * 6),
            dead_letter: [text(), text()],
        }
    }

    /// With application properties in another form.
    #[must_use]
    pub fn with_properties(mut self, form: PropertiesAs) -> Self {
        self.application_properties = PropertiesColumn::new(form);
        self
    }

    /// Adds a received message.
    pub fn push_delivery(&mut self, receiver: &Receiver, delivery: &Delivery) -> Result<()> {
        let claimed = &delivery.claimed;
        let at = SettleKey {
            index: delivery.index,
            key: claimed.key,
        };
        if receiver.mode() == ReceiveMode::PeekLock {
            let token = receiver.token(at).0;
            self.lock_token
                .append_value(token)
                .map_err(|error| unreadable(&error))?;
        } else {
            self.lock_token.append_null();
        }
        self.push(
            receiver.queue(),
            &Shown {
                index: delivery.index,
                counter: claimed.key.counter,
                record: &claimed.record,
                with_body: true,
                enqueued_at: claimed.enqueued_at,
                delivery_count: claimed.delivery_count,
                locked_until: delivery.locked_until,
                state: if claimed.deferred { "deferred" } else { "active" },
            },
        )
    }

    /// Adds a message that was only looked at; it has no lock.
    pub fn push_browsed(&mut self, queue: &Queue, browsed: &Browsed, with_body: bool) -> Result<()> {
        let Browsed { index, message } = browsed;
        self.lock_token.append_null();
        self.push(
            queue,
            &Shown {
                index: *index,
                counter: message.counter,
                record: &message.record,
                with_body,
                enqueued_at: message.enqueued_at,
                delivery_count: message.delivery_count,
                locked_until: None,
                state: match message.phase {
                    Phase::Deferred | Phase::DeferredLocked => "deferred",
                    Phase::Scheduled => "scheduled",
                    Phase::Ready | Phase::Cached | Phase::Locked => "active",
                },
            },
        )
    }

    /// Adds a message of a reservation; its lock is the reservation's.
    pub fn push_reserved(&mut self, queue: &Queue, delivery: &Delivery, with_body: bool) -> Result<()> {
        let claimed = &delivery.claimed;
        self.lock_token.append_null();
        self.push(
            queue,
            &Shown {
                index: delivery.index,
                counter: claimed.key.counter,
                record: &claimed.record,
                with_body,
                enqueued_at: claimed.enqueued_at,
                delivery_count: claimed.delivery_count,
                locked_until: None,
                state: "active",
            },
        )
    }

    fn push(&mut self, queue: &Queue, shown: &Shown<'_>) -> Result<()> {
        let fields = Fields::decode(shown.record.in_memory().expect("what is handed out is in memory"))?;
        match fields.body {
            Body::Data(bytes) if shown.with_body => self.body.append_value(bytes),
            body @ Body::Sections(_) if shown.with_body => self.body.append_value(body.data()),
            Body::Data(_) | Body::Null | Body::Sections(_) => self.body.append_null(),
        }
        match fields.message_id {
            Some(MessageId::Given(id)) => self.message_id.append_value(id),
            Some(MessageId::Assigned(id)) => self.message_id.append_value(id.hex()),
            None => self.message_id.append_null(),
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
            if let Some(text) = text {
                column.at(self.rows).append_value(text);
            }
        }
        let properties = fields.application_properties;
        self.application_properties.push(properties)?;
        if let Some(due) = fields.scheduled_enqueue_time {
            self.scheduled.at(self.rows).append_value(micros(due));
        }
        if let Some(ms) = fields.time_to_live_ms {
            let micros = (ms as i64).saturating_mul(1000);
            self.time_to_live.at(self.rows).append_value(micros);
        }
        self.sequence_number
            .append_value(Queue::sequence_number(shown.index, shown.counter).0 as i64);
        let partition = queue.shown_partition(shown.index);
        self.partition_id
            .append_option(partition.map(|partition| partition.0 as i16));
        self.enqueued.append_value(micros(shown.enqueued_at));
        self.locked_until.append_option(shown.locked_until.map(micros));
        self.delivery_count.append_value(shown.delivery_count as i32);
        self.state.append_value(shown.state);
        for (column, name) in self
            .dead_letter
            .iter_mut()
            .zip([record::DEAD_LETTER_REASON, record::DEAD_LETTER_DESCRIPTION])
        {
            if let Some(Value::Text(text)) = properties.and_then(|properties| properties.get(name)) {
                column.at(self.rows).append_value(text);
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// The columns, also without rows.
    pub fn finish(mut self) -> Result<RecordBatch> {
        let message_id = StringArray::try_from_binary(self.message_id.finish()).map_err(|error| unreadable(&error))?;
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            ("body", Arc::new(self.body.finish())),
            ("message_id", Arc::new(message_id)),
        ];
        for (name, column) in TEXTS.iter().zip(&mut self.texts) {
            columns.push((name, column.finish(self.rows)));
        }
        columns.push(("application_properties", self.application_properties.finish()));
        columns.push(("scheduled_enqueue_time_utc", self.scheduled.finish(self.rows)));
        columns.push(("time_to_live", self.time_to_live.finish(self.rows)));
        columns.push(("sequence_number", Arc::new(self.sequence_number.finish())));
        columns.push(("partition_id", Arc::new(self.partition_id.finish())));
        columns.push(("enqueued_time_utc", Arc::new(self.enqueued.finish())));
        columns.push(("locked_until_utc", Arc::new(self.locked_until.finish())));
        columns.push(("delivery_count", Arc::new(self.delivery_count.finish())));
        columns.push(("lock_token", Arc::new(self.lock_token.finish())));
        columns.push(("state", Arc::new(self.state.finish())));
        columns.push(("dead_letter_reason", self.dead_letter[0].finish(self.rows)));
        columns.push(("dead_letter_error_description", self.dead_letter[1].finish(self.rows)));
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
            .map_err(|error| unreadable(&error))
    }
}

/// Reads something of each record, so that the processor fetches them from memory side by side and not one after the other.
fn fetch(deliveries: &[Delivery]) {
    let ends = |it: &Delivery| {
        let record = it.claimed.record.in_memory()?;
        Some(record.first()? ^ record.last()?)
    };
    std::hint::black_box(deliveries.iter().filter_map(ends).fold(0, |sum, byte| sum ^ byte));
}

/// Received messages as columns.
pub fn table(receiver: &Receiver, deliveries: &[Delivery]) -> Result<RecordBatch> {
    let body_bytes = deliveries.iter().map(|delivery| delivery.claimed.record.len()).sum();
    let mut builder = TableBuilder::new(deliveries.len(), body_bytes);
    for deliveries in deliveries.chunks(AHEAD) {
        fetch(deliveries);
        for delivery in deliveries {
            builder.push_delivery(receiver, delivery)?;
        }
    }
    builder.finish()
}

/// Messages of a reservation as columns.
pub fn reserved_table(queue: &Queue, messages: &[Delivery], with_body: bool) -> Result<RecordBatch> {
    let body_bytes = messages.iter().map(|it| it.claimed.record.len()).sum();
    let mut builder = TableBuilder::new(messages.len(), if with_body { body_bytes } else { 0 });
    for messages in messages.chunks(AHEAD) {
        fetch(messages);
        for message in messages {
            builder.push_reserved(queue, message, with_body)?;
        }
    }
    builder.finish()
}
