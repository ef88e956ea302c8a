// SPDX-License-Identifier: Apache-2.0
//! A message as fields, and its encoded bytes.
//!
//! [`Fields`] borrows: encoding and decoding copy no field.
//!
//! ```text
//! 0      format 4 bits = 1 | has AMQP part 1 bit | body kind 3 bits
//! 1..3   presence, u16 little-endian: one bit per field below, in this order
//! then   message id assigned by the sender 16 bytes · message id · session id · partition key · subject ·
//!        correlation id · content type · to · reply to · reply-to session id          each: varint length, UTF-8
//!        time to live varint ms · scheduled enqueue time varint ms
//!        application properties: varint length, bytes (see `properties`) · enqueued sequence number varint ·
//!        hops varint · dead-letter source: varint length, UTF-8
//!        AMQP part: varint length, bytes
//! rest   body: bytes · nothing · AMQP sections
//! ```
//!
//! Invariant: `decode(encode(fields)) == fields`.

mod id;
pub mod properties;
mod sections;
mod time_to_live;

use std::borrow::Cow;

pub use id::{AssignedId, MessageId, NewId};
pub use properties::{Properties, PropertiesBuilder, StoredValue, Value};
pub use sections::BodyKind;

use crate::caps::KEY_CHARS_MAX;
use crate::varint::{self, VarintReader};
use crate::{Error, ErrorKind, Result, SequenceNumber, Timestamp};

const FORMAT: u8 = 1;
/// Bit of the first byte: the message has an AMQP part.
const HAS_AMQP: u8 = 1 << 3;

/// The first three bytes, as a number, of a message with a data body and no field.
const PLAIN: u32 = (FORMAT as u32) << 4;
/// The same with an assigned id.
const PLAIN_WITH_ID: u32 = PLAIN | 1 << 8;
/// Bytes before the body of a message with an assigned id and no field.
const PLAIN_HEAD: usize = 3 + AssignedId::LEN;

/// The body of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// Bytes: an AMQP data section.
    Data(&'a [u8]),
    /// No body: an AMQP null value.
    Null,
    /// Any other body, with its footer, as AMQP 1.0 sections with one-byte descriptors (B-428).
    Sections(&'a [u8]),
}

impl Default for Body<'_> {
    fn default() -> Self {
        Self::Data(&[])
    }
}

impl<'a> Body<'a> {
    /// The stored bytes: the data or the encoded sections. Empty for null.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Data(bytes) | Self::Sections(bytes) => bytes,
            Self::Null => &[],
        }
    }

    /// The body without AMQP encoding: the data, with several sections joined, or the text or bytes of a value.
    pub fn data(self) -> Cow<'a, [u8]> {
        match self {
            Self::Data(bytes) => Cow::Borrowed(bytes),
            Self::Null => Cow::Borrowed(&[]),
            Self::Sections(sections) => Cow::Owned(sections::data(sections)),
        }
    }

    /// Its AMQP type.
    pub fn kind(self) -> BodyKind {
        match self {
            Self::Data(_) => BodyKind::Data,
            Self::Null => BodyKind::Value,
            Self::Sections(sections) => sections::kind(sections),
        }
    }
}

/// A message, borrowed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Fields<'a> {
    /// The body.
    pub body: Body<'a>,
    /// Given by the application, or assigned by the sender.
    pub message_id: Option<MessageId<'a>>,
    /// Session id, which is also the partition key (B-063).
    pub session_id: Option<&'a str>,
    /// Partition key (B-062).
    pub partition_key: Option<&'a str>,
    /// Subject, also called label.
    pub subject: Option<&'a str>,
    /// Correlation id.
    pub correlation_id: Option<&'a str>,
    /// Content type.
    pub content_type: Option<&'a str>,
    /// Destination, for the application.
    pub to: Option<&'a str>,
    /// Address for replies.
    pub reply_to: Option<&'a str>,
    /// Session id for replies.
    pub reply_to_session_id: Option<&'a str>,
    /// Milliseconds from enqueue to expiry (B-246).
    pub time_to_live_ms: Option<u64>,
    /// When the message becomes active (B-232).
    pub scheduled_enqueue_time: Option<Timestamp>,
    /// Application properties, encoded. `None` and an empty set differ.
    pub application_properties: Option<Properties<'a>>,
    /// Sequence number where the message was first sent: in the topic, or in the first queue of a forwarding chain
    /// (B-113).
    pub enqueued_number: Option<SequenceNumber>,
    /// How often it was forwarded (B-334).
    pub hops: Option<u8>,
    /// The entity from whose dead-letter queue it was forwarded (B-264).
    pub dead_letter_source: Option<&'a str>,
    /// AMQP sections with no field here, encoded: annotations of the sender, further properties. May be empty.
    pub amqp: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The key that selects the partition: session id, else partition key (B-063). If both are set, they must be equal
    /// (B-064).
    #[inline]
    pub fn key(&self) -> Result<Option<&'a str>> {
        match (self.session_id, self.partition_key) {
            (Some(session_id), Some(key)) if session_id != key => Err(key_mismatch(session_id, key)),
            (session_id, key) => Ok(session_id.or(key)),
        }
    }

    /// The id that the application gave. Assigned ids are unique, so they detect no duplicates (B-067).
    #[inline]
    pub fn given_id(&self) -> Option<&'a str> {
        match self.message_id {
            Some(MessageId::Given(id)) => Some(id),
            _ => None,
        }
    }

    /// Rejects ids and keys that are too long (B-047).
    #[inline]
    pub fn check(&self) -> Result<()> {
        check_key_length("message_id", self.given_id())?;
        check_key_length("session_id", self.session_id)?;
        check_key_length("partition_key", self.partition_key)?;
        check_key_length("reply_to_session_id", self.reply_to_session_id)
    }

    /// True if only the body and an assigned id are set, as in most messages.
    #[inline]
    fn is_plain(&self) -> bool {
        !matches!(self.message_id, Some(MessageId::Given(_)))
            && self.session_id.is_none()
            && self.partition_key.is_none()
            && self.subject.is_none()
            && self.correlation_id.is_none()
            && self.content_type.is_none()
            && self.to.is_none()
            && self.reply_to.is_none()
            && self.reply_to_session_id.is_none()
            && self.time_to_live_ms.is_none()
            && self.scheduled_enqueue_time.is_none()
            && self.application_properties.is_none()
            && self.enqueued_number.is_none()
            && self.hops.is_none()
            && self.dead_letter_source.is_none()
            && self.amqp.is_empty()
    }

    fn texts(&self) -> [(u16, Option<&'a str>); 9] {
        [
            (1 << 1, self.given_id()),
            (1 << 2, self.session_id),
            (1 << 3, self.partition_key),
            (1 << 4, self.subject),
            (1 << 5, self.correlation_id),
            (1 << 6, self.content_type),
            (1 << 7, self.to),
            (1 << 8, self.reply_to),
            (1 << 9, self.reply_to_session_id),
        ]
    }

    /// Bytes of the encoded message. Limits and quotas count this size (B-053).
    #[inline]
    pub fn encoded_len(&self) -> usize {
        let mut len = 3 + self.body.bytes().len();
        if matches!(self.message_id, Some(MessageId::Assigned(_))) {
            len += AssignedId::LEN;
        }
        if self.is_plain() { len } else { len + self.details_len() }
    }

    /// Bytes of the optional fields.
    fn details_len(&self) -> usize {
        let mut len = 0;
        for (_, text) in self.texts() {
            len += text.map_or(0, |text| varint::len(text.len() as u64) + text.len());
        }
        len += self.time_to_live_ms.map_or(0, varint::len);
        len += self.scheduled_enqueue_time.map_or(0, |time| varint::len(time.0));
        len += self.enqueued_number.map_or(0, |number| varint::len(number.0));
        len += self.hops.map_or(0, |hops| varint::len(hops.into()));
        len += self
            .dead_letter_source
            .map_or(0, |text| varint::len(text.len() as u64) + text.len());
        if !self.amqp.is_empty() {
            len += varint::len(self.amqp.len() as u64) + self.amqp.len();
        }
        len + self
            .application_properties
            .map_or(0, |it| varint::len(it.as_bytes().len() as u64) + it.as_bytes().len())
    }

    /// Writes the message into `out`, whose length must be [`Fields::encoded_len`].
    ///
    /// # Panics
    /// If `out` has another length.
    #[inline]
    pub fn encode(&self, out: &mut [u8]) {
        let body = self.body.bytes();
        let (head, tail) = out.split_at_mut(out.len() - body.len());
        self.encode_head(head);
        tail.copy_from_slice(body);
    }

    /// Appends the message to `out`. Copies the body once.
    #[inline]
    pub fn push_to(&self, out: &mut Vec<u8>) {
        let (at, body) = (out.len(), self.body.bytes());
        out.resize(at + self.encoded_len() - body.len(), 0);
        self.encode_head(&mut out[at..]);
        out.extend_from_slice(body);
    }

    /// Writes everything before the body into `out`, whose length must be [`Fields::encoded_len`] less the body.
    ///
    /// # Panics
    /// If `out` has another length.
    #[inline]
    pub fn encode_head(&self, out: &mut [u8]) {
        let body_kind = match self.body {
            Body::Data(_) => 0,
            Body::Null => 1,
            Body::Sections(_) => 2,
        };
        let amqp = if self.amqp.is_empty() { 0 } else { HAS_AMQP };
        let mut at = 3;
        let mut presence = 0u16;
        if let Some(MessageId::Assigned(id)) = self.message_id {
            presence |= 1;
            out[at..at + AssignedId::LEN].copy_from_slice(&id.to_bytes());
            at += AssignedId::LEN;
        }
        if !self.is_plain() {
            at = self.encode_details(out, at, &mut presence);
        }
        out[0] = FORMAT << 4 | amqp | body_kind;
        out[1..3].copy_from_slice(&presence.to_le_bytes());
        assert_eq!(at, out.len(), "the head of a message has its computed length");
    }

    /// Writes the optional fields at `at` and sets their bits in `presence`. Returns the end.
    fn encode_details(&self, out: &mut [u8], mut at: usize, presence: &mut u16) -> usize {
        for (bit, text) in self.texts() {
            if let Some(text) = text {
                *presence |= bit;
                at = varint::put_bytes(out, at, text.as_bytes());
            }
        }
        if let Some(ms) = self.time_to_live_ms {
            *presence |= 1 << 10;
            at = varint::put(out, at, ms);
        }
        if let Some(time) = self.scheduled_enqueue_time {
            *presence |= 1 << 11;
            at = varint::put(out, at, time.0);
        }
        if let Some(properties) = self.application_properties {
            *presence |= 1 << 12;
            at = varint::put_bytes(out, at, properties.as_bytes());
        }
        if let Some(number) = self.enqueued_number {
            *presence |= 1 << 13;
            at = varint::put(out, at, number.0);
        }
        if let Some(hops) = self.hops {
            *presence |= 1 << 14;
            at = varint::put(out, at, hops.into());
        }
        if let Some(source) = self.dead_letter_source {
            *presence |= 1 << 15;
            at = varint::put_bytes(out, at, source.as_bytes());
        }
        if !self.amqp.is_empty() {
            at = varint::put_bytes(out, at, self.amqp);
        }
        at
    }

    /// The body of an encoded message. Skips the other fields where it can, which takes a fraction of the time.
    #[inline]
    pub fn body_of(bytes: &'a [u8]) -> Result<Body<'a>> {
        /// First byte of a message with a data body and no AMQP part.
        const DATA: u8 = FORMAT << 4;
        match *bytes {
            [DATA, 0, 0, ref body @ ..] => return Ok(Body::Data(body)),
            [DATA, 1, 0, ref rest @ ..] if rest.len() >= AssignedId::LEN => {
                return Ok(Body::Data(&rest[AssignedId::LEN..]));
            }
            _ => {}
        }
        Ok(Self::decode(bytes)?.body)
    }

    /// Decodes a message. Fails if [`Fields::encode`] did not write the bytes.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        Self::read(bytes).ok_or_else(|| {
            Error::new(
                ErrorKind::Corrupt,
                "a stored message does not decode; restore it from a copy",
            )
        })
    }

    /// The encoded bytes before the body of a message with an assigned id and, unless it is null, a body.
    #[inline]
    pub fn plain_head(id: AssignedId, body: Option<&[u8]>) -> [u8; PLAIN_HEAD] {
        let mut head = [0; PLAIN_HEAD];
        let start = if body.is_some() {
            PLAIN_WITH_ID
        } else {
            PLAIN_WITH_ID | 1
        };
        head[..4].copy_from_slice(&start.to_le_bytes());
        head[3..].copy_from_slice(&id.to_bytes());
        head
    }

    /// The assigned id and the body of a message that has no other fields, as most messages. Returns `None` for any
    /// other message.
    #[inline]
    pub fn decode_plain(bytes: &'a [u8]) -> Option<(Option<AssignedId>, &'a [u8])> {
        let (head, rest) = bytes.split_first_chunk::<3>()?;
        match u32::from_le_bytes([head[0], head[1], head[2], 0]) {
            PLAIN => Some((None, rest)),
            PLAIN_WITH_ID => {
                let (id, body) = rest.split_first_chunk::<{ AssignedId::LEN }>()?;
                Some((Some(AssignedId::from_bytes(*id)), body))
            }
            _ => None,
        }
    }

    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (&head, rest) = bytes.split_first()?;
        if head >> 4 != FORMAT {
            return None;
        }
        let (presence, rest) = rest.split_first_chunk::<2>()?;
        let presence = u16::from_le_bytes(*presence);
        let mut reader = VarintReader(rest);
        let mut fields = Self::default();
        if presence & 1 != 0 {
            let id = reader.take(AssignedId::LEN as u64)?;
            fields.message_id = Some(MessageId::Assigned(AssignedId::from_bytes(id.try_into().ok()?)));
        }
        if presence & !1 != 0 {
            fields.read_details(presence, &mut reader)?;
        }
        if head & HAS_AMQP != 0 {
            fields.amqp = reader.bytes()?;
        }
        fields.body = match head & 0x7 {
            0 => Body::Data(reader.0),
            1 if reader.0.is_empty() => Body::Null,
            2 => Body::Sections(reader.0),
            _ => return None,
        };
        Some(fields)
    }

    /// Reads the optional fields.
    fn read_details(&mut self, presence: u16, reader: &mut VarintReader<'a>) -> Option<()> {
        let has = |bit: u32| presence & (1 << bit) != 0;
        if has(1) {
            self.message_id = Some(MessageId::Given(reader.text()?));
        }
        let mut text = |bit: u32| {
            if has(bit) { reader.text().map(Some) } else { Some(None) }
        };
        self.session_id = text(2)?;
        self.partition_key = text(3)?;
        self.subject = text(4)?;
        self.correlation_id = text(5)?;
        self.content_type = text(6)?;
        self.to = text(7)?;
        self.reply_to = text(8)?;
        self.reply_to_session_id = text(9)?;
        if has(10) {
            self.time_to_live_ms = Some(reader.varint()?);
        }
        if has(11) {
            self.scheduled_enqueue_time = Some(Timestamp(reader.varint()?));
        }
        if has(12) {
            let len = reader.varint()?;
            self.application_properties = Some(Properties::new(reader.take(len)?)?);
        }
        if has(13) {
            self.enqueued_number = Some(SequenceNumber(reader.varint()?));
        }
        if has(14) {
            self.hops = Some(u8::try_from(reader.varint()?).ok()?);
        }
        if has(15) {
            self.dead_letter_source = Some(reader.text()?);
        }
        Some(())
    }
}

/// The error of B-064.
pub fn key_mismatch(session_id: &str, partition_key: &str) -> Error {
    let detail = format!(
        "session_id and partition_key are both set and differ; set one of them, or both to the same text: \
         session_id=`{session_id}` partition_key=`{partition_key}`"
    );
    Error::new(ErrorKind::KeyMismatch, detail)
}

/// Rejects an id or key of more than 128 characters (B-047).
#[inline]
pub fn check_key_length(name: &str, text: Option<&str>) -> Result<()> {
    let Some(text) = text else { return Ok(()) };
    // Bytes bound characters from above, so the count runs only for long texts.
    if text.len() > KEY_CHARS_MAX {
        let chars = text.chars().count();
        if chars > KEY_CHARS_MAX {
            let detail = format!(
                "{name} cannot be longer than {KEY_CHARS_MAX} characters; shorten or hash it: {chars} characters"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
