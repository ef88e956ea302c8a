// SPDX-License-Identifier: Apache-2.0
//! `send_arrow`: rows of a table as messages, grouped by partition.
//!
//! All rows are checked and encoded before the first is stored. Each group is stored whole and in row order; a group
//! that its partition refuses keeps its keyed rows unstored and passes its keyless rows on.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::DataType;
use oxbus_broker::client::Row;
use oxbus_broker::routing::Route;
use oxbus_broker::shard::Refusal;
use oxbus_broker::{Sender, Stages};
use oxbus_model::message::{Body, Fields, MessageId, PropertiesBuilder, Value};
use oxbus_model::{Error, ErrorKind, PartitionId, Result, Timestamp};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::capsule::{failed, import};
use super::column::{Bytes, Kind, TextMap, Times, wrong_type};
use crate::error::{named, raise};
use crate::ids;
use crate::waiting;

/// The columns of one chunk.
#[derive(Default)]
struct Columns {
    rows: usize,
    body: Option<Bytes>,
    message_id: Option<Bytes>,
    session_id: Option<Bytes>,
    partition_key: Option<Bytes>,
    subject: Option<Bytes>,
    correlation_id: Option<Bytes>,
    content_type: Option<Bytes>,
    to: Option<Bytes>,
    reply_to: Option<Bytes>,
    application_properties: Option<TextMap>,
    scheduled_enqueue_time_utc: Option<Times>,
    time_to_live: Option<Times>,
}

impl Columns {
    fn read(chunk: &StructArray) -> PyResult<Self> {
        let mut columns = Self {
            rows: chunk.len(),
            ..Self::default()
        };
        let fields = chunk.fields();
        for (field, array) in fields.iter().zip(chunk.columns()) {
            columns.set(field.name(), array)?;
        }
        Ok(columns)
    }

    fn set(&mut self, name: &str, array: &ArrayRef) -> PyResult<()> {
        let missing = matches!(array.data_type(), DataType::Null);
        let text = |place: &mut Option<Bytes>| {
            if !missing {
                let column =
                    Bytes::new(array, Kind::Text).ok_or_else(|| wrong_type(name, "string", array.data_type()))?;
                *place = Some(column);
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
                let column = Bytes::new(array, Kind::BytesOrText)
                    .ok_or_else(|| wrong_type(name, "binary or string", array.data_type()))?;
                self.body = Some(column);
                Ok(())
            }
            "application_properties" => {
                let column =
                    TextMap::new(array).ok_or_else(|| wrong_type(name, "map<string, string>", array.data_type()))?;
                self.application_properties = Some(column);
                Ok(())
            }
            "scheduled_enqueue_time_utc" => {
                let column = Times::new(array, false)
                    .ok_or_else(|| wrong_type(name, "timestamp[us, UTC]", array.data_type()))?;
                self.scheduled_enqueue_time_utc = Some(column);
                Ok(())
            }
            "time_to_live" => {
                let column =
                    Times::new(array, true).ok_or_else(|| wrong_type(name, "duration[us]", array.data_type()))?;
                self.time_to_live = Some(column);
                Ok(())
            }
            _ => {
                let detail = format!(
                    "unknown column; rename or drop it, a message has body, message_id, session_id, partition_key, subject, correlation_id, \
                     content_type, to, reply_to, application_properties, scheduled_enqueue_time_utc and time_to_live: `{name}`"
                );
                Err(PyValueError::new_err(detail))
            }
        }
    }

    /// Runs `run` on a row as fields, without a message id when the row has none.
    fn with_row<R>(
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
        if let Some(entries) = self
            .application_properties
            .as_ref()
            .and_then(|column| column.entries(row))
        {
            properties.clear();
            for (key, value) in entries {
                properties.push(key, value.map_or(Value::Null, Value::Text));
            }
            fields.application_properties = Some(properties.properties());
        }
        run(&mut fields)
    }
}

fn positive(name: &str, ms: i64) -> Result<u64> {
    u64::try_from(ms).ok().filter(|ms| *ms > 0).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidArgument,
            format!("{name} must be greater than 0: {ms} ms"),
        )
    })
}

/// Rows for one partition.
#[derive(Default)]
struct Group {
    rows: Vec<Row>,
    numbers: Vec<usize>,
    /// Places in `rows` that have no key.
    keyless: Vec<usize>,
}

impl Group {
    fn push(&mut self, row: Row, number: usize, keyed: bool) {
        if !keyed {
            self.keyless.push(self.rows.len());
        }
        self.rows.push(row);
        self.numbers.push(number);
    }

    /// The rows without a key as a group of their own; the others stay.
    fn split_keyless(&mut self) -> Self {
        let mut apart = Self::default();
        let mut keyless = std::mem::take(&mut self.keyless).into_iter().peekable();
        let rows = std::mem::take(&mut self.rows)
            .into_iter()
            .zip(std::mem::take(&mut self.numbers));
        for (place, (row, number)) in rows.enumerate() {
            let is_keyless = keyless.next_if_eq(&place).is_some();
            if is_keyless {
                apart.push(row, number, false);
            } else {
                self.push(row, number, true);
            }
        }
        apart
    }
}

/// What became of the rows.
#[derive(Default)]
struct Sent {
    stored: BTreeMap<u16, usize>,
    refused: Vec<usize>,
    refusal: Option<Error>,
}

/// Rows by partition; those without a key go to the given ones in turn.
fn encode(sender: &Sender, chunks: &[Columns], keyless: &[PartitionId]) -> Result<Vec<Group>> {
    let queue = sender.queue();
    let partitions = queue.partitions();
    let max = queue.message_size_bytes_max();
    let mut groups: Vec<Group> = (0..partitions).map(|_| Group::default()).collect();
    let mut turn = keyless.iter().cycle();
    let mut properties = PropertiesBuilder::default();
    let mut number = 0;
    for chunk in chunks {
        for row in 0..chunk.rows {
            let encoded = chunk.with_row(row, &mut properties, |fields| {
                if fields.message_id.is_none() {
                    fields.message_id = Some(MessageId::Assigned(ids::next()));
                }
                Ok((sender.route(fields)?, Row::new(fields, max)?))
            });
            let (route, encoded) = encoded.map_err(|error| of_row(number, &error))?;
            let (partition, keyed) = match route {
                Route::Keyed(partition) => (partition, true),
                Route::Keyless => (turn.next().copied().unwrap_or(PartitionId(0)), false),
            };
            groups[usize::from(partition.0)].push(encoded, number, keyed);
            number += 1;
        }
    }
    Ok(groups)
}

fn store(sender: &Sender, groups: Vec<Group>) -> Sent {
    let mut sent = Sent::default();
    let mut passed_on = Vec::new();
    for (index, mut group) in groups.into_iter().enumerate() {
        if group.rows.is_empty() {
            continue;
        }
        let partition = PartitionId(index as u16);
        let count = group.rows.len();
        match sender.send_rows(partition, &mut group.rows) {
            Ok(()) => *sent.stored.entry(partition.0).or_default() += count,
            Err(Refusal { error, is_definite, .. }) => {
                // Nobody knows whether rows were stored that were not refused for certain: elsewhere they might double.
                if is_definite {
                    passed_on.push((partition, group.split_keyless()));
                }
                sent.refused.append(&mut group.numbers);
                sent.refusal.get_or_insert(error);
            }
        }
    }
    for (refused_by, mut group) in passed_on {
        let count = group.rows.len();
        if count == 0 {
            continue;
        }
        let others = sender.turn().filter(|partition| *partition != refused_by);
        match others
            .into_iter()
            .find(|partition| sender.send_rows(*partition, &mut group.rows).is_ok())
        {
            Some(partition) => *sent.stored.entry(partition.0).or_default() += count,
            None => sent.refused.append(&mut group.numbers),
        }
    }
    sent.refused.sort_unstable();
    sent
}

/// The columns of an Arrow object.
fn read(data: &Bound<'_, PyAny>) -> PyResult<Vec<Columns>> {
    let Some(imported) = import(data)? else {
        let name = data.get_type().name()?;
        return Err(pyo3::exceptions::PyTypeError::new_err(format!(
            "send_arrow takes Arrow data: a table or batch of pyarrow, polars or pandas, or any object with __arrow_c_stream__: {name}"
        )));
    };
    if !matches!(imported.data_type, DataType::Struct(_)) {
        return Err(PyValueError::new_err(format!(
            "send_arrow takes a table with named columns: {}",
            imported.data_type
        )));
    }
    let mut chunks = Vec::with_capacity(imported.chunks.len());
    for chunk in &imported.chunks {
        let chunk = chunk.as_struct();
        if chunk.null_count() > 0 {
            return Err(failed(&arrow_schema::ArrowError::CDataInterface(
                "a row of the table is null; drop it".to_owned(),
            )));
        }
        chunks.push(Columns::read(chunk)?);
    }
    Ok(chunks)
}

/// Stores the rows of an Arrow object. Partition id → rows stored.
pub(crate) fn send<'py>(sender: &Sender, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = data.py();
    let chunks = read(data)?;
    let sent = waiting::outside(py, || {
        sender.check_sends()?;
        // Those that work now.
        let serves = |it: &PartitionId| sender.queue().shard(usize::from(it.0)).health().fault().is_none();
        let keyless: Vec<PartitionId> = sender.turn().filter(serves).collect();
        Ok(store(sender, encode(sender, &chunks, &keyless)?))
    })?;
    let sent: Sent = sent.map_err(|error: Error| raise(&error))?;
    let stored = PyDict::new(py);
    for (partition, rows) in &sent.stored {
        stored.set_item(partition, rows)?;
    }
    if sent.refused.is_empty() {
        return Ok(stored);
    }
    let refusal = sent
        .refusal
        .unwrap_or_else(|| Error::new(ErrorKind::PartitionUnavailable, "no partition took the rows; try again"));
    if sent.stored.is_empty() {
        return Err(raise(&refusal));
    }
    let detail = format!(
        "{} rows were not stored, send them again; the first was refused because: {refusal}",
        sent.refused.len()
    );
    Err(named("PartialSendError", &detail, |keywords| {
        keywords.set_item("rows", sent.refused.clone())?;
        keywords.set_item("partitions", stored.clone())
    }))
}

/// Attaches the rows of an Arrow object under a name, which its partitions take once. Partition id → rows that were attached
/// now; rows without a key go to partition `keyless`.
pub(crate) fn attach<'py>(
    sender: &Sender,
    data: &Bound<'py, PyAny>,
    name: &str,
    keyless: u16,
) -> PyResult<Bound<'py, PyDict>> {
    let py = data.py();
    let chunks = read(data)?;
    let attached = waiting::outside(py, || {
        sender.check_sends()?;
        let mut attached = Vec::new();
        for (index, group) in encode(sender, &chunks, &[PartitionId(keyless)])?
            .into_iter()
            .enumerate()
        {
            let rows = group.rows.len();
            if rows > 0 && sender.attach_rows(PartitionId(index as u16), name, group.rows)? {
                attached.push((index, rows));
            }
        }
        Ok(attached)
    })?;
    let attached: Vec<(usize, usize)> = attached.map_err(|error: Error| raise(&error))?;
    let counts = PyDict::new(py);
    for (partition, rows) in attached {
        counts.set_item(partition, rows)?;
    }
    Ok(counts)
}

/// Rows that are handed to a stage together.
const STAGE_ROWS: usize = 1024;

/// Puts the rows of an Arrow object aside as a stage; how many.
pub(crate) fn stage(stages: &Stages, entity: &str, id: &str, data: &Bound<'_, PyAny>) -> PyResult<u64> {
    let chunks = read(data)?;
    let staged = waiting::outside(data.py(), || {
        let mut staging = stages.begin(entity, id)?;
        let max = staging.row_bytes_max();
        let mut properties = PropertiesBuilder::default();
        let mut number = 0;
        for chunk in &chunks {
            let mut rows = Vec::with_capacity(STAGE_ROWS.min(chunk.rows));
            for row in 0..chunk.rows {
                let encoded = chunk.with_row(row, &mut properties, |fields| {
                    if fields.message_id.is_none() {
                        fields.message_id = Some(MessageId::Assigned(ids::next()));
                    }
                    Row::new(fields, max)
                });
                rows.push(encoded.map_err(|error| of_row(number, &error))?);
                number += 1;
                if rows.len() == STAGE_ROWS {
                    staging.push(None, std::mem::take(&mut rows))?;
                }
            }
            staging.push(None, rows)?;
        }
        staging.finish()
    })?;
    staged.map_err(|error: Error| raise(&error))
}

fn of_row(number: usize, error: &Error) -> Error {
    Error::new(error.kind(), format!("row {number}: {}", error.detail()))
}
