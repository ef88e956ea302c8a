// SPDX-License-Identifier: Apache-2.0
//! The header `BrokerProperties`: what is no body and no user property, as a JSON object (B-449, B-450).

use std::fmt::Write as _;

use oxbus_model::message::{Fields, MessageId};
use oxbus_model::{LockToken, SequenceNumber, Timestamp};
use serde_json::{Map, Value, json};

use super::dates;
use super::outgoing::Outgoing;
use crate::http::refusal::Refusal;
use crate::life;

/// Name of the header.
pub(super) const HEADER: &str = "brokerproperties";

/// Reads the object of a message to send. Names compare without case; unknown ones are ignored, whatever their value.
pub(super) fn read(object: &Map<String, Value>, into: &mut Outgoing) -> Result<(), Refusal> {
    for (name, value) in object {
        if value.is_null() {
            continue;
        }
        let text = |value: &Value| {
            value
                .as_str()
                .map(str::to_owned)
                .ok_or_else(|| wrong(name, "a text", value))
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
                // A cast of what is too large gives the largest there is.
                into.time_to_live_ms = Some((seconds * 1000.0) as u64);
            }
            "scheduledenqueuetimeutc" => {
                let due = value.as_str().and_then(dates::read);
                into.scheduled =
                    Some(due.ok_or_else(|| wrong(name, "a time such as `Wed, 02 Jul 2014 01:32:27 GMT`", value))?);
            }
            _ => {}
        }
    }
    Ok(())
}

fn wrong(name: &str, expected: &str, value: &Value) -> Refusal {
    Refusal::bad_request(format!("BrokerProperties: {name} must be {expected}: {value}"))
}

/// What is known of a received message beside its fields.
pub(super) struct Seen {
    pub(super) number: SequenceNumber,
    pub(super) enqueued_at: Timestamp,
    pub(super) expires_at: Timestamp,
    pub(super) delivery_count: u32,
    pub(super) locked_until: Option<Timestamp>,
    pub(super) token: Option<LockToken>,
    pub(super) is_deferred: bool,
}

/// The object of a received message.
pub(super) fn written(fields: &Fields<'_>, seen: &Seen) -> String {
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
    // The first delivery counts here, as it does not on AMQP.
    set("DeliveryCount", json!(u64::from(seen.delivery_count) + 1));
    set(
        "EnqueuedSequenceNumber",
        json!(fields.enqueued_number.unwrap_or(seen.number).0),
    );
    set("EnqueuedTimeUtc", json!(dates::written(seen.enqueued_at)));
    if let Some(until) = seen.locked_until {
        set("LockedUntilUtc", json!(dates::written(until)));
    }
    if let Some(token) = seen.token {
        set("LockToken", json!(guid(token)));
    }
    if let Some(id) = fields.message_id {
        set("MessageId", json!(shown_id(id)));
    }
    if let Some(due) = fields.scheduled_enqueue_time {
        set("ScheduledEnqueueTimeUtc", json!(dates::written(due)));
    }
    set("SequenceNumber", json!(seen.number.0));
    set("State", json!(if seen.is_deferred { "Deferred" } else { "Active" }));
    if let Some(ms) = life::time_to_live_ms(fields, seen.enqueued_at, seen.expires_at) {
        set("TimeToLive", json!(ms as f64 / 1000.0));
    }
    ascii(&Value::Object(object).to_string())
}

/// A message id as text.
pub(super) fn shown_id(id: MessageId<'_>) -> String {
    id.to_string()
}

/// A lock token as it stands in paths and properties.
pub(super) fn guid(token: LockToken) -> String {
    let hex = oxbus_wire::to_hex(&token.0);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// The token of such a text.
pub(super) fn token(text: &str) -> Option<LockToken> {
    let digits: String = text.chars().filter(|it| !matches!(it, '-' | '{' | '}')).collect();
    let bytes = oxbus_wire::from_hex(&digits.to_ascii_lowercase())?;
    bytes.try_into().ok().map(LockToken)
}

/// JSON with every character beyond ASCII escaped: headers have no encoding.
pub(super) fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            text.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                write!(text, "\\u{unit:04x}").expect("text takes everything");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use oxbus_model::LockToken;
    use proptest::prelude::*;

    use super::{ascii, guid, token};

    proptest! {
        #[test]
        fn a_token_comes_back_from_its_text(bytes: [u8; 16]) {
            let text = guid(LockToken(bytes));
            prop_assert_eq!(text.len(), 36);
            prop_assert_eq!(token(&text), Some(LockToken(bytes)));
            prop_assert_eq!(token(&text.to_ascii_uppercase()), Some(LockToken(bytes)));
        }

        #[test]
        fn json_in_a_header_is_ascii_and_means_the_same(text: String) {
            let json = serde_json::to_string(&text).expect("text");
            let escaped = ascii(&json);
            prop_assert!(escaped.is_ascii());
            prop_assert_eq!(serde_json::from_str::<String>(&escaped).expect("json"), text);
        }
    }

    #[test]
    fn what_is_no_token_is_none() {
        for text in [
            "",
            "7",
            "00000000-0000-0000-0000-00000000000",
            "zz000000-0000-0000-0000-000000000000",
        ] {
            assert_eq!(token(text), None, "{text}");
        }
    }
}
