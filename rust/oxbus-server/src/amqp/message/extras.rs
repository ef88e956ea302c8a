// SPDX-License-Identifier: Apache-2.0
//! The AMQP part of a message: two sections of AMQP, either of which may be missing.
//!
//! Annotations of the sender that mean nothing to the broker, and the properties that it has no field for. A property with a
//! field is here only when its type is not that of the field; then the field has its text, and the two must agree: an action
//! of a rule changes the field alone.

use bytes::{Bytes, BytesMut};
use oxbus_amqp::codec::Reader;
use oxbus_amqp::codec::{Field, Map, Value};
use oxbus_amqp::message::{MessageId, Properties, Sections, put_message_annotations, read_map};

use super::ids;

/// What is in an AMQP part.
#[derive(Debug)]
pub(super) struct Extras {
    pub(super) annotations: Map,
    pub(super) properties: Properties,
}

impl Extras {
    /// Writes the part; nothing when there is nothing in it.
    pub(super) fn encoded(annotations: &Map, properties: &Properties) -> Bytes {
        let mut out = BytesMut::new();
        if !annotations.is_empty() {
            put_message_annotations(&mut out, annotations);
        }
        if *properties != Properties::NONE {
            properties.encode(&mut out);
        }
        out.freeze()
    }

    /// Reads the part of a stored message. One that does not decode is taken for none: it was written by this file.
    pub(super) fn read(part: &[u8]) -> Self {
        let none = Self {
            annotations: Map::new(),
            properties: Properties::NONE,
        };
        if part.is_empty() {
            return none;
        }
        let part = Bytes::copy_from_slice(part);
        let Ok(sections) = Sections::scan(&part) else {
            return none;
        };
        let annotations = read_map(&part, &sections.message_annotations).unwrap_or_default();
        let properties = if sections.properties.is_empty() {
            Properties::NONE
        } else {
            let mut reader = Reader::within(&part, sections.properties.start, sections.properties.end);
            Properties::decode(&mut reader).unwrap_or(Properties::NONE)
        };
        Self {
            annotations,
            properties,
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
