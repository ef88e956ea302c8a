// SPDX-License-Identifier: Apache-2.0
//! Decodes a message that a client received: its fields, and what the broker adds.

use bytes::Bytes;
use oxbus_model::message::Fields;
use oxbus_model::{LockToken, Result, SequenceNumber, Timestamp};

use super::incoming::read;
use super::{AmqpMessageMetadata, MessageStateAnnotation, malformed, token};
use crate::codec::{AmqpTimestamp, AmqpValue, Field, Reader};
use crate::message::{Header, Sections, entries, read_map};

/// What the broker adds to a message.
#[derive(Default)]
struct BrokerAnnotations {
    number: u64,
    enqueued_number: Option<SequenceNumber>,
    enqueued_at: Timestamp,
    locked_until: Option<Timestamp>,
    state: i64,
    dead_letter_source: Option<AmqpValue>,
    partition: Option<u16>,
}

/// Calls `take` with the fields of a received message and the broker's metadata.
pub fn read_received<R>(
    message: &Bytes,
    take: impl FnOnce(&Fields<'_>, &AmqpMessageMetadata) -> Result<R>,
) -> Result<R> {
    let sections = Sections::scan(message).map_err(malformed)?;
    let added = annotations(message, &sections)?;
    let (delivery_count, lock_token) = (delivery_count(message, &sections)?, lock_token(message, &sections)?);
    read(message, |fields| {
        let fields = Fields {
            enqueued_number: added.enqueued_number,
            dead_letter_source: added.dead_letter_source.as_ref().and_then(AmqpValue::as_text),
            ..*fields
        };
        let from = fields
            .scheduled_enqueue_time
            .map_or(added.enqueued_at, |due| due.max(added.enqueued_at));
        let metadata = AmqpMessageMetadata {
            number: SequenceNumber(added.number),
            enqueued_at: added.enqueued_at,
            expires_at: fields.time_to_live_ms.map_or(Timestamp::NEVER, |ms| from.plus_ms(ms)),
            delivery_count,
            locked_until: added.locked_until,
            lock_token,
            state: match added.state {
                1 => MessageStateAnnotation::Deferred,
                2 => MessageStateAnnotation::Scheduled,
                _ => MessageStateAnnotation::Active,
            },
            partition: added.partition,
        };
        take(&fields, &metadata)
    })
}

fn annotations(message: &Bytes, sections: &Sections) -> Result<BrokerAnnotations> {
    let mut added = BrokerAnnotations::default();
    let Some(pairs) = entries(message, &sections.message_annotations).map_err(malformed)? else {
        return Ok(added);
    };
    for pair in pairs {
        let (key, value) = pair.map_err(malformed)?;
        match key.as_text() {
            Some("x-opt-sequence-number") => added.number = number(&value).unwrap_or(0),
            Some("x-opt-enqueue-sequence-number") => added.enqueued_number = number(&value).map(SequenceNumber),
            Some("x-opt-enqueued-time") => added.enqueued_at = time(&value).unwrap_or_default(),
            Some("x-opt-locked-until") => added.locked_until = time(&value),
            Some("x-opt-message-state") => added.state = value.as_i64().unwrap_or(0),
            Some("x-opt-partition-id") => added.partition = value.as_i64().and_then(|id| u16::try_from(id).ok()),
            Some("x-opt-deadletter-source") => added.dead_letter_source = Some(value),
            _ => {}
        }
    }
    Ok(added)
}

/// The cast keeps all 64 bits: the number of a high partition has its top bit set.
fn number(value: &AmqpValue) -> Option<u64> {
    value.as_i64().map(i64::cast_unsigned)
}

fn time(value: &AmqpValue) -> Option<Timestamp> {
    match value {
        AmqpValue::Timestamp(AmqpTimestamp(ms)) => {
            Some(Timestamp(u64::try_from(*ms).unwrap_or(0).min(Timestamp::NEVER.0)))
        }
        _ => None,
    }
}

fn delivery_count(message: &Bytes, sections: &Sections) -> Result<u32> {
    if sections.header.is_empty() {
        return Ok(0);
    }
    let mut reader = Reader::within(message, sections.header.start, sections.header.end);
    let header = Header::decode(&mut reader).map_err(malformed)?;
    Ok(header.delivery_count.unwrap_or(0))
}

fn lock_token(message: &Bytes, sections: &Sections) -> Result<Option<LockToken>> {
    let annotations = read_map(message, &sections.delivery_annotations).map_err(malformed)?;
    Ok(match annotations.get("x-opt-lock-token") {
        Some(AmqpValue::Uuid(uuid)) => Some(token::from_guid(*uuid)),
        _ => None,
    })
}
