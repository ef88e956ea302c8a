// SPDX-License-Identifier: Apache-2.0
//! Messages on their way: encoded ones to send, batches of them, and received ones with what settles them.

use bytes::{Bytes, BytesMut};
use oxbus_amqp::client::{ReceivedDelivery, ReceivedId};
use oxbus_amqp::codec::{Field, Map, Reader};
use oxbus_amqp::message::{
    MESSAGE_FORMAT_BATCH, MESSAGE_FORMAT_DEFAULT, Properties, Sections, put_data, put_message_annotations, read_map,
};
use oxbus_amqp::record::{AmqpMessageMetadata, read_received, write_new};
use oxbus_model::message::Fields;
use oxbus_model::{ErrorKind, LockToken};

use crate::error::{ClientError, Result};

/// A message, or a batch of messages that are stored together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedMessage {
    /// The message format.
    pub(crate) format: u32,
    /// The sections.
    pub(crate) bytes: Bytes,
}

impl EncodedMessage {
    /// A message in AMQP sections.
    pub fn from_sections(bytes: Bytes) -> Self {
        Self {
            format: MESSAGE_FORMAT_DEFAULT,
            bytes,
        }
    }

    /// A message with the model's fields.
    pub fn from_fields(fields: &Fields<'_>) -> Self {
        let mut out = BytesMut::new();
        write_new(&mut out, fields);
        Self::from_sections(out.freeze())
    }

    /// The sections.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// Collects messages for one batch.
#[derive(Debug)]
pub struct BatchBuilder {
    size_max: u64,
    /// The properties and annotations of the first message: they route the batch.
    envelope: BytesMut,
    data: BytesMut,
    count: usize,
}

/// Bytes of a data section beside the data.
const DATA_BYTES: usize = 8;

impl BatchBuilder {
    /// An empty batch of at most `size_max` bytes.
    pub fn new(size_max: u64) -> Self {
        Self {
            size_max,
            envelope: BytesMut::new(),
            data: BytesMut::new(),
            count: 0,
        }
    }

    /// Adds a message. Returns false if it does not fit.
    pub fn push(&mut self, message: &EncodedMessage) -> Result<bool> {
        if message.format != MESSAGE_FORMAT_DEFAULT {
            let detail = "a batch cannot contain a batch; add its messages";
            return Err(ClientError::broker(ErrorKind::InvalidArgument, detail));
        }
        let envelope = if self.count == 0 {
            envelope(&message.bytes)?
        } else {
            BytesMut::new()
        };
        let size = self.size() + envelope.len() + message.bytes.len() + DATA_BYTES;
        if size as u64 > self.size_max {
            return Ok(false);
        }
        if self.count == 0 {
            self.envelope = envelope;
        }
        put_data(&mut self.data, &message.bytes);
        self.count += 1;
        Ok(true)
    }

    /// Bytes of the batch.
    pub fn size(&self) -> usize {
        self.envelope.len() + self.data.len()
    }

    /// Messages in the batch.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there is no message.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The batch as a message.
    pub fn finish(mut self) -> EncodedMessage {
        self.envelope.unsplit(self.data);
        EncodedMessage {
            format: MESSAGE_FORMAT_BATCH,
            bytes: self.envelope.freeze(),
        }
    }
}

fn malformed(error: oxbus_amqp::codec::DecodeError) -> ClientError {
    let detail = format!("the message is not well-formed AMQP: {error}");
    ClientError::broker(ErrorKind::InvalidArgument, detail)
}

/// What routes a message: its id, session and partition key.
pub(crate) struct Routing {
    pub(crate) properties: Properties,
    pub(crate) annotations: Map,
}

/// Reads what routes a message.
pub(crate) fn routing(message: &Bytes) -> Result<Routing> {
    let sections = Sections::scan(message).map_err(malformed)?;
    let range = &sections.properties;
    let properties = if range.is_empty() {
        Properties::NONE
    } else {
        Properties::decode(&mut Reader::within(message, range.start, range.end)).map_err(malformed)?
    };
    let mut annotations = read_map(message, &sections.message_annotations).map_err(malformed)?;
    annotations.retain(|key, _| key.as_text() == Some("x-opt-partition-key"));
    Ok(Routing {
        properties,
        annotations,
    })
}

fn envelope(first: &Bytes) -> Result<BytesMut> {
    let routing = routing(first)?;
    let mut out = BytesMut::new();
    if !routing.annotations.is_empty() {
        put_message_annotations(&mut out, &routing.annotations);
    }
    let kept = Properties {
        message_id: routing.properties.message_id,
        group_id: routing.properties.group_id,
        ..Properties::NONE
    };
    if kept != Properties::NONE {
        kept.encode(&mut out);
    }
    Ok(out)
}

/// A message on its link. Ids are those of one connection: another one may use the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkedId {
    pub(crate) connection: u64,
    pub(crate) id: ReceivedId,
}

/// What settles a message. It is small, and outlives the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettleHandle {
    pub(crate) id: Option<LinkedId>,
    pub(crate) lock_token: Option<LockToken>,
}

impl SettleHandle {
    /// The handle of a message that is known by its lock token, such as a deferred one.
    pub fn of_token(lock_token: LockToken) -> Self {
        Self {
            id: None,
            lock_token: Some(lock_token),
        }
    }

    /// The handle of a message without a lock: a peeked one, or one that is deleted already.
    pub fn without_lock() -> Self {
        Self {
            id: None,
            lock_token: None,
        }
    }

    /// Its id on a connection, if it came over it.
    pub(crate) fn id_on(self, connection: u64) -> Option<ReceivedId> {
        self.id
            .filter(|linked| linked.connection == connection)
            .map(|linked| linked.id)
    }

    /// The lock token. `None` for a message without a lock.
    pub fn lock_token(self) -> Option<LockToken> {
        self.lock_token
    }
}

/// A received message.
#[derive(Debug)]
pub struct Received {
    bytes: Bytes,
    handle: SettleHandle,
}

impl Received {
    pub(crate) fn new(delivery: ReceivedDelivery, connection: u64) -> Self {
        let lock_token = delivery
            .id
            .and_then(|_| <[u8; 16]>::try_from(delivery.tag.as_bytes()).ok())
            .map(LockToken);
        Self {
            bytes: delivery.message,
            handle: SettleHandle {
                id: delivery.id.map(|id| LinkedId { connection, id }),
                lock_token,
            },
        }
    }

    /// The sections. They share the read buffer, so copy what is kept for long.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What settles it.
    pub fn handle(&self) -> SettleHandle {
        self.handle
    }

    /// Calls `take` with the fields and the broker's metadata.
    pub fn read<R>(&self, take: impl FnOnce(&Fields<'_>, &AmqpMessageMetadata) -> oxbus_model::Result<R>) -> Result<R> {
        Ok(read_received(&self.bytes, |fields, metadata| {
            let metadata = AmqpMessageMetadata {
                lock_token: self.handle.lock_token.or(metadata.lock_token),
                ..*metadata
            };
            take(fields, &metadata)
        })?)
    }
}
