// SPDX-License-Identifier: Apache-2.0
//! Application properties as the text of a JSON object. A value of a type that JSON lacks is an object with one tag, such as
//! `{"$uuid": "..."}`, so that it keeps its type.

use oxbus_model::hex::from_hex;
use oxbus_model::message::{Properties, PropertiesBuilder, Value};
use oxbus_model::{Error, ErrorKind, Result};
use serde_json::{Map, Value as Json, json};

use crate::properties::write_text;
use crate::variant::TIMESPAN_TAG;

const BYTES_TAG: &str = "$bytes";
const DOUBLE_TAG: &str = "$double";
const TIME_TAG: &str = "$time";
const UUID_TAG: &str = "$uuid";

/// The text of the JSON object of properties.
pub(crate) fn as_json(properties: &Properties<'_>) -> String {
    let members = properties.iter().map(|(key, value)| (key.to_owned(), json_of(value)));
    Json::Object(members.collect()).to_string()
}

fn json_of(value: Value<'_>) -> Json {
    let text = |value| {
        let mut text = String::new();
        write_text(value, &mut text);
        text
    };
    match value {
        Value::Null => Json::Null,
        Value::Bool(it) => it.into(),
        Value::Int(it) => it.into(),
        Value::Text(it) => it.into(),
        Value::Double(it) if it.is_finite() => it.into(),
        Value::Double(_) => json!({ DOUBLE_TAG: text(value) }),
        Value::Bytes(_) => json!({ BYTES_TAG: text(value) }),
        Value::Uuid(_) => json!({ UUID_TAG: text(value) }),
        Value::Time(ms) => json!({ TIME_TAG: ms }),
        Value::Timespan(units) => json!({ TIMESPAN_TAG: units }),
    }
}

/// Writes the members of a JSON object as properties.
pub(crate) fn from_json(text: &str, out: &mut PropertiesBuilder) -> Result<()> {
    let members: Map<String, Json> = serde_json::from_str(text)
        .map_err(|error| wrong(&format!("must be the text of a JSON object: {error}")).with_source(error))?;
    for (key, value) in &members {
        let value = match value {
            Json::Null => Value::Null,
            Json::Bool(it) => Value::Bool(*it),
            Json::String(it) => Value::Text(it),
            Json::Number(it) => match (it.as_i64(), it.as_f64()) {
                (Some(whole), _) => Value::Int(whole),
                (None, Some(real)) if it.is_f64() => Value::Double(real),
                _ => {
                    let detail = format!("contain a number of more than 64 bits; convert it to text: `{key}` {it}");
                    return Err(wrong(&detail));
                }
            },
            Json::Object(tagged) => {
                push_tagged(key, tagged, out)?;
                continue;
            }
            Json::Array(_) => return Err(nested(key)),
        };
        out.push(key, value);
    }
    Ok(())
}

/// Writes a property that is an object with one tag.
fn push_tagged(key: &str, object: &Map<String, Json>, out: &mut PropertiesBuilder) -> Result<()> {
    let only = (object.len() == 1).then(|| object.iter().next()).flatten();
    let Some((tag, content)) = only else {
        return Err(nested(key));
    };
    let text = content.as_str();
    let value = match tag.as_str() {
        BYTES_TAG => {
            let bytes = text.and_then(from_hex).ok_or_else(|| nested(key))?;
            out.push(key, Value::Bytes(&bytes));
            return Ok(());
        }
        UUID_TAG => text.and_then(uuid_of).map(Value::Uuid),
        TIME_TAG => content.as_i64().map(Value::Time),
        TIMESPAN_TAG => content.as_i64().map(Value::Timespan),
        DOUBLE_TAG => text.and_then(|text| text.parse().ok()).map(Value::Double),
        _ => None,
    };
    out.push(key, value.ok_or_else(|| nested(key))?);
    Ok(())
}

fn uuid_of(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|it| *it != '-').collect();
    from_hex(&digits)?.try_into().ok()
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("application_properties {what}"))
}

fn nested(key: &str) -> Error {
    let detail = "allow null, booleans, numbers, texts, and objects with one of the tags $bytes, $double, $time, $timespan and \
                  $uuid; convert lists and other objects to text";
    wrong(&format!("{detail}: `{key}`"))
}
