// SPDX-License-Identifier: Apache-2.0
//! `message`: one message with its body; and the short form for lists.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oxbus_broker::client::BrowseItem;
use oxbus_broker::entity::Entity;
use oxbus_broker::record::{DEAD_LETTER_DESCRIPTION, DEAD_LETTER_REASON};
use oxbus_model::message::{Body, Fields, MessageId, Value as Property};
use oxbus_model::{SequenceNumber, Timestamp};
use oxbus_store::{MessagePhase, Wait};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Request;
use super::reading::{number_of, parse_number, receiver};
use crate::console::error::{ConsoleError, Result};

/// Bytes of a body that a page shows.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Bytes of a body that a list shows.
const PREVIEW_BYTES: usize = 120;

/// The value of a property as text.
pub(super) fn text_of_value(value: Property<'_>) -> String {
    match value {
        Property::Null => String::new(),
        Property::Bool(it) => it.to_string(),
        Property::Int(it) | Property::Time(it) => it.to_string(),
        Property::Double(it) => it.to_string(),
        Property::Text(it) => it.to_owned(),
        Property::Bytes(it) => oxbus_model::hex::to_hex(it),
        Property::Uuid(it) => oxbus_model::hex::to_hex(&it),
        Property::Timespan(it) => oxbus_model::timespan::text(it),
    }
}

fn kind_of(value: Property<'_>) -> &'static str {
    match value {
        Property::Null => "null",
        Property::Bool(_) => "boolean",
        Property::Int(_) => "integer",
        Property::Double(_) => "double",
        Property::Text(_) => "text",
        Property::Bytes(_) => "bytes",
        Property::Uuid(_) => "uuid",
        Property::Time(_) => "time",
        Property::Timespan(_) => "timespan",
    }
}

/// The value of a property that is text, or `None`.
pub(super) fn text_property<'a>(fields: &Fields<'a>, name: &str) -> Option<&'a str> {
    match fields.application_properties?.get(name)? {
        Property::Text(text) => Some(text),
        _ => None,
    }
}

fn state(phase: MessagePhase) -> &'static str {
    match phase {
        MessagePhase::Ready => "ready",
        MessagePhase::Cached => "cached",
        MessagePhase::Locked => "locked",
        MessagePhase::Deferred => "deferred",
        MessagePhase::DeferredLocked => "deferred, locked",
        MessagePhase::Scheduled => "scheduled",
    }
}

fn message_id(fields: &Fields<'_>) -> Option<String> {
    fields.message_id.map(|id| match id {
        MessageId::Given(id) => id.to_owned(),
        MessageId::Assigned(id) => String::from_utf8_lossy(&id.hex()).into_owned(),
    })
}

fn fields_of(item: &BrowseItem) -> Result<Fields<'_>> {
    let record = item.message.record.in_memory();
    let missing = || ConsoleError::bad_request("the message is no longer in memory; look again");
    Ok(Fields::decode(record.ok_or_else(missing)?)?)
}

/// The short form of a message.
pub(super) fn brief(entity: &Entity, item: &BrowseItem) -> Result<Value> {
    let fields = fields_of(item)?;
    let body = fields.body.data();
    let preview = String::from_utf8_lossy(&body[..body.len().min(PREVIEW_BYTES)]).into_owned();
    let never = |at: Timestamp| (at != Timestamp::NEVER).then_some(at.0);
    Ok(json!({
        "number": number_of(item).0.to_string(),
        "partition": entity.visible_partition(item.index).map(|it| it.0),
        "state": state(item.message.phase),
        "enqueued_ms": item.message.enqueued_at.0,
        "expires_ms": never(item.message.expires_at),
        "delivery_count": item.message.delivery_count,
        "bytes": item.message.record.len(),
        "message_id": message_id(&fields),
        "session_id": fields.session_id,
        "subject": fields.subject,
        "content_type": fields.content_type,
        "preview": preview,
        "body_bytes": body.len(),
        "reason": text_property(&fields, DEAD_LETTER_REASON),
        "description": text_property(&fields, DEAD_LETTER_DESCRIPTION),
    }))
}

/// The complete message.
fn complete(entity: &Entity, item: &BrowseItem) -> Result<Value> {
    let fields = fields_of(item)?;
    let body = fields.body.data();
    let properties: Vec<Value> = fields.application_properties.map_or_else(Vec::new, |properties| {
        let entries = properties.iter();
        entries
            .map(|(name, value)| json!({ "name": name, "kind": kind_of(value), "value": text_of_value(value) }))
            .collect()
    });
    let mut shown = brief(entity, item)?;
    let more = json!({
        "partition_key": fields.partition_key,
        "correlation_id": fields.correlation_id,
        "to": fields.to,
        "reply_to": fields.reply_to,
        "reply_to_session_id": fields.reply_to_session_id,
        "time_to_live_ms": fields.time_to_live_ms,
        "scheduled_ms": fields.scheduled_enqueue_time.map(|at| at.0),
        "enqueued_number": fields.enqueued_number.map(|it| it.0.to_string()),
        "dead_letter_source": fields.dead_letter_source,
        "properties": properties,
        "body": STANDARD.encode(&body[..body.len().min(BODY_BYTES_MAX)]),
        "body_kind": match fields.body {
            Body::Data(_) => "data",
            Body::Null => "none",
            Body::Sections(_) => "AMQP value or sequence",
        },
        "is_cut": body.len() > BODY_BYTES_MAX,
    });
    if let (Some(shown), Value::Object(more)) = (shown.as_object_mut(), more) {
        shown.extend(more);
    }
    Ok(shown)
}

#[derive(Deserialize)]
struct MessageQuery {
    path: String,
    number: String,
}

/// The message with this number.
pub(super) fn find(
    request: &Request,
    path: &str,
    number: SequenceNumber,
    wait: &Wait<'_>,
) -> Result<(oxbus_broker::Receiver, BrowseItem)> {
    let receiver = receiver(request, path, None)?;
    let found = receiver.browse(1, Some(number), wait)?.into_iter().next();
    let found = found.filter(|item| number_of(item) == number).ok_or_else(|| {
        ConsoleError::new(
            hyper::StatusCode::NOT_FOUND,
            "the message is no longer here: it was completed, moved or has expired; go back to the list",
        )
    })?;
    Ok((receiver, found))
}

pub(super) fn get(request: &Request, wait: &Wait<'_>) -> Result<Value> {
    let query: MessageQuery = request.query()?;
    let (receiver, item) = find(request, &query.path, parse_number(&query.number)?, wait)?;
    complete(receiver.entity(), &item)
}
