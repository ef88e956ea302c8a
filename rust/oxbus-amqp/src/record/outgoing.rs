// SPDX-License-Identifier: Apache-2.0
//! Encodes a stored message for a client: all sections, with the broker's values.

use std::borrow::Cow;

use crate::codec::{AmqpTimestamp, AmqpValue, Field, Map, Symbol, code};
use crate::message::{AmqpMessageId, Header, Properties, put_delivery_annotations, put_message_annotations, section};
use bytes::{BufMut, BytesMut};
use oxbus_model::message::{Body, Fields, MessageId};
use oxbus_model::{LockToken, SequenceNumber, Timestamp};

use super::amqp_part::AmqpPart;
use super::token;
use super::{decimal, properties};

/// The broker's metadata of a message.
#[derive(Debug, Clone, Copy)]
pub struct AmqpMessageMetadata {
    /// The sequence number.
    pub number: SequenceNumber,
    /// When it was enqueued.
    pub enqueued_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
    /// Earlier deliveries.
    pub delivery_count: u32,
    /// The end of its lock. `None` for a message of a session.
    pub locked_until: Option<Timestamp>,
    /// The lock token.
    pub lock_token: Option<LockToken>,
    /// The message state.
    pub state: MessageStateAnnotation,
    /// The partition. `None` on an entity without partitions, and from servers that do not tell it.
    pub partition: Option<u16>,
}

/// The message state. As in the service, it is not written for an active message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageStateAnnotation {
    /// It can be received.
    Active,
    /// It can be received by its number.
    Deferred,
    /// It becomes active later.
    Scheduled,
}

fn time(time: Timestamp) -> AmqpTimestamp {
    AmqpTimestamp(i64::try_from(time.0).unwrap_or(i64::MAX))
}

/// Writes all sections.
pub fn write(out: &mut BytesMut, fields: &Fields<'_>, metadata: &AmqpMessageMetadata) {
    let rest = write_head(out, fields, metadata);
    out.put_slice(rest);
}

/// Writes everything except the trailing bytes of the body. Returns those, because they need no copy.
pub fn write_head<'a>(out: &mut BytesMut, fields: &Fields<'a>, metadata: &AmqpMessageMetadata) -> &'a [u8] {
    let amqp_part = AmqpPart::read(fields.amqp);
    let life_ms = fields.effective_time_to_live_ms(metadata.enqueued_at, metadata.expires_at);
    let ttl_ms = life_ms.map(|ms| u32::try_from(ms).unwrap_or(u32::MAX));
    amqp_part.hints.header(metadata.delivery_count, ttl_ms).encode(out);
    let mut delivery = amqp_part.delivery_annotations;
    if let Some(lock_token) = metadata.lock_token {
        delivery.push(Symbol::from("x-opt-lock-token"), token::to_guid(lock_token));
    }
    put_delivery_annotations(out, &delivery);
    put_message_annotations(out, &annotations(fields, metadata, amqp_part.annotations));
    put_properties(out, fields, with_expiry(amqp_part.properties, metadata, life_ms));
    if let Some(application) = fields.application_properties {
        properties::write(out, application, decimal::to_dotnet_layout);
    }
    put_body(out, fields.body)
}

/// Writes all sections of a new message, as a client sends it.
pub fn write_new(out: &mut BytesMut, fields: &Fields<'_>) {
    let amqp_part = AmqpPart::read(fields.amqp);
    let ttl_ms = fields.time_to_live_ms.map(|ms| u32::try_from(ms).unwrap_or(u32::MAX));
    let header = Header {
        delivery_count: None,
        ..amqp_part.hints.header(0, ttl_ms)
    };
    if header.ttl_ms.is_some() || header.durable.is_some() || header.priority.is_some() {
        header.encode(out);
    }
    if !amqp_part.delivery_annotations.is_empty() {
        put_delivery_annotations(out, &amqp_part.delivery_annotations);
    }
    let annotations = new_annotations(fields, amqp_part.annotations);
    if !annotations.is_empty() {
        put_message_annotations(out, &annotations);
    }
    put_properties(
        out,
        fields,
        with_long_life(amqp_part.properties, fields.time_to_live_ms),
    );
    if let Some(application) = fields.application_properties {
        properties::write(out, application, unchanged);
    }
    let rest = put_body(out, fields.body);
    out.put_slice(rest);
}

fn new_annotations(fields: &Fields<'_>, others: Map) -> Map {
    let mut map = Map::new();
    if let Some(key) = fields.partition_key {
        map = map.with("x-opt-partition-key", key);
    }
    if let Some(due) = fields.scheduled_enqueue_time {
        map = map.with("x-opt-scheduled-enqueue-time", time(due));
    }
    for (key, value) in others {
        map.push(key, value);
    }
    map
}

/// A value as it is.
fn unchanged(encoded: &[u8]) -> Cow<'_, [u8]> {
    Cow::Borrowed(encoded)
}

/// Sets creation and expiry time if the time to live exceeds the header's 32 bits, 49.7 days (B-249): servers read it
/// from their difference.
fn with_long_life(stored: Properties, life_ms: Option<u64>) -> Properties {
    let Some(life_ms) = life_ms.filter(|ms| *ms > u64::from(u32::MAX)) else {
        return stored;
    };
    let created = stored.creation_time.unwrap_or(AmqpTimestamp(0));
    Properties {
        creation_time: Some(created),
        absolute_expiry_time: Some(AmqpTimestamp(created.0.saturating_add_unsigned(life_ms))),
        ..stored
    }
}

fn annotations(fields: &Fields<'_>, metadata: &AmqpMessageMetadata, others: Map) -> Map {
    let mut map = Map::new()
        .with("x-opt-enqueued-time", time(metadata.enqueued_at))
        .with("x-opt-sequence-number", metadata.number.0 as i64);
    if let Some(partition) = metadata.partition {
        map = map.with("x-opt-partition-id", AmqpValue::Short(partition as i16));
    }
    if let Some(key) = fields.partition_key {
        map = map.with("x-opt-partition-key", key);
    }
    if let Some(until) = metadata.locked_until {
        map = map.with("x-opt-locked-until", time(until));
    }
    if let Some(number) = fields.enqueued_number {
        map = map.with("x-opt-enqueue-sequence-number", number.0 as i64);
    }
    if let Some(due) = fields.scheduled_enqueue_time {
        map = map.with("x-opt-scheduled-enqueue-time", time(due));
    }
    if let Some(source) = fields.dead_letter_source {
        map = map.with("x-opt-deadletter-source", source);
    }
    match metadata.state {
        MessageStateAnnotation::Active => {}
        MessageStateAnnotation::Deferred => map = map.with("x-opt-message-state", 1_i32),
        MessageStateAnnotation::Scheduled => map = map.with("x-opt-message-state", 2_i32),
    }
    for (key, value) in others {
        map.push(key, value);
    }
    map
}

/// Sets the expiry time if the sender set one, or if the time to live exceeds the header's 32 bits, 49.7 days (B-249).
///
/// Clients compute the time to live from expiry and creation time, so both use the sender's clock if the sender set
/// one.
fn with_expiry(stored: Properties, metadata: &AmqpMessageMetadata, life_ms: Option<u64>) -> Properties {
    let Some(life_ms) = life_ms.filter(|_| metadata.expires_at != Timestamp::NEVER) else {
        return stored;
    };
    let is_long = life_ms > u64::from(u32::MAX);
    if !is_long && stored.absolute_expiry_time.is_none() {
        return stored;
    }
    let created = stored.creation_time.unwrap_or(time(metadata.enqueued_at));
    Properties {
        absolute_expiry_time: Some(AmqpTimestamp(created.0.saturating_add_unsigned(life_ms))),
        creation_time: stored.creation_time.or(is_long.then_some(created)),
        ..stored
    }
}

fn put_properties(out: &mut BytesMut, fields: &Fields<'_>, stored: Properties) {
    let message_id = match fields.message_id {
        Some(MessageId::Assigned(_)) => fields.message_id.map(|id| AmqpMessageId::String(id.to_string().into())),
        Some(MessageId::Given(text)) => AmqpPart::id(stored.message_id, Some(text)),
        None => None,
    };
    let properties = Properties {
        message_id,
        to: AmqpPart::address(stored.to, fields.to),
        subject: fields.subject.map(Into::into),
        reply_to: AmqpPart::address(stored.reply_to, fields.reply_to),
        correlation_id: AmqpPart::id(stored.correlation_id, fields.correlation_id),
        content_type: fields.content_type.map(properties::symbol),
        group_id: fields.session_id.map(Into::into),
        reply_to_group_id: fields.reply_to_session_id.map(Into::into),
        user_id: stored.user_id,
        content_encoding: stored.content_encoding,
        absolute_expiry_time: stored.absolute_expiry_time,
        creation_time: stored.creation_time,
        group_sequence: stored.group_sequence,
    };
    if properties != Properties::NONE {
        properties.encode(out);
    }
}

fn put_body<'a>(out: &mut BytesMut, body: Body<'a>) -> &'a [u8] {
    match body {
        Body::Data(bytes) => {
            out.put_slice(&[code::DESCRIBED, code::ULONG_SMALL, section::DATA]);
            properties::put_size(out, code::BINARY_8, code::BINARY_32, bytes.len());
            bytes
        }
        Body::Null => {
            out.put_slice(&[code::DESCRIBED, code::ULONG_SMALL, section::VALUE]);
            AmqpValue::Null.encode(out);
            &[]
        }
        Body::Sections(sections) => sections,
    }
}
