// SPDX-License-Identifier: Apache-2.0
//! `send` sends a message; `send-edited` sends an edited dead letter and removes the original.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oxbus_broker::entity::MessageSelector;
use oxbus_broker::filter::SqlFilter;
use oxbus_model::message::{Body, Fields, MessageId, PropertiesBuilder, Value as Property};
use oxbus_model::name::{EntityName, SubQueue};
use oxbus_model::{SequenceNumber, Timestamp};
use oxbus_store::Wait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Request;
use super::message::find;
use super::reading::parse_number;
use crate::console::error::{ConsoleError, Result, from_json};

/// A message as a page sends it.
#[derive(Deserialize)]
struct GivenMessage {
    path: String,
    /// Base64.
    body: String,
    #[serde(default)]
    message_id: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    partition_key: Option<String>,
    #[serde(default)]
    subject: Option<String>,
    #[serde(default)]
    correlation_id: Option<String>,
    #[serde(default)]
    content_type: Option<String>,
    #[serde(default)]
    to: Option<String>,
    #[serde(default)]
    reply_to: Option<String>,
    #[serde(default)]
    time_to_live_ms: Option<u64>,
    #[serde(default)]
    scheduled_ms: Option<u64>,
    #[serde(default)]
    properties: Vec<GivenProperty>,
    /// The dead letter that was edited.
    #[serde(default)]
    number: Option<String>,
}

#[derive(Deserialize)]
struct GivenProperty {
    name: String,
    /// `text`, `integer`, `double` or `boolean`.
    kind: String,
    value: String,
}

impl GivenProperty {
    fn value(&self) -> Result<Property<'_>> {
        let wrong = || {
            let detail = format!(
                "the property `{}` must be of the type {}: `{}`",
                self.name, self.kind, self.value
            );
            ConsoleError::bad_request(detail)
        };
        match self.kind.as_str() {
            "text" => Ok(Property::Text(&self.value)),
            "integer" => self.value.trim().parse().map(Property::Int).map_err(|_| wrong()),
            "double" => self.value.trim().parse().map(Property::Double).map_err(|_| wrong()),
            "boolean" => self.value.trim().parse().map(Property::Bool).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

/// A text that was filled in.
fn set(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

fn deliver(request: &Request, given: &GivenMessage, entity: &str, wait: &Wait<'_>) -> Result<SequenceNumber> {
    let body = STANDARD.decode(&given.body);
    let body = body.map_err(|_| ConsoleError::bad_request("the body is not base64; reload the page"))?;
    let mut properties = PropertiesBuilder::default();
    for property in &given.properties {
        properties.push(&property.name, property.value()?);
    }
    let new_id = || MessageId::Assigned((request.context.new_id())(1));
    let fields = Fields {
        body: Body::Data(&body),
        message_id: Some(set(given.message_id.as_ref()).map_or_else(new_id, MessageId::Given)),
        session_id: set(given.session_id.as_ref()),
        partition_key: set(given.partition_key.as_ref()),
        subject: set(given.subject.as_ref()),
        correlation_id: set(given.correlation_id.as_ref()),
        content_type: set(given.content_type.as_ref()),
        to: set(given.to.as_ref()),
        reply_to: set(given.reply_to.as_ref()),
        time_to_live_ms: given.time_to_live_ms,
        scheduled_enqueue_time: given.scheduled_ms.map(Timestamp),
        application_properties: (!given.properties.is_empty()).then(|| properties.properties()),
        ..Fields::default()
    };
    Ok(request.context.namespace().sender(entity)?.send(&fields, None, wait)?)
}

pub(super) fn send(request: &Request, body: &[u8], wait: &Wait<'_>) -> Result<Value> {
    let given: GivenMessage = from_json(body)?;
    let number = deliver(request, &given, &given.path, wait)?;
    request.log_change("send", &given.path, 1);
    Ok(json!({ "number": number.0.to_string() }))
}

/// Sends the edited copy first, then removes the original: a crash between the two leaves both, never none.
pub(super) fn send_edited(request: &Request, body: &[u8], wait: &Wait<'_>) -> Result<Value> {
    let given: GivenMessage = from_json(body)?;
    let (own, sub_queue) = EntityName::split_sub_queue(&given.path);
    let number = given.number.as_deref().filter(|_| sub_queue == SubQueue::DeadLetter);
    let number = number.ok_or_else(|| ConsoleError::bad_request("only a dead letter can be edited and sent again"))?;
    let number = parse_number(number)?;
    let (receiver, _) = find(request, &given.path, number, wait)?;
    let entity = receiver.entity();
    let target = match entity.name().parts() {
        (topic, Some(_)) => topic,
        _ => own,
    };
    let sent = deliver(request, &given, target, wait)?;
    let selector = MessageSelector {
        filter: Some(SqlFilter::parse(&format!("sys.SequenceNumber = {}", number.0), &[])?),
        limit: Some(1),
        ..MessageSelector::default()
    };
    let removed = entity.purge(SubQueue::DeadLetter, &selector, wait)?;
    request.log_change("send_edited", &given.path, 1);
    Ok(json!({ "number": sent.0.to_string(), "removed": removed }))
}
