// SPDX-License-Identifier: Apache-2.0
//! Sending to a server.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use oxbus_broker::client::Batch;
use oxbus_client::{BatchBuilder, Client, Deadline, EncodedMessage, Sender};
use oxbus_model::message::Fields;
use oxbus_model::{Error, ErrorKind, Result, SequenceNumber, Timestamp};
use pyo3::prelude::*;

use super::RemoteTransaction;
use super::call;

/// Messages at most this large pass on every server, so that sending them needs no look at the limit.
const SIZE_ALWAYS_ALLOWED: usize = 64 << 10;

/// A sender to an entity of a server.
pub(crate) struct RemoteSender {
    pub(super) inner: Arc<Sender>,
    /// Which rows of a table the entity takes in one batch, see `rows`.
    pub(super) grouping: AtomicU8,
    client: Client,
}

/// Messages for one send. They are stored together or not at all.
pub(crate) struct RemoteBatch {
    messages: Vec<EncodedMessage>,
    due: Option<Timestamp>,
}

impl RemoteBatch {
    /// No messages yet. They become active at `due` if it is given, else at their own times.
    pub(crate) fn new(due: Option<Timestamp>) -> Self {
        Self {
            messages: Vec::new(),
            due,
        }
    }

    /// The messages of a batch.
    pub(crate) fn of(batch: &Batch, due: Option<Timestamp>) -> Result<Self> {
        let mut messages = Self::new(due);
        for record in batch.records() {
            messages.add(&Fields::decode(record)?);
        }
        Ok(messages)
    }

    /// Checks and adds a message.
    pub(crate) fn push(&mut self, fields: &Fields<'_>) -> Result<()> {
        fields.check()?;
        fields.key()?;
        self.add(fields);
        Ok(())
    }

    fn add(&mut self, fields: &Fields<'_>) {
        let scheduled_enqueue_time = self.due.or(fields.scheduled_enqueue_time);
        self.messages.push(EncodedMessage::from_fields(&Fields {
            scheduled_enqueue_time,
            ..*fields
        }));
    }
}

impl RemoteSender {
    pub(super) fn new(client: Client, path: &str) -> Self {
        Self {
            inner: Arc::new(client.sender(path)),
            grouping: AtomicU8::new(0),
            client,
        }
    }

    /// The largest batch, in bytes.
    pub(crate) fn batch_bytes_max(&self, py: Python<'_>) -> PyResult<usize> {
        let limits = call::run(py, self.inner.limits(Deadline::NEVER))?;
        Ok(usize::try_from(limits.batch).unwrap_or(usize::MAX))
    }

    /// Sends messages. Returns once the server has stored them.
    pub(crate) fn send(
        &self,
        py: Python<'_>,
        messages: RemoteBatch,
        transaction: Option<&RemoteTransaction>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        call::run(py, self.sending(messages, transaction, timeout)?)
    }

    /// The call of a send.
    pub(crate) fn sending<'a>(
        &self,
        messages: RemoteBatch,
        transaction: Option<&'a RemoteTransaction>,
        timeout: Option<f64>,
    ) -> PyResult<impl Future<Output = oxbus_client::Result<()>> + Send + use<'a>> {
        let deadline = call::deadline("timeout", timeout)?;
        let transaction = transaction.map(|it| it.on(self.inner.path())).transpose()?;
        let mut messages = messages.messages;
        let sender = Arc::clone(&self.inner);
        Ok(async move {
            let size: usize = messages.iter().map(|message| message.bytes().len()).sum();
            let message = match messages.len() {
                0 => return Ok(()),
                1 => messages.swap_remove(0),
                _ => batch(&messages, sender.limits(deadline).await?.batch)?,
            };
            if size > SIZE_ALWAYS_ALLOWED {
                check_size(message.bytes().len(), sender.limits(deadline).await?.message)?;
            }
            sender.send(&message, transaction, deadline).await
        })
    }

    /// Schedules messages, which have their times. Returns their numbers, and none in a transaction: a server gives them
    /// at the commit, and tells nobody.
    pub(crate) fn schedule(
        &self,
        py: Python<'_>,
        messages: &RemoteBatch,
        transaction: Option<&RemoteTransaction>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<SequenceNumber>> {
        let deadline = call::deadline("timeout", timeout)?;
        let messages = &messages.messages;
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let transaction = transaction.map(|it| it.on(self.inner.path())).transpose()?;
        let management = self.client.management(self.inner.path());
        let numbers = call::run(py, management.schedule(messages, transaction, deadline))?;
        Ok(if transaction.is_some() { Vec::new() } else { numbers })
    }

    pub(crate) fn cancel_scheduled(
        &self,
        py: Python<'_>,
        numbers: &[SequenceNumber],
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let deadline = call::deadline("timeout", timeout)?;
        if numbers.is_empty() {
            return Ok(());
        }
        let management = self.client.management(self.inner.path());
        call::run(py, management.cancel_scheduled(numbers, deadline))
    }

    /// Detaches the link.
    pub(crate) fn close(&self, py: Python<'_>) {
        // A signal leaves the rest to the server.
        let _ = call::run(py, async {
            self.inner.close().await;
            Ok(())
        });
    }
}

fn batch(messages: &[EncodedMessage], limit: u64) -> oxbus_client::Result<EncodedMessage> {
    let mut batch = BatchBuilder::new(limit);
    for message in messages {
        if !batch.push(message)? {
            let detail = format!(
                "the messages are too large for one send; send them in several lists, or use create_message_batch: \
                 messages={} limit={limit} bytes",
                messages.len()
            );
            return Err(Error::new(ErrorKind::MessageSizeExceeded, detail).into());
        }
    }
    Ok(batch.finish())
}

fn check_size(size: usize, limit: u64) -> oxbus_client::Result<()> {
    // Zero means that the server does not tell.
    if limit > 0 && size as u64 > limit {
        let detail =
            format!("the message is too large; send less in one message: size={size} bytes, limit={limit} bytes");
        return Err(Error::new(ErrorKind::MessageSizeExceeded, detail).into());
    }
    Ok(())
}
