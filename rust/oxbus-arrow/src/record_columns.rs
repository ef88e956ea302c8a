// SPDX-License-Identifier: Apache-2.0
//! The columns that are read from the encoded bytes of messages.

use arrow_array::ArrayRef;
use arrow_array::builder::{DurationMicrosecondBuilder, StringBuilder, TimestampMicrosecondBuilder};
use arrow_array::types::{BinaryType, Utf8Type};
use oxbus_broker::record;
use oxbus_model::message::{AssignedId, Body, Fields, MessageId, Properties, Value};
use oxbus_model::{Result, Timestamp};

use crate::bytes_column::BytesColumnBuilder;
use crate::column_selection::{Column, ColumnSelection};
use crate::properties::{PropertiesColumnBuilder, PropertiesFormat};
use crate::sparse::{NullColumns, SparseColumn};

/// Bytes of a message id that a sender assigned.
const ASSIGNED_ID_BYTES: usize = 32;

pub(crate) fn micros(time: Timestamp) -> i64 {
    time.0 as i64 * 1000
}

/// The selected columns that are read from the encoded bytes.
pub(crate) struct RecordColumns {
    /// The expected number of rows.
    expected: usize,
    with_bodies: bool,
    body: Option<BytesColumnBuilder>,
    /// Text, which `finish` validates.
    message_id: Option<BytesColumnBuilder>,
    texts: [Option<SparseColumn<StringBuilder>>; 7],
    application_properties: Option<PropertiesColumnBuilder>,
    scheduled: Option<SparseColumn<TimestampMicrosecondBuilder>>,
    time_to_live: Option<SparseColumn<DurationMicrosecondBuilder>>,
    dead_letter: [Option<SparseColumn<StringBuilder>>; 2],
    /// True if a column is selected that most messages leave empty.
    has_details: bool,
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

/// The columns of `dead_letter` and their application properties.
const DEAD_LETTER: [(Column, &str); 2] = [
    (Column::DeadLetterReason, record::DEAD_LETTER_REASON),
    (Column::DeadLetterDescription, record::DEAD_LETTER_DESCRIPTION),
];

impl RecordColumns {
    pub(crate) fn of(selection: ColumnSelection, rows: usize, body_bytes: usize) -> Self {
        let texts = TEXTS.map(|column| selection.when(column, SparseColumn::default));
        let application_properties = selection.when(Column::ApplicationProperties, PropertiesColumnBuilder::default);
        let scheduled = selection.when(Column::ScheduledEnqueueTime, SparseColumn::default);
        let time_to_live = selection.when(Column::TimeToLive, SparseColumn::default);
        let dead_letter = DEAD_LETTER.map(|(column, _)| selection.when(column, SparseColumn::default));
        Self {
            expected: rows,
            with_bodies: true,
            body: selection.when(Column::Body, || BytesColumnBuilder::with_capacity(rows, body_bytes)),
            message_id: selection.when(Column::MessageId, || {
                BytesColumnBuilder::with_capacity(rows, rows * ASSIGNED_ID_BYTES)
            }),
            has_details: texts.iter().chain(&dead_letter).any(Option::is_some)
                || application_properties.is_some()
                || scheduled.is_some()
                || time_to_live.is_some(),
            texts,
            application_properties,
            scheduled,
            time_to_live,
            dead_letter,
        }
    }

    pub(crate) fn set_properties_format(&mut self, format: PropertiesFormat) {
        if let Some(column) = &mut self.application_properties {
            column.set_format(format);
        }
    }

    /// Makes every body null.
    pub(crate) fn leave_bodies_out(&mut self) {
        self.with_bodies = false;
    }

    /// True if a selected column is read from the encoded bytes.
    pub(crate) fn need_records(&self) -> bool {
        (self.body.is_some() && self.with_bodies) || self.message_id.is_some() || self.has_details
    }

    /// Adds a null body for each row of a chunk whose bytes are not needed.
    pub(crate) fn push_nulls(&mut self, rows: usize) {
        if let Some(column) = &mut self.body {
            (0..rows).for_each(|_| column.push_null());
        }
    }

    /// Adds a row. `row` is its number.
    #[inline]
    pub(crate) fn push(&mut self, row: usize, record: &[u8]) -> Result<()> {
        if let Some((id, body)) = Fields::decode_plain(record) {
            self.push_body(Body::Data(body));
            self.push_id(id.map(MessageId::Assigned));
            return Ok(());
        }
        self.push_fields(row, record)
    }

    /// Adds a row that may have any field.
    #[inline(never)]
    fn push_fields(&mut self, row: usize, record: &[u8]) -> Result<()> {
        let fields = Fields::decode(record)?;
        self.push_body(fields.body);
        self.push_id(fields.message_id);
        if self.has_details {
            self.push_details(row, &fields)?;
        }
        Ok(())
    }

    #[inline]
    fn push_body(&mut self, body: Body<'_>) {
        if let Some(column) = &mut self.body {
            match body {
                Body::Data(bytes) if self.with_bodies => column.push(bytes),
                body @ Body::Sections(_) if self.with_bodies => column.push(&body.data()),
                Body::Data(_) | Body::Null | Body::Sections(_) => column.push_null(),
            }
        }
    }

    #[inline]
    fn push_id(&mut self, id: Option<MessageId<'_>>) {
        if let Some(column) = &mut self.message_id {
            match id {
                Some(MessageId::Assigned(id)) => column.push(&AssignedId::hex(id)),
                Some(MessageId::Given(id)) => column.push(id.as_bytes()),
                None => column.push_null(),
            }
        }
    }

    /// Sets what the sender set, and the dead-letter reason and description.
    fn push_details(&mut self, row: usize, fields: &Fields<'_>) -> Result<()> {
        let rows = self.expected;
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
                column.set(row, text, rows);
            }
        }
        if let (Some(column), Some(due)) = (&mut self.scheduled, fields.scheduled_enqueue_time) {
            column.set(row, micros(due), rows);
        }
        if let (Some(column), Some(ms)) = (&mut self.time_to_live, fields.time_to_live_ms) {
            column.set(row, (ms as i64).saturating_mul(1000), rows);
        }
        fields
            .application_properties
            .map_or(Ok(()), |properties| self.push_properties(row, properties))
    }

    fn push_properties(&mut self, row: usize, properties: Properties<'_>) -> Result<()> {
        let rows = self.expected;
        for (column, (_, name)) in self.dead_letter.iter_mut().zip(DEAD_LETTER) {
            if let Some(column) = column
                && let Some(Value::Text(text)) = properties.get(name)
            {
                column.set(row, text, rows);
            }
        }
        match &mut self.application_properties {
            Some(column) => column.set(row, properties),
            None => Ok(()),
        }
    }

    /// Finishes a column of this number of rows. Returns `None` if it is not selected.
    pub(crate) fn finish_column(
        &mut self,
        column: Column,
        rows: usize,
        nulls: &mut NullColumns,
    ) -> Result<Option<ArrayRef>> {
        let sparse = |texts: Option<&mut Option<SparseColumn<StringBuilder>>>, nulls: &mut NullColumns| {
            let column = texts?.take()?;
            Some(column.finish(rows).unwrap_or_else(|| nulls.text()))
        };
        Ok(match column {
            Column::Body => (self.body.take())
                .map(|it| it.finish::<BinaryType>("body"))
                .transpose()?,
            Column::MessageId => (self.message_id.take())
                .map(|it| it.finish::<Utf8Type>("message_id"))
                .transpose()?,
            Column::ApplicationProperties => {
                let column = self.application_properties.take();
                column.map(|it| it.finish(rows, nulls)).transpose()?
            }
            Column::ScheduledEnqueueTime => {
                (self.scheduled.take()).map(|column| column.finish(rows).unwrap_or_else(|| nulls.times()))
            }
            Column::TimeToLive => {
                (self.time_to_live.take()).map(|column| column.finish(rows).unwrap_or_else(|| nulls.durations()))
            }
            Column::DeadLetterReason | Column::DeadLetterDescription => {
                let found = self
                    .dead_letter
                    .iter_mut()
                    .zip(DEAD_LETTER)
                    .find(|(_, it)| it.0 == column);
                sparse(found.map(|found| found.0), nulls)
            }
            other => {
                let found = self.texts.iter_mut().zip(TEXTS).find(|(_, it)| *it == other);
                sparse(found.map(|found| found.0), nulls)
            }
        })
    }
}
