// SPDX-License-Identifier: Apache-2.0
//! The header `BrokerProperties`: a JSON object with everything except body and user properties (B-449, B-450).

use std::fmt::Write as _;

use oxbus_model::message::{Fields, MessageId};
use oxbus_model::{LockToken, SequenceNumber, Timestamp};
use serde_json::{Map, Value, json};

use super::dates;
use super::message::HttpMessage;
use crate::http::error::HttpError;

/// The name of the header.
pub(super) const HEADER: &str = "brokerproperties";

/// Reads the properties of a message to send. Names are case-insensitive. Unknown ones are ignored, whatever their
/// value.
pub(super) fn read(object: &Map<String, Value>, into: &mut HttpMessage) -> Result<(), HttpError> {
    for (name, value) in object {
        if value.is_null() {
            continue;
        }
        let text = |value: &Value| {
            value
                .as_str()
                .map(str::to_owned)
                .ok_or_else(|| wrong(name, "a string", value))
        };
        match name.to_ascii_lowercase().as_str() {
            "correlationid" => into.correlation_id = Some(text(value)?),
            "label" | "subject" => into.subject = Some(text(value)?),
            "messageid" => into.message_id = Some(text(value)?),
            "partitionkey" => into.partition_key = Some(text(value)?),
            "replyto" => into.reply_to = Some(text(value)?),
            "replytosessionid" => into.reply_to_session_id = Some(text(value)?),
            "sessionid" => into.session_id = Some(text(value)?),
            "to" => into.to = Some(text(value)?),
            "contenttype" => into.content_type = Some(text(value)?),
            "timetolive" => {
                let seconds = value.as_f64().or_else(|| value.as_str()?.parse().ok());
                let seconds = seconds.filter(|seconds| *seconds >= 0.0);
                let seconds = seconds.ok_or_else(|| wrong(name, "a number of seconds", value))?;
                // The cast saturates.
                into.time_to_live_ms = Some((seconds * 1000.0) as u64);
            }
            "scheduledenqueuetimeutc" => {
                let due = value.as_str().and_then(dates::parse);
                into.scheduled =
                    Some(due.ok_or_else(|| wrong(name, "a time such as `Wed, 02 Jul 2014 01:32:27 GMT`", value))?);
            }
            _ => {}
        }
    }
    Ok(())
}

fn wrong(name: &str, expected: &str, value: &Value) -> HttpError {
    HttpError::bad_request(format!("BrokerProperties: {name} must be {expected}: {value}"))
}

/// The broker's metadata of a received message.
pub(super) struct HttpMessageMetadata {
    pub(super) number: SequenceNumber,
    pub(super) enqueued_at: Timestamp,
    pub(super) expires_at: Timestamp,
    pub(super) delivery_count: u32,
    pub(super) locked_until: Option<Timestamp>,
    pub(super) token: Option<LockToken>,
    pub(super) is_deferred: bool,
}

/// Builds the header value of a received message.
pub(super) fn to_json(fields: &Fields<'_>, metadata: &HttpMessageMetadata) -> String {
    let mut object = Map::new();
    let mut set = |name: &str, value: Value| {
        object.insert(name.to_owned(), value);
    };
    for (name, text) in [
        ("CorrelationId", fields.correlation_id),
        ("DeadLetterSource", fields.dead_letter_source),
        ("Label", fields.subject),
        ("PartitionKey", fields.partition_key),
        ("ReplyTo", fields.reply_to),
        ("ReplyToSessionId", fields.reply_to_session_id),
        ("SessionId", fields.session_id),
        ("To", fields.to),
    ] {
        if let Some(text) = text {
            set(name, json!(text));
        }
    }
    // Unlike in AMQP, the count includes the current delivery.
    set("DeliveryCount", json!(u64::from(metadata.delivery_count) + 1));
    set(
        "EnqueuedSequenceNumber",
        json!(fields.enqueued_number.unwrap_or(metadata.number).0),
    );
    set("EnqueuedTimeUtc", json!(dates::format_http_date(metadata.enqueued_at)));
    if let Some(until) = metadata.locked_until {
        set("LockedUntilUtc", json!(dates::format_http_date(until)));
    }
    if let Some(token) = metadata.token {
        set("LockToken", json!(format_token(token)));
    }
    if let Some(id) = fields.message_id {
        set("MessageId", json!(format_id(id)));
    }
    if let Some(due) = fields.scheduled_enqueue_time {
        set("ScheduledEnqueueTimeUtc", json!(dates::format_http_date(due)));
    }
    set("SequenceNumber", json!(metadata.number.0));
    set("State", json!(if metadata.is_deferred { "Deferred" } else { "Active" }));
    if let Some(ms) = fields.effective_time_to_live_ms(metadata.enqueued_at, metadata.expires_at) {
        set("TimeToLive", json!(ms as f64 / 1000.0));
    }
    escape_non_ascii(&Value::Object(object).to_string())
}

/// Formats a message id.
pub(super) fn format_id(id: MessageId<'_>) -> String {
    id.to_string()
}

/// Formats a lock token for paths and properties.
pub(super) fn format_token(token: LockToken) -> String {
    let hex = oxbus_model::hex::to_hex(&token.0);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Parses a lock token.
pub(super) fn parse_token(text: &str) -> Option<LockToken> {
    let digits: String = text.chars().filter(|it| !matches!(it, '-' | '{' | '}')).collect();
    let bytes = oxbus_model::hex::from_hex(&digits.to_ascii_lowercase())?;
    bytes.try_into().ok().map(LockToken)
}

/// Escapes all non-ASCII characters of a JSON text, because headers have no encoding.
pub(super) fn escape_non_ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            text.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                write!(text, "\\u{unit:04x}").expect("writing to a string cannot fail");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use oxbus_model::LockToken;
    use proptest::prelude::*;

    use super::{escape_non_ascii, format_token, parse_token};

    proptest! {
        #[test]
        fn token_round_trips(bytes: [u8; 16]) {
            let text = format_token(LockToken(bytes));
            prop_assert_eq!(text.len(), 36);
            prop_assert_eq!(parse_token(&text), Some(LockToken(bytes)));
            prop_assert_eq!(parse_token(&text.to_ascii_uppercase()), Some(LockToken(bytes)));
        }

        #[test]
        fn escaped_json_is_ascii_and_equivalent(text: String) {
            let json = serde_json::to_string(&text).expect("text");
            let escaped = escape_non_ascii(&json);
            prop_assert!(escaped.is_ascii());
            prop_assert_eq!(serde_json::from_str::<String>(&escaped).expect("json"), text);
        }
    }

    #[test]
    fn invalid_tokens_are_rejected() {
        for text in [
            "",
            "7",
            "00000000-0000-0000-0000-00000000000",
            "zz000000-0000-0000-0000-000000000000",
        ] {
            assert_eq!(parse_token(text), None, "{text}");
        }
    }
}
