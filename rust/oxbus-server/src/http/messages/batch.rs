// SPDX-License-Identifier: Apache-2.0
//! Batches in JSON: `[{"Body": …, "BrokerProperties": {…}, "UserProperties": {…}}]` (B-442).

use serde::Deserialize;
use serde_json::{Map, Value};

use super::message::HttpMessage;
use super::{broker_properties, user_properties};
use crate::http::error::HttpError;

const CONTENT_TYPE: &str = "application/vnd.microsoft.servicebus.json";

/// True for the content type of a batch, with or without parameters.
pub(super) fn is_batch(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case(CONTENT_TYPE)
}

/// One message. Names are case-sensitive. Unknown ones are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Item {
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    broker_properties: Option<Map<String, Value>>,
    #[serde(default)]
    user_properties: Option<Map<String, Value>>,
}

/// Parses the messages of a batch and their bodies.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<(HttpMessage, Vec<u8>)>, HttpError> {
    let items: Vec<Item> = serde_json::from_slice(bytes).map_err(|error| {
        HttpError::bad_request(format!(
            "the batch must be a JSON array of objects with Body, BrokerProperties and UserProperties: {error}"
        ))
    })?;
    items.into_iter().map(message).collect()
}

fn message(item: Item) -> Result<(HttpMessage, Vec<u8>), HttpError> {
    let mut message = HttpMessage::default();
    if let Some(object) = &item.broker_properties {
        broker_properties::read(object, &mut message)?;
    }
    for (name, value) in item.user_properties.into_iter().flatten() {
        let value = user_properties::from_json(&value).ok_or_else(|| {
            HttpError::bad_request(format!(
                "UserProperties: {name} must be a string, a number, true, false or null: {value}"
            ))
        })?;
        message.set(name, value);
    }
    Ok((message, item.body.unwrap_or_default().into_bytes()))
}
