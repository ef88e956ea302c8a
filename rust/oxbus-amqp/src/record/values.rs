// SPDX-License-Identifier: Apache-2.0
//! Converts values of requests to the broker's values, and back.

use oxbus_model::rules::OwnedValue;
use oxbus_model::{Error, ErrorKind, Result, timespan};

use super::timespan_value;
use crate::codec::{AmqpTimestamp, AmqpValue, Map, Uuid};

/// The entries of a map, whose keys must be strings.
pub fn owned_pairs(map: &Map) -> Result<Vec<(String, OwnedValue)>> {
    let pair = |(key, value): &(AmqpValue, AmqpValue)| {
        let key = key
            .as_text()
            .ok_or_else(|| unsupported_type("a key that is not a string"))?;
        Ok((key.to_owned(), to_owned_value(key, value)?))
    };
    map.iter().map(pair).collect()
}

/// Converts an AMQP value. `key` names it in the error.
pub fn to_owned_value(key: &str, value: &AmqpValue) -> Result<OwnedValue> {
    Ok(match value {
        AmqpValue::Null => OwnedValue::Null,
        AmqpValue::Boolean(it) => OwnedValue::Bool(*it),
        AmqpValue::Float(it) => OwnedValue::Double((*it).into()),
        AmqpValue::Double(it) => OwnedValue::Double(*it),
        AmqpValue::Char(it) => OwnedValue::Text(it.to_string()),
        AmqpValue::String(it) => OwnedValue::Text(it.to_string()),
        AmqpValue::Symbol(it) => OwnedValue::Text(it.as_str().to_owned()),
        AmqpValue::Binary(it) => OwnedValue::Bytes(it.to_vec()),
        AmqpValue::Uuid(Uuid(it)) => OwnedValue::Uuid(*it),
        AmqpValue::Timestamp(AmqpTimestamp(ms)) => OwnedValue::Time(*ms),
        AmqpValue::Described(pair) if pair.0.as_text() == Some(timespan::AMQP_NAME) => {
            OwnedValue::Timespan(pair.1.as_i64().ok_or_else(|| unsupported_type(key))?)
        }
        other => OwnedValue::Int(other.as_i64().ok_or_else(|| unsupported_type(key))?),
    })
}

fn unsupported_type(key: &str) -> Error {
    let detail = format!(
        "a property has an unsupported type; use boolean, whole number of 64 bits, float, text, binary, uuid, \
         timestamp or com.microsoft:timespan: `{key}`"
    );
    Error::new(ErrorKind::InvalidArgument, detail)
}

/// Converts a value to AMQP. Integers that fit become int, as clients expect.
pub fn to_amqp_value(value: &OwnedValue) -> AmqpValue {
    match value {
        OwnedValue::Null => AmqpValue::Null,
        OwnedValue::Bool(it) => (*it).into(),
        OwnedValue::Int(it) => i32::try_from(*it).map_or(AmqpValue::Long(*it), AmqpValue::Int),
        OwnedValue::Double(it) => (*it).into(),
        OwnedValue::Text(it) => it.as_str().into(),
        OwnedValue::Bytes(it) => bytes::Bytes::copy_from_slice(it).into(),
        OwnedValue::Uuid(it) => Uuid(*it).into(),
        OwnedValue::Time(it) | OwnedValue::TimeWithoutZone(it) => AmqpTimestamp(*it).into(),
        OwnedValue::Timespan(it) => timespan_value(*it),
    }
}
