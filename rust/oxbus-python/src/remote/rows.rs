// SPDX-License-Identifier: Apache-2.0
//! Rows of a table as batches of messages.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};

use oxbus_client::{BatchBuilder, ClientError, Deadline, EncodedMessage};
use oxbus_model::message::Fields;
use oxbus_model::{Effect, Error, ErrorKind, Result};
use pyo3::prelude::*;

use super::call;
use super::error::raise;
use super::sender::RemoteSender;

/// The rows of a send.
pub(crate) struct Rows {
    limit: u64,
    rows: Vec<Row>,
}

struct Row {
    key: Option<Box<str>>,
    message: EncodedMessage,
}

/// Which rows may share a batch. An entity without partitions takes all, and so keeps the order of all rows. One with
/// partitions demands one key, and with duplicate detection one id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Grouping {
    All = 0,
    SameKey = 1,
    Single = 2,
}

struct RowBatch {
    builder: BatchBuilder,
    rows: Vec<usize>,
}

/// The rows that were not stored, and the error of the first of them.
#[derive(Default)]
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

impl Grouping {
    /// The grouping that the entity of a sender is known to demand.
    fn of(known: &AtomicU8) -> Self {
        match known.load(Ordering::Relaxed) {
            0 => Self::All,
            1 => Self::SameKey,
            _ => Self::Single,
        }
    }

    fn next(self) -> Self {
        match self {
            Self::All => Self::SameKey,
            Self::SameKey | Self::Single => Self::Single,
        }
    }
}

impl Rows {
    /// No rows yet. A batch has at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit: limit as u64,
            rows: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, fields: &Fields<'_>) -> Result<()> {
        let row = Row {
            key: fields.key()?.map(Box::from),
            message: EncodedMessage::from_fields(fields),
        };
        let size = row.message.bytes().len();
        if size as u64 > self.limit {
            let detail = format!(
                "the message is too large; send less in one message: size={size} bytes, limit={} bytes",
                self.limit
            );
            return Err(Error::new(ErrorKind::MessageSizeExceeded, detail));
        }
        self.rows.push(row);
        Ok(())
    }

    /// Batches of some rows, in the order in which they began.
    fn batches(&self, of: &[usize], grouping: Grouping) -> oxbus_client::Result<Vec<(EncodedMessage, Vec<usize>)>> {
        if grouping == Grouping::Single {
            return Ok(of
                .iter()
                .map(|&row| (self.rows[row].message.clone(), vec![row]))
                .collect());
        }
        let mut batches: Vec<RowBatch> = Vec::new();
        // The batch that takes the next row of a key.
        let mut open: HashMap<Option<&str>, usize> = HashMap::new();
        for &row in of {
            let Row { key, message } = &self.rows[row];
            let key = key.as_deref().filter(|_| grouping == Grouping::SameKey);
            let batch = open.get(&key).map(|&at| &mut batches[at]);
            if let Some(batch) = batch
                && batch.builder.push(message)?
            {
                batch.rows.push(row);
                continue;
            }
            let mut builder = BatchBuilder::new(self.limit);
            let rows = vec![row];
            if builder.push(message)? {
                open.insert(key, batches.len());
            } else {
                // It fits alone, but not with the frame of a batch, which nothing else joins.
                builder = BatchBuilder::new(u64::MAX);
                builder.push(message)?;
            }
            batches.push(RowBatch { builder, rows });
        }
        Ok(batches
            .into_iter()
            .map(|batch| (batch.builder.finish(), batch.rows))
            .collect())
    }
}

impl RemoteSender {
    /// Sends rows. Each batch is stored or not for itself.
    pub(crate) fn send_rows(&self, py: Python<'_>, rows: &Rows) -> PyResult<RowsSent> {
        let sent = call::run(py, async {
            let mut sent = RowsSent::default();
            let mut todo: Vec<usize> = (0..rows.rows.len()).collect();
            let mut grouping = Grouping::of(&self.grouping);
            while !todo.is_empty() {
                let demanded = grouping.next();
                let (messages, of): (Vec<_>, Vec<_>) = rows.batches(&todo, grouping)?.into_iter().unzip();
                todo.clear();
                let results = self.inner.send_each(&messages, None, Deadline::NEVER).await?;
                for (rows, result) in of.into_iter().zip(results) {
                    match result {
                        Ok(()) => {}
                        Err(error) if rows.len() > 1 && error.broker_kind() == Some(ErrorKind::InvalidOperation) => {
                            grouping = demanded;
                            todo.extend(rows);
                        }
                        Err(error) => sent.refuse(rows, error),
                    }
                }
            }
            // A row that the entity takes in no batch says nothing about the others.
            if sent.error.is_none() {
                self.grouping.store(grouping as u8, Ordering::Relaxed);
            }
            Ok(sent)
        })?;
        Ok(sent.in_order())
    }
}

impl RowsSent {
    fn in_order(mut self) -> Self {
        self.not_stored.sort_unstable();
        self
    }

    fn refuse(&mut self, rows: impl IntoIterator<Item = usize>, error: ClientError) {
        let first = self.not_stored.len();
        self.not_stored.extend(rows);
        let row = self.not_stored.get(first).copied().unwrap_or_default();
        self.error.get_or_insert(SendError { row, error });
    }
}
