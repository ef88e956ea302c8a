// SPDX-License-Identifier: Apache-2.0
//! The AMQP part of a message: up to four sections of AMQP, any of which may be missing.
//!
//! What the header says and the broker does not count, annotations of the sender of both kinds that mean nothing to the
//! broker, and the properties that it has no field for. A property with a field is here only when its type is not that of the field; then the field has its text, and the two must agree: an action
//! of a rule changes the field alone.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use oxbus_amqp::codec::Reader;
use oxbus_amqp::codec::{Field, Map, Value};
use oxbus_amqp::message::{
    Header, MessageId, Properties, Sections, put_delivery_annotations, put_message_annotations, read_map,
};

use super::ids;

/// What is in an AMQP part.
#[derive(Debug)]
pub(super) struct AmqpPart {
    pub(super) hints: HeaderHints,
    pub(super) delivery_annotations: Map,
    pub(super) annotations: Map,
    pub(super) properties: Properties,
}

/// What its sender says of how it is to be treated. The broker treats all alike, and hands it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeaderHints {
    pub(super) durable: Option<bool>,
    pub(super) priority: Option<u8>,
}

impl HeaderHints {
    /// What a header says of it.
    pub(super) fn of(header: &Header) -> Self {
        let Header { durable, priority, .. } = *header;
        Self { durable, priority }
    }

    /// The header that says the same.
    pub(super) fn header(self, delivery_count: u32, ttl_ms: Option<u32>) -> Header {
        Header {
            durable: self.durable,
            priority: self.priority,
            ..Header::of(delivery_count, ttl_ms)
        }
    }
}

impl AmqpPart {
    const NONE: Self = Self {
        hints: HeaderHints {
            durable: None,
            priority: None,
        },
        delivery_annotations: Map::new(),
        annotations: Map::new(),
        properties: Properties::NONE,
    };

    /// Writes the part; nothing when there is nothing in it.
    pub(super) fn encoded(&self) -> Bytes {
        let mut out = BytesMut::new();
        if self.hints != Self::NONE.hints {
            self.hints.header(0, None).encode(&mut out);
        }
        if !self.delivery_annotations.is_empty() {
            put_delivery_annotations(&mut out, &self.delivery_annotations);
        }
        if !self.annotations.is_empty() {
            put_message_annotations(&mut out, &self.annotations);
        }
        if self.properties != Properties::NONE {
            self.properties.encode(&mut out);
        }
        out.freeze()
    }

    /// Reads the part of a stored message. One that does not decode is taken for none: it was written by this file.
    pub(super) fn read(part: &[u8]) -> Self {
        if part.is_empty() {
            return Self::NONE;
        }
        let part = Bytes::copy_from_slice(part);
        let Ok(sections) = Sections::scan(&part) else {
            return Self::NONE;
        };
        let reader = |section: &Range<usize>| Reader::within(&part, section.start, section.end);
        let header = (!sections.header.is_empty())
            .then(|| Header::decode(&mut reader(&sections.header)).ok())
            .flatten();
        let properties = (!sections.properties.is_empty())
            .then(|| Properties::decode(&mut reader(&sections.properties)).ok())
            .flatten();
        Self {
            hints: header.map_or(Self::NONE.hints, |header| HeaderHints::of(&header)),
            delivery_annotations: read_map(&part, &sections.delivery_annotations).unwrap_or_default(),
            annotations: read_map(&part, &sections.message_annotations).unwrap_or_default(),
            properties: properties.unwrap_or(Properties::NONE),
        }
    }

    /// The typed id, while the field still says the same.
    pub(super) fn id(typed: Option<MessageId>, field: Option<&str>) -> Option<MessageId> {
        match (typed, field) {
            (Some(typed), Some(field)) if ids::text(&typed) == field => Some(typed),
            (_, field) => field.map(MessageId::from),
        }
    }

    /// The address as it was written, when it was no string.
    pub(super) fn address(typed: Option<Value>, field: Option<&str>) -> Option<Value> {
        typed.or_else(|| field.map(Value::from))
    }
}
