// SPDX-License-Identifier: Apache-2.0
//! Rows of input tables, read as fields of messages without copies.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type};
use arrow_array::{Array, ArrayRef, Int32Array, StructArray};
use arrow_schema::{ArrowError, DataType};
use oxbus_model::message::{Body, Fields, MessageId, PropertiesBuilder};
use oxbus_model::{Error, ErrorKind, PartitionId, Result, Timestamp};

use crate::column::{BytesColumn, ColumnContent, TimeColumn, wrong_type};
use crate::properties::PropertiesColumn;
use crate::unreadable;

/// The columns of one chunk of an input table.
#[derive(Default)]
pub struct InputColumns {
    rows: usize,
    body: Option<BytesColumn>,
    message_id: Option<BytesColumn>,
    session_id: Option<BytesColumn>,
    partition_key: Option<BytesColumn>,
    subject: Option<BytesColumn>,
    correlation_id: Option<BytesColumn>,
    content_type: Option<BytesColumn>,
    to: Option<BytesColumn>,
    reply_to: Option<BytesColumn>,
    application_properties: Option<PropertiesColumn>,
    scheduled_enqueue_time_utc: Option<TimeColumn>,
    time_to_live: Option<TimeColumn>,
    /// Partitions of rows without a key.
    partition_id: Option<Int32Array>,
}

impl InputColumns {
    /// Reads the columns of a chunk. Rejects unknown names and wrong types.
    pub fn read(chunk: &StructArray) -> Result<Self> {
        Self::read_columns(chunk, None)
    }

    /// Reads the columns of a chunk, where `partition_id` may name the partition of rows without a key. Null means
    /// any partition.
    pub fn read_with_partitions(chunk: &StructArray) -> Result<Self> {
        Self::read_columns(chunk, Some("partition_id"))
    }

    fn read_columns(chunk: &StructArray, partition_column: Option<&str>) -> Result<Self> {
        if chunk.null_count() > 0 {
            let detail = "a row of the table is null; drop it".to_owned();
            return Err(unreadable(ArrowError::CDataInterface(detail)));
        }
        let mut columns = Self {
            rows: chunk.len(),
            ..Self::default()
        };
        let fields = chunk.fields();
        for (field, array) in fields.iter().zip(chunk.columns()) {
            if partition_column == Some(field.name().as_str()) {
                columns.partition_id = partitions(array)?;
            } else {
                columns.set(field.name(), array)?;
            }
        }
        Ok(columns)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The bodies, if the rows have nothing else.
    pub(crate) fn only_bodies(&self) -> Option<&BytesColumn> {
        let Self {
            rows: _,
            body,
            message_id: None,
            session_id: None,
            partition_key: None,
            subject: None,
            correlation_id: None,
            content_type: None,
            to: None,
            reply_to: None,
            application_properties: None,
            scheduled_enqueue_time_utc: None,
            time_to_live: None,
            partition_id: None,
        } = self
        else {
            return None;
        };
        body.as_ref()
    }

    /// The row's `partition_id`.
    pub(crate) fn partition(&self, row: usize, count: u16) -> Result<Option<PartitionId>> {
        let Some(column) = self.partition_id.as_ref().filter(|column| column.is_valid(row)) else {
            return Ok(None);
        };
        let value = column.value(row);
        let partition = u16::try_from(value)
            .ok()
            .filter(|partition| *partition < count)
            .map(PartitionId);
        partition.map(Some).ok_or_else(|| {
            let detail = format!("partition_id is out of range; use 0 to {}: {value}", count - 1);
            Error::new(ErrorKind::InvalidArgument, detail)
        })
    }

    fn set(&mut self, name: &str, array: &ArrayRef) -> Result<()> {
        let missing = matches!(array.data_type(), DataType::Null);
        let text = |target: &mut Option<BytesColumn>| {
            if !missing {
                let column = BytesColumn::new(array, ColumnContent::Text)
                    .ok_or_else(|| wrong_type(name, "string", array.data_type()))?;
                *target = Some(column);
            }
            Ok(())
        };
        match name {
            "message_id" => text(&mut self.message_id),
            "session_id" => text(&mut self.session_id),
            "partition_key" => text(&mut self.partition_key),
            "subject" => text(&mut self.subject),
            "correlation_id" => text(&mut self.correlation_id),
            "content_type" => text(&mut self.content_type),
            "to" => text(&mut self.to),
            "reply_to" => text(&mut self.reply_to),
            "body" | "application_properties" | "scheduled_enqueue_time_utc" | "time_to_live" if missing => Ok(()),
            "body" => {
                let column = BytesColumn::new(array, ColumnContent::BytesOrText)
                    .ok_or_else(|| wrong_type(name, "binary or string", array.data_type()))?;
                self.body = Some(column);
                Ok(())
            }
            "application_properties" => {
                self.application_properties = Some(PropertiesColumn::new(array)?);
                Ok(())
            }
            "scheduled_enqueue_time_utc" => {
                let column = TimeColumn::new(array, false)
                    .ok_or_else(|| wrong_type(name, "timestamp[us, UTC]", array.data_type()))?;
                self.scheduled_enqueue_time_utc = Some(column);
                Ok(())
            }
            "time_to_live" => {
                let column =
                    TimeColumn::new(array, true).ok_or_else(|| wrong_type(name, "duration[us]", array.data_type()))?;
                self.time_to_live = Some(column);
                Ok(())
            }
            _ => {
                let detail = format!(
                    "unknown column; rename or drop it, a message has body, message_id, session_id, partition_key, subject, correlation_id, \
                     content_type, to, reply_to, application_properties, scheduled_enqueue_time_utc and time_to_live: `{name}`"
                );
                Err(Error::new(ErrorKind::InvalidArgument, detail))
            }
        }
    }

    /// Calls `run` with the fields of a row.
    pub(crate) fn with_row<R>(
        &self,
        row: usize,
        properties: &mut PropertiesBuilder,
        run: impl FnOnce(&mut Fields<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut fields = Fields {
            body: self
                .body
                .as_ref()
                .map_or(Body::Null, |column| column.get(row).map_or(Body::Null, Body::Data)),
            message_id: self
                .message_id
                .as_ref()
                .and_then(|column| column.text(row))
                .map(MessageId::Given),
            session_id: self.session_id.as_ref().and_then(|column| column.text(row)),
            partition_key: self.partition_key.as_ref().and_then(|column| column.text(row)),
            subject: self.subject.as_ref().and_then(|column| column.text(row)),
            correlation_id: self.correlation_id.as_ref().and_then(|column| column.text(row)),
            content_type: self.content_type.as_ref().and_then(|column| column.text(row)),
            to: self.to.as_ref().and_then(|column| column.text(row)),
            reply_to: self.reply_to.as_ref().and_then(|column| column.text(row)),
            ..Fields::default()
        };
        if let Some(ms) = self
            .scheduled_enqueue_time_utc
            .as_ref()
            .and_then(|column| column.ms(row))
        {
            fields.scheduled_enqueue_time = Some(Timestamp(positive("scheduled_enqueue_time_utc", ms)?));
        }
        if let Some(ms) = self.time_to_live.as_ref().and_then(|column| column.ms(row)) {
            fields.time_to_live_ms = Some(positive("time_to_live", ms)?);
        }
        if let Some(column) = &self.application_properties
            && column.write(row, properties)?
        {
            fields.application_properties = Some(properties.properties());
        }
        run(&mut fields)
    }
}

/// A column of partition ids of a supported integer type.
fn partitions(array: &ArrayRef) -> Result<Option<Int32Array>> {
    Ok(match array.data_type() {
        DataType::Null => None,
        DataType::Int16 => Some(array.as_primitive::<Int16Type>().unary(i32::from)),
        DataType::Int32 => Some(array.as_primitive::<Int32Type>().clone()),
        other => return Err(wrong_type("partition_id", "int16 or int32", other)),
    })
}

fn positive(name: &str, ms: i64) -> Result<u64> {
    u64::try_from(ms).ok().filter(|ms| *ms > 0).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidArgument,
            format!("{name} must be greater than 0: {ms} ms"),
        )
    })
}
