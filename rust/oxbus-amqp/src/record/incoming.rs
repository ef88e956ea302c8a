// SPDX-License-Identifier: Apache-2.0
//! Decodes a client's message into borrowed fields.

use std::borrow::Cow;

use crate::codec::{AmqpValue, DecodeError, Field, Map, Reader, code, descriptor_code};
use crate::message::{AmqpBodyKind, AmqpMessageId, Header, Properties, Sections, data, entries, read_map, section};
use bytes::{BufMut, Bytes, BytesMut};
use oxbus_model::message::NewId;
use oxbus_model::message::{Body, Fields, MessageId, PropertiesBuilder};
use oxbus_model::{Error, ErrorKind, Result, Timestamp};

use super::amqp_part::{AmqpPart, HeaderHints};
use super::{ids, malformed, properties};

/// Annotations that only the broker sets. They are dropped from a received message that a client sends again.
const BROKER_ANNOTATIONS: [&str; 9] = [
    "x-opt-sequence-number",
    "x-opt-enqueue-sequence-number",
    "x-opt-enqueued-time",
    "x-opt-locked-until",
    "x-opt-message-state",
    "x-opt-deadletter-source",
    "x-opt-lock-token",
    "x-opt-partition-id",
    "x-opt-offset",
];

/// The decoded message annotations.
#[derive(Default)]
struct KnownAnnotations {
    partition_key: Option<AmqpValue>,
    scheduled: Option<Timestamp>,
    others: Map,
}

/// Calls `take` with the fields of a new message. A message without an id gets a unique one (B-067), because clients
/// in use index their locks by it.
pub fn read_new<R>(message: &Bytes, new_id: NewId, take: impl FnOnce(&Fields<'_>) -> Result<R>) -> Result<R> {
    read(message, |fields| {
        let message_id = fields.message_id.unwrap_or_else(|| MessageId::Assigned(new_id(1)));
        take(&Fields {
            message_id: Some(message_id),
            ..*fields
        })
    })
}

/// Calls `take` with the fields of a message. A missing id stays missing.
pub fn read<R>(message: &Bytes, take: impl FnOnce(&Fields<'_>) -> Result<R>) -> Result<R> {
    let sections = Sections::scan(message).map_err(malformed)?;
    let mut properties = match &sections.properties {
        range if range.is_empty() => Properties::NONE,
        range => Properties::decode(&mut Reader::within(message, range.start, range.end)).map_err(malformed)?,
    };
    let header = header(message, &sections)?;
    let annotated = annotations(message, &sections)?;
    let delivery_annotations = delivery_annotations(message, &sections)?;
    let time_to_live_ms = time_to_live(header.ttl_ms, &properties);
    let application = application_properties(message, &sections)?;
    let body_bytes = body(message, &sections).map_err(malformed)?;

    let message_id = properties.message_id.take();
    let correlation_id = properties.correlation_id.take();
    let (message_text, message_typed) = split_id(message_id);
    let (correlation_text, correlation_typed) = split_id(correlation_id);
    let (to, to_typed) = split_address(properties.to.take());
    let (reply_to, reply_to_typed) = split_address(properties.reply_to.take());
    let subject = properties.subject.take();
    let session_id = properties.group_id.take();
    let reply_to_session_id = properties.reply_to_group_id.take();
    let content_type = properties.content_type.take();
    let amqp_part = AmqpPart {
        hints: HeaderHints::of(&header),
        delivery_annotations,
        annotations: annotated.others,
        properties: Properties {
            message_id: message_typed,
            correlation_id: correlation_typed,
            to: to_typed,
            reply_to: reply_to_typed,
            ..properties
        },
    };
    let amqp = amqp_part.encoded();
    take(&Fields {
        body: match &body_bytes {
            DecodedBody::Data(bytes) => Body::Data(bytes),
            DecodedBody::Null => Body::Null,
            DecodedBody::Sections(bytes) => Body::Sections(bytes),
        },
        message_id: message_text.as_deref().map(MessageId::Given),
        session_id: session_id.as_deref(),
        partition_key: annotated.partition_key.as_ref().and_then(AmqpValue::as_text),
        subject: subject.as_deref(),
        correlation_id: correlation_text.as_deref(),
        content_type: content_type.as_ref().map(crate::codec::Symbol::as_str),
        to: to.as_deref(),
        reply_to: reply_to.as_deref(),
        reply_to_session_id: reply_to_session_id.as_deref(),
        time_to_live_ms,
        scheduled_enqueue_time: annotated.scheduled,
        application_properties: application.as_ref().map(PropertiesBuilder::properties),
        amqp: &amqp,
        ..Fields::default()
    })
}

/// Calls `take` with each message of a batch, one per data section (message format 0x80013700).
pub fn each_of_batch(envelope: &Bytes, mut take: impl FnMut(&Bytes) -> Result<()>) -> Result<()> {
    let sections = Sections::scan(envelope).map_err(malformed)?;
    if sections.body_kind != AmqpBodyKind::Data {
        let detail = "the body of a batch must be data sections, one for each message";
        return Err(Error::new(ErrorKind::InvalidArgument, detail));
    }
    for message in data(envelope, &sections) {
        take(&message.map_err(malformed)?)?;
    }
    Ok(())
}

/// The text of an id, and the id itself if it is not a string.
fn split_id(id: Option<AmqpMessageId>) -> (Option<String>, Option<AmqpMessageId>) {
    match id {
        None => (None, None),
        Some(AmqpMessageId::String(text)) => (Some(text.to_string()), None),
        Some(id) => (Some(ids::text(&id)), Some(id)),
    }
}

/// The text of an address, if it has one, and the address itself if it is not a string.
fn split_address(address: Option<AmqpValue>) -> (Option<bytestring::ByteString>, Option<AmqpValue>) {
    match address {
        Some(AmqpValue::String(text)) => (Some(text), None),
        Some(AmqpValue::Null) | None => (None, None),
        Some(other) => (ids::address_text(&other).map(Into::into), Some(other)),
    }
}

fn header(message: &Bytes, sections: &Sections) -> Result<Header> {
    if sections.header.is_empty() {
        return Ok(Header::of(0, None));
    }
    let mut reader = Reader::within(message, sections.header.start, sections.header.end);
    Header::decode(&mut reader).map_err(malformed)
}

/// Delivery annotations, which the service forwards to the receiver of the message.
fn delivery_annotations(message: &Bytes, sections: &Sections) -> Result<Map> {
    let mut found = read_map(message, &sections.delivery_annotations).map_err(malformed)?;
    found.retain(|key, _| key.as_text().is_none_or(|name| !BROKER_ANNOTATIONS.contains(&name)));
    Ok(found)
}

fn annotations(message: &Bytes, sections: &Sections) -> Result<KnownAnnotations> {
    let mut found = KnownAnnotations::default();
    let Some(pairs) = entries(message, &sections.message_annotations).map_err(malformed)? else {
        return Ok(found);
    };
    for pair in pairs {
        let (key, value) = pair.map_err(malformed)?;
        match key.as_text() {
            Some("x-opt-partition-key") => {
                if value != AmqpValue::Null {
                    if value.as_text().is_none() {
                        let detail = "x-opt-partition-key must be a string";
                        return Err(Error::new(ErrorKind::InvalidArgument, detail));
                    }
                    found.partition_key = Some(value);
                }
            }
            Some("x-opt-scheduled-enqueue-time") => found.scheduled = scheduled(&value)?,
            Some(name) if BROKER_ANNOTATIONS.contains(&name) => {}
            _ => found.others.push(key, value),
        }
    }
    Ok(found)
}

fn scheduled(value: &AmqpValue) -> Result<Option<Timestamp>> {
    let ms = match value {
        AmqpValue::Null => return Ok(None),
        AmqpValue::Timestamp(time) => Some(time.0),
        // A received message that is sent again carries an integer.
        other => other.as_i64(),
    };
    let ms = ms.ok_or_else(|| {
        let detail = "x-opt-scheduled-enqueue-time must be a timestamp";
        Error::new(ErrorKind::InvalidArgument, detail)
    })?;
    Ok(Some(Timestamp(u64::try_from(ms).unwrap_or(0).min(Timestamp::NEVER.0))))
}

/// The time to live in milliseconds: the header's, or, because the header's maximum is 49.7 days, the difference
/// between expiry and creation time (B-249).
fn time_to_live(header_ms: Option<u32>, properties: &Properties) -> Option<u64> {
    let long_ms = match (properties.creation_time, properties.absolute_expiry_time) {
        (Some(from), Some(to)) if header_ms == Some(u32::MAX) => u64::try_from(to.0.saturating_sub(from.0)).ok(),
        _ => None,
    };
    long_ms
        .filter(|ms| *ms > u64::from(u32::MAX))
        .or(header_ms.map(u64::from))
}

fn application_properties(message: &Bytes, sections: &Sections) -> Result<Option<PropertiesBuilder>> {
    let range = &sections.application_properties;
    if range.is_empty() {
        return Ok(None);
    }
    let mut reader = Reader::within(message, range.start, range.end);
    descriptor_code(&mut reader).map_err(malformed)?;
    if reader.peek().map_err(malformed)? == code::NULL {
        return Ok(None);
    }
    properties::read(message, reader.position(), range.end).map(Some)
}

/// A decoded body.
enum DecodedBody<'a> {
    Data(Bytes),
    Null,
    Sections(Cow<'a, [u8]>),
}

fn body<'a>(message: &'a Bytes, sections: &Sections) -> std::result::Result<DecodedBody<'a>, DecodeError> {
    let range = &sections.body;
    if sections.footer.is_empty() && sections.body_sections == 1 {
        match sections.body_kind {
            AmqpBodyKind::Data => {
                if let Some(bytes) = data(message, sections).next() {
                    return bytes.map(DecodedBody::Data);
                }
            }
            AmqpBodyKind::Value if message[range.clone()].ends_with(&[section::VALUE, code::NULL]) => {
                return Ok(DecodedBody::Null);
            }
            _ => {}
        }
    }
    let end = sections.footer.end.max(range.end);
    let start = if range.is_empty() {
        sections.footer.start
    } else {
        range.start
    };
    short_descriptors(message, start, end).map(DecodedBody::Sections)
}

/// The sections with one-byte descriptors, the only form that clients in use read.
fn short_descriptors(message: &Bytes, start: usize, end: usize) -> std::result::Result<Cow<'_, [u8]>, DecodeError> {
    let mut reader = Reader::within(message, start, end);
    let mut rewritten: Option<BytesMut> = None;
    while !reader.is_at_end() {
        let at = reader.position();
        let descriptor = descriptor_code(&mut reader)?.and_then(|number| u8::try_from(number).ok());
        let descriptor = descriptor.ok_or(DecodeError::MissingField("section"))?;
        let value_at = reader.position();
        reader.skip()?;
        if value_at - at != 3 && rewritten.is_none() {
            rewritten = Some(BytesMut::from(&message[start..at]));
        }
        if let Some(out) = &mut rewritten {
            out.put_slice(&[code::DESCRIBED, code::ULONG_SMALL, descriptor]);
            out.put_slice(&message[value_at..reader.position()]);
        }
    }
    Ok(match rewritten {
        Some(out) => Cow::Owned(out.to_vec()),
        None => Cow::Borrowed(&message[start..end]),
    })
}
