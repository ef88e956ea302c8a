// SPDX-License-Identifier: Apache-2.0
//! Batches: messages stored in one partition, all or none (B-079 … B-084).

use oxbus_model::caps::BATCH_MESSAGE_OVERHEAD_BYTES;
use oxbus_model::message::Fields;
use oxbus_model::{Error, ErrorKind, Result, Timestamp};

use crate::write::EncodedMessage;

/// The key that all messages of a batch share.
#[derive(Debug, Clone, PartialEq, Eq)]
enum BatchKey {
    Empty,
    Same(Option<Box<str>>),
    Mixed,
}

/// Encoded messages with their common key. A batch can be sent more than once; clones share the encoded bytes.
#[derive(Debug, Clone)]
pub struct Batch {
    pub(crate) messages: Vec<EncodedMessage>,
    key: BatchKey,
    size_bytes: usize,
    size_bytes_max: usize,
}

impl Batch {
    /// An empty batch of at most `size_bytes_max` bytes.
    pub fn new(size_bytes_max: usize) -> Self {
        Self {
            messages: Vec::new(),
            key: BatchKey::Empty,
            size_bytes: 0,
            size_bytes_max,
        }
    }

    /// Reserves memory for this many messages.
    #[must_use]
    pub fn with_capacity(mut self, messages: usize) -> Self {
        self.messages.reserve(messages);
        self
    }

    /// Checks, encodes and adds a message. If that fails, the batch is unchanged.
    pub fn push(&mut self, fields: &Fields<'_>) -> Result<()> {
        fields.check()?;
        let key = fields.key()?;
        let len = fields.encoded_len();
        let size_bytes = self.size_bytes + len + BATCH_MESSAGE_OVERHEAD_BYTES;
        if size_bytes > self.size_bytes_max {
            let detail = format!(
                "the message does not fit into the batch; send the batch and put the message into the next one: \
                 size={size_bytes} bytes, limit={} bytes",
                self.size_bytes_max
            );
            return Err(Error::new(ErrorKind::MessageSizeExceeded, detail));
        }
        match &self.key {
            BatchKey::Empty => self.key = BatchKey::Same(key.map(Into::into)),
            BatchKey::Same(first) if first.as_deref() != key => self.key = BatchKey::Mixed,
            BatchKey::Same(_) | BatchKey::Mixed => {}
        }
        self.messages.push(EncodedMessage::new(fields, len));
        self.size_bytes = size_bytes;
        Ok(())
    }

    /// Sets the scheduled enqueue time of all messages, in their records too (B-232).
    pub fn schedule_all(&mut self, due: Timestamp) -> Result<()> {
        for message in &mut self.messages {
            let mut fields = Fields::decode(&message.record)?;
            fields.scheduled_enqueue_time = Some(due);
            let encoded = EncodedMessage::new(&fields, fields.encoded_len());
            *message = encoded;
        }
        Ok(())
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// The encoded messages.
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.messages.iter().map(|message| &*message.record)
    }

    /// True if it has no messages.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes of its messages with their overhead.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Maximum size in bytes.
    pub fn size_bytes_max(&self) -> usize {
        self.size_bytes_max
    }

    /// The largest message, in bytes.
    pub(crate) fn largest_message_bytes(&self) -> usize {
        self.messages.iter().map(EncodedMessage::bytes).max().unwrap_or(0)
    }

    /// Returns the common key of all messages. Fails if their keys differ (B-080).
    pub(crate) fn key(&self) -> Result<Option<&str>> {
        match &self.key {
            BatchKey::Empty => Ok(None),
            BatchKey::Same(key) => Ok(key.as_deref()),
            BatchKey::Mixed => {
                let detail = "all messages of a batch to a partitioned entity need the same session_id or partition_key; \
                              send one batch per key, or use send_arrow, which splits by key";
                Err(Error::new(ErrorKind::InvalidOperation, detail))
            }
        }
    }
}
