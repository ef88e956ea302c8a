// SPDX-License-Identifier: Apache-2.0
//! The AMQP part of a stored message: up to four AMQP sections, each optional.
//!
//! It holds the header fields that the broker ignores, the sender's delivery and message annotations that the broker
//! does not interpret, and properties without a field. An id or address that is not a string is stored here and as text
//! in its field. The typed value counts only while the two agree, because a rule's action changes the field alone. An
//! address without a text, such as a list, is stored only here, until an action sets the field.

use std::ops::Range;

use crate::codec::Reader;
use crate::codec::{AmqpValue, Field, Map};
use crate::message::{
    AmqpMessageId, Header, Properties, Sections, put_delivery_annotations, put_message_annotations, read_map,
};
use bytes::{Bytes, BytesMut};

use super::ids;

/// The contents of an AMQP part.
#[derive(Debug)]
pub(super) struct AmqpPart {
    pub(super) hints: HeaderHints,
    pub(super) delivery_annotations: Map,
    pub(super) annotations: Map,
    pub(super) properties: Properties,
}

/// Header fields that the broker stores and forwards, but ignores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeaderHints {
    pub(super) durable: Option<bool>,
    pub(super) priority: Option<u8>,
}

impl HeaderHints {
    /// The hints of a header.
    pub(super) fn of(header: &Header) -> Self {
        let Header { durable, priority, .. } = *header;
        Self { durable, priority }
    }

    /// A header with these hints.
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

    /// Encodes the part. Returns empty bytes if there is nothing in it.
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

    /// Reads the part of a stored message. A part that does not decode counts as empty.
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

    /// The typed id if it still agrees with the field, else the field.
    pub(super) fn id(typed: Option<AmqpMessageId>, field: Option<&str>) -> Option<AmqpMessageId> {
        match (typed, field) {
            (Some(typed), Some(field)) if ids::text(&typed) == field => Some(typed),
            (_, field) => field.map(AmqpMessageId::from),
        }
    }

    /// The typed address if it still agrees with the field, else the field.
    pub(super) fn address(typed: Option<AmqpValue>, field: Option<&str>) -> Option<AmqpValue> {
        match typed {
            Some(typed) if ids::address_text(&typed).as_deref() == field => Some(typed),
            _ => field.map(AmqpValue::from),
        }
    }
}
