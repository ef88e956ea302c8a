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
    rows: Vec<usize>,
}

/// The rows that were not stored, and the error of the first of them.
pub(crate) struct RowsSent {
    pub(crate) not_stored: Vec<usize>,
    pub(crate) error: Option<SendError>,
}

/// The error of rows.
pub(crate) struct SendError(ClientError);

impl SendError {
    pub(crate) fn raise(&self) -> PyErr {
        raise(&self.0)
    }

    pub(crate) fn effect(&self) -> Option<Effect> {
        self.0.effect()
    }

    pub(crate) fn detail(&self) -> &str {
        self.0.detail()
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
        batch.rows.push(row);
    }
    Ok(pushed)
}

impl RemoteSender {
    /// Sends rows. Each batch is stored or not for itself.
    pub(crate) fn send_rows(&self, py: Python<'_>, batches: RowBatches) -> PyResult<RowsSent> {
        let mut rows = Vec::with_capacity(batches.batches.len());
        let mut messages = Vec::with_capacity(batches.batches.len());
        for batch in batches.batches {
            messages.push(batch.builder.finish());
            rows.push(batch.rows);
        }
        let results = call::run(py, self.inner.send_each(&messages, None, Deadline::NEVER))?;
        let mut sent = RowsSent {
            not_stored: Vec::new(),
            error: None,
        };
        for (rows, result) in rows.into_iter().zip(results) {
            if let Err(error) = result {
                sent.not_stored.extend(rows);
                sent.error.get_or_insert(SendError(error));
            }
        }
        sent.not_stored.sort_unstable();
        Ok(sent)
    }
}
