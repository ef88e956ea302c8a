// SPDX-License-Identifier: Apache-2.0
//! Rows of a table as batches of messages: a batch has one key, as servers demand.

use std::collections::HashMap;

use oxbus_client::{BatchBuilder, ClientError, Deadline, EncodedMessage};
use oxbus_model::message::Fields;
use oxbus_model::{Effect, Error, ErrorKind, Result};
use pyo3::prelude::*;

use super::call;
use super::error::raise;
use super::sender::RemoteSender;

/// Batches under construction, in the order in which they began.
pub(crate) struct RowBatches {
    limit: u64,
    batches: Vec<RowBatch>,
    /// The batch that takes the next row of a key.
    open: HashMap<Option<Box<str>>, usize>,
    rows: usize,
}

struct RowBatch {
    builder: BatchBuilder,
    rows: Vec<(usize, EncodedMessage)>,
}

/// The rows that were not stored, and the error of the first of them.
pub(crate) struct RowsSent {
    pub(crate) not_stored: Vec<usize>,
    pub(crate) error: Option<SendError>,
}

/// The error of a row.
pub(crate) struct SendError {
    row: usize,
    error: ClientError,
}

impl SendError {
    pub(crate) fn raise(&self) -> PyErr {
        raise(&self.error.clone().with_detail(self.detail()))
    }

    pub(crate) fn effect(&self) -> Option<Effect> {
        self.error.effect()
    }

    pub(crate) fn detail(&self) -> String {
        format!("row {}: {}", self.row, self.error.detail())
    }
}

impl RowBatches {
    /// No rows yet. A batch has at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit: limit as u64,
            batches: Vec::new(),
            open: HashMap::new(),
            rows: 0,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, fields: &Fields<'_>) -> Result<()> {
        let (key, message) = (fields.key()?, EncodedMessage::from_fields(fields));
        let row = self.rows;
        self.rows += 1;
        if let Some(at) = self.open.get(&key.map(Box::from))
            && push(&mut self.batches[*at], row, &message)?
        {
            return Ok(());
        }
        let mut batch = RowBatch {
            builder: BatchBuilder::new(self.limit),
            rows: Vec::new(),
        };
        if !push(&mut batch, row, &message)? {
            let detail = format!(
                "the message is too large; send less in one message: size={} bytes, limit={} bytes",
                message.bytes().len(),
                self.limit
            );
            return Err(Error::new(ErrorKind::MessageSizeExceeded, detail));
        }
        self.open.insert(key.map(Box::from), self.batches.len());
        self.batches.push(batch);
        Ok(())
    }
}

fn push(batch: &mut RowBatch, row: usize, message: &EncodedMessage) -> Result<bool> {
    let pushed = batch.builder.push(message).map_err(|error| {
        let kind = error.broker_kind().unwrap_or(ErrorKind::InvalidArgument);
        Error::new(kind, error.detail())
    })?;
    if pushed {
        batch.rows.push((row, message.clone()));
    }
    Ok(pushed)
}

impl RemoteSender {
    /// Sends rows. Each batch is stored or not for itself.
    ///
    /// An entity may demand keys that differ within a batch, as with duplicate detection. The rows of a batch that is
    /// refused so are sent one by one.
    pub(crate) fn send_rows(&self, py: Python<'_>, batches: RowBatches) -> PyResult<RowsSent> {
        let mut sent = RowsSent {
            not_stored: Vec::new(),
            error: None,
        };
        let mut messages = Vec::with_capacity(batches.batches.len());
        let mut rows = Vec::with_capacity(batches.batches.len());
        for batch in batches.batches {
            messages.push(batch.builder.finish());
            rows.push(batch.rows);
        }
        let mut one_by_one = Vec::new();
        for (rows, result) in rows.into_iter().zip(self.send_each(py, &messages)?) {
            match result {
                Ok(()) => {}
                Err(error) if error.broker_kind() == Some(ErrorKind::InvalidOperation) => one_by_one.extend(rows),
                Err(error) => sent.refuse(rows.into_iter().map(|(row, _)| row), error),
            }
        }
        let messages: Vec<_> = one_by_one.iter().map(|(_, message)| message.clone()).collect();
        for ((row, _), result) in one_by_one.into_iter().zip(self.send_each(py, &messages)?) {
            if let Err(error) = result {
                sent.refuse([row], error);
            }
        }
        sent.not_stored.sort_unstable();
        Ok(sent)
    }

    fn send_each(&self, py: Python<'_>, messages: &[EncodedMessage]) -> PyResult<Vec<oxbus_client::Result<()>>> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        call::run(py, self.inner.send_each(messages, None, Deadline::NEVER))
    }
}

impl RowsSent {
    fn refuse(&mut self, rows: impl IntoIterator<Item = usize>, error: ClientError) {
        let first = self.not_stored.len();
        self.not_stored.extend(rows);
        let row = self.not_stored.get(first).copied().unwrap_or_default();
        self.error.get_or_insert(SendError { row, error });
    }
}
