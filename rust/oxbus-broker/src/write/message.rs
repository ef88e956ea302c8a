// SPDX-License-Identifier: Apache-2.0
//! An encoded message, with the fields that a write needs.

use oxbus_model::message::Fields;
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

/// Fails if a message exceeds `max` encoded bytes.
pub(crate) fn check_size(bytes: usize, max: usize) -> Result<()> {
    if bytes <= max {
        return Ok(());
    }
    let detail = format!("the message is too large; send less: size={bytes} bytes, limit={max} bytes");
    Err(Error::new(ErrorKind::MessageSizeExceeded, detail))
}
