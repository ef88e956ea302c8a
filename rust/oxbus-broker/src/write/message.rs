// SPDX-License-Identifier: Apache-2.0
//! An encoded message, with the fields that a write needs.

use oxbus_model::message::{AssignedId, Fields};
use oxbus_model::{Error, ErrorKind, Identity, PartitionId, Result, Timestamp};
use oxbus_store::Record;

use crate::record::encode_sized;

/// A message on its way into an entity. It is encoded once, and all copies share its bytes.
#[derive(Debug, Clone)]
pub struct EncodedMessage {
    pub(crate) record: Record,
    /// The partition of its key. `None` without a key, and in a batch, which is routed as a whole.
    pub(crate) partition: Option<PartitionId>,
    /// Its identity, if the destination detects duplicates.
    pub(crate) identity: Option<Identity>,
    /// When it becomes active, if not at once.
    pub(crate) due: Option<Timestamp>,
    pub(crate) time_to_live_ms: Option<u64>,
}

impl EncodedMessage {
    /// Encodes checked fields of `len` encoded bytes.
    #[inline]
    pub(crate) fn new(fields: &Fields<'_>, len: usize) -> Self {
        Self {
            record: encode_sized(len, fields),
            partition: None,
            identity: None,
            due: fields.scheduled_enqueue_time,
            time_to_live_ms: fields.time_to_live_ms,
        }
    }

    /// A message that has only an assigned id and a body.
    #[inline]
    fn plain(id: AssignedId, body: Option<&[u8]>) -> Self {
        Self {
            record: Record::of_parts(Fields::plain_head(id, body), body.unwrap_or_default()),
            partition: None,
            identity: None,
            due: None,
            time_to_live_ms: None,
        }
    }

    /// A message from an encoded record.
    pub(crate) fn of_record(record: Record) -> Result<Self> {
        let fields = Fields::decode(&record)?;
        let (time_to_live_ms, due) = (fields.time_to_live_ms, fields.scheduled_enqueue_time);
        Ok(Self {
            record,
            partition: None,
            identity: None,
            due,
            time_to_live_ms,
        })
    }

    /// Bytes of the record.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.record.len()
    }

    /// The partition of its key; `None` without a key.
    pub fn partition(&self) -> Option<PartitionId> {
        self.partition
    }
}

/// Encodes messages of an entity that have only a body and an assigned id.
#[derive(Debug, Clone, Copy)]
pub struct PlainEncoder {
    pub(crate) message_size_bytes_max: usize,
}

impl PlainEncoder {
    /// Checks and encodes a message. Without a body it is null.
    #[inline]
    pub fn encode(self, id: AssignedId, body: Option<&[u8]>) -> Result<EncodedMessage> {
        let message = EncodedMessage::plain(id, body);
        check_size(message.bytes(), self.message_size_bytes_max)?;
        Ok(message)
    }
}

/// Fails if a message exceeds `max` encoded bytes.
pub(crate) fn check_size(bytes: usize, max: usize) -> Result<()> {
    if bytes <= max {
        return Ok(());
    }
    let detail = format!("the message is too large; send less: size={bytes} bytes, limit={max} bytes");
    Err(Error::new(ErrorKind::MessageSizeExceeded, detail))
}
