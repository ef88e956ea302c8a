// SPDX-License-Identifier: Apache-2.0
//! User properties as headers: strings in double quotes, numbers bare, times quoted in RFC 1123 format (B-451).
//!
//! Header names are case-insensitive, so a property from a header gets a lower-case name. One from the JSON of a batch
//! keeps its case. A response omits properties whose name is not a valid header name.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use oxbus_model::message::{Properties, Value};
use oxbus_model::rules::OwnedValue;
use oxbus_model::{Timestamp, timespan};

use super::broker_properties::{self, escape_non_ascii};
use super::dates;
use super::message::HttpMessage;
use crate::http::error::HttpError;

/// Headers of HTTP and of the service, which are not properties.
const RESERVED_HEADERS: [&str; 30] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "authorization",
    "brokerproperties",
    "cache-control",
    "connection",
    "content-encoding",
    "content-language",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "location",
    "origin",
    "pragma",
    "proxy-authorization",
    "proxy-connection",
    "referer",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
];
/// The prefix of the service's own headers.
const SERVICE_PREFIX: &str = "x-ms-";

/// Reads the properties from the headers.
pub(super) fn read(headers: &HeaderMap, into: &mut HttpMessage) -> Result<(), HttpError> {
    for (name, value) in headers {
        let name = name.as_str();
        if RESERVED_HEADERS.contains(&name) || name.starts_with(SERVICE_PREFIX) {
            continue;
        }
        let text = std::str::from_utf8(value.as_bytes()).map_err(|_| {
            HttpError::bad_request(format!("the header is not valid UTF-8; encode it as UTF-8: {name}"))
        })?;
        into.set(name.to_owned(), parse_value(text.trim()));
    }
    Ok(())
}

/// Parses a header value. A value that is not quoted, a number, true or false is a string.
fn parse_value(text: &str) -> OwnedValue {
    if let Some(quoted) = text.strip_prefix('"').and_then(|it| it.strip_suffix('"')) {
        if let Some(time) = dates::parse(quoted).filter(|time| dates::format_http_date(*time) == quoted) {
            return OwnedValue::Time(time.0 as i64);
        }
        // The text is parsed as JSON, the inverse of `write`. A text with invalid escapes is kept literally.
        return OwnedValue::Text(serde_json::from_str(text).unwrap_or_else(|_| quoted.to_owned()));
    }
    if let Ok(number) = text.parse::<i64>() {
        return OwnedValue::Int(number);
    }
    match text {
        "true" | "True" => OwnedValue::Bool(true),
        "false" | "False" => OwnedValue::Bool(false),
        _ => match text.parse::<f64>() {
            Ok(number) if text.starts_with(|it: char| it.is_ascii_digit() || "+-.".contains(it)) => {
                OwnedValue::Double(number)
            }
            _ => OwnedValue::Text(text.to_owned()),
        },
    }
}

/// Converts a JSON value of a batch.
pub(super) fn from_json(value: &serde_json::Value) -> Option<OwnedValue> {
    use serde_json::Value as Json;
    Some(match value {
        Json::Null => OwnedValue::Null,
        Json::Bool(it) => OwnedValue::Bool(*it),
        Json::Number(it) => match it.as_i64() {
            Some(number) => OwnedValue::Int(number),
            None => OwnedValue::Double(it.as_f64()?),
        },
        Json::String(it) => OwnedValue::Text(it.clone()),
        Json::Array(_) | Json::Object(_) => return None,
    })
}

/// Adds the properties of a message to the response headers.
pub(super) fn write(properties: Properties<'_>, headers: &mut HeaderMap) {
    for (name, value) in properties.iter() {
        let lower = name.to_ascii_lowercase();
        if RESERVED_HEADERS.contains(&lower.as_str()) || lower == broker_properties::HEADER {
            continue;
        }
        let Ok(name) = HeaderName::from_bytes(lower.as_bytes()) else {
            continue;
        };
        if let Ok(value) = HeaderValue::from_str(&format_value(value)) {
            headers.append(name, value);
        }
    }
}

fn format_value(value: Value<'_>) -> String {
    let quoted = |text: &str| escape_non_ascii(&serde_json::Value::from(text).to_string());
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(it) => it.to_string(),
        Value::Int(it) => it.to_string(),
        Value::Double(it) => format!("{it:?}"),
        Value::Text(it) => quoted(it),
        Value::Bytes(it) => {
            use base64::Engine as _;
            quoted(&base64::engine::general_purpose::STANDARD.encode(it))
        }
        Value::Uuid(it) => quoted(&broker_properties::format_token(oxbus_model::LockToken(it))),
        Value::Time(it) => quoted(&dates::format_http_date(Timestamp(it.max(0) as u64))),
        Value::Timespan(it) => quoted(&timespan::text(it)),
    }
}

#[cfg(test)]
mod tests {
    use hyper::HeaderMap;
    use oxbus_model::message::PropertiesBuilder;
    use oxbus_model::rules::OwnedValue;
    use proptest::prelude::*;

    use super::{HttpMessage, parse_value, read, write};

    #[test]
    fn values_match_the_format_of_the_service() {
        // B-451.
        for (text, value) in [
            ("\"High\"", OwnedValue::Text("High".to_owned())),
            ("12.5", OwnedValue::Double(12.5)),
            ("12", OwnedValue::Int(12)),
            ("true", OwnedValue::Bool(true)),
            ("\"Wed, 02 Jul 2014 01:32:27 GMT\"", OwnedValue::Time(1_404_264_747_000)),
            ("plain text", OwnedValue::Text("plain text".to_owned())),
            ("infinity", OwnedValue::Text("infinity".to_owned())),
            ("\"a\\b\"", OwnedValue::Text("a\u{8}".to_owned())),
            ("\"a\\q\"", OwnedValue::Text("a\\q".to_owned())),
            ("\"", OwnedValue::Text("\"".to_owned())),
        ] {
            assert_eq!(parse_value(text), value, "{text}");
        }
    }

    fn values() -> impl Strategy<Value = OwnedValue> {
        prop_oneof![
            any::<bool>().prop_map(OwnedValue::Bool),
            any::<i64>().prop_map(OwnedValue::Int),
            any::<f64>()
                .prop_filter("a number", |it| it.is_finite())
                .prop_map(OwnedValue::Double),
            any::<String>().prop_map(OwnedValue::Text),
            (0i64..253_402_300_799).prop_map(|seconds| OwnedValue::Time(seconds * 1000)),
        ]
    }

    proptest! {
        #[test]
        fn values_round_trip(value in values()) {
            let mut properties = PropertiesBuilder::default();
            properties.push("it", (&value).into());
            let mut headers = HeaderMap::new();
            write(properties.properties(), &mut headers);
            let mut message = HttpMessage::default();
            read(&headers, &mut message).expect("headers");
            prop_assert_eq!(message.properties, vec![("it".to_owned(), value)]);
        }
    }
}
