// SPDX-License-Identifier: Apache-2.0
//! Application properties: values whose type the model supports are converted. Others keep their AMQP encoding
//! (B-429).

use std::borrow::Cow;
use std::collections::HashSet;

use crate::codec::{AmqpTimestamp, AmqpValue, DecodeError, Entries, Field, Reader, Symbol, Uuid, code};
use crate::message::section;
use bytes::{BufMut, Bytes, BytesMut};
use oxbus_model::message::{Properties, PropertiesBuilder, StoredValue, Value};
use oxbus_model::{Error, ErrorKind, Result, timespan};

use super::malformed;

/// Reads the map between the offsets `at` and `end`.
pub(super) fn read(message: &Bytes, at: usize, end: usize) -> Result<PropertiesBuilder> {
    let mut reader = map_items(message, at, end).map_err(malformed)?;
    let mut builder = PropertiesBuilder::default();
    let mut names = HashSet::new();
    while !reader.is_at_end() {
        let key = AmqpValue::decode(&mut reader).map_err(malformed)?;
        let name = key.as_text().ok_or_else(invalid_name)?;
        if !names.insert(name.to_owned()) {
            let detail = format!("duplicate application property; send it once: `{name}`");
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        push(&mut builder, name, message, &mut reader).map_err(malformed)?;
    }
    Ok(builder)
}

/// A reader of the keys and values of a map.
fn map_items(message: &Bytes, at: usize, end: usize) -> std::result::Result<Reader<'_>, DecodeError> {
    // Checks that the value is a map with as many keys as values.
    Entries::new(message, at)?;
    let head = match message[at] {
        code::MAP_8 => 3,
        _ => 9,
    };
    Ok(Reader::within(message, at + head, end))
}

fn push(
    builder: &mut PropertiesBuilder,
    name: &str,
    message: &Bytes,
    reader: &mut Reader<'_>,
) -> std::result::Result<(), DecodeError> {
    let start = reader.position();
    match reader.peek()? {
        code::NULL => {
            reader.skip()?;
            builder.push(name, Value::Null);
        }
        code::TRUE | code::FALSE | code::BOOLEAN => builder.push(name, Value::Bool(bool::decode(reader)?)),
        code::LONG | code::LONG_SMALL | code::DOUBLE => match AmqpValue::decode(reader)? {
            AmqpValue::Long(number) => builder.push(name, Value::Int(number)),
            AmqpValue::Double(number) => builder.push(name, Value::Double(number)),
            _ => return Err(DecodeError::UnknownCode(message[start])),
        },
        code::TEXT_8 | code::TEXT_32 => {
            let text: bytestring::ByteString = reader.field("application property")?;
            builder.push(name, Value::Text(&text));
        }
        code::BINARY_8 | code::BINARY_32 => {
            let bytes: Bytes = reader.field("application property")?;
            builder.push(name, Value::Bytes(&bytes));
        }
        code::UUID => builder.push(name, Value::Uuid(Uuid::decode(reader)?.0)),
        code::TIMESTAMP => builder.push(name, Value::Time(AmqpTimestamp::decode(reader)?.0)),
        _ => {
            // Decoded to verify that receivers get a well-formed value.
            AmqpValue::decode(reader)?;
            builder.push_stored(name, StoredValue::Amqp(&message[start..reader.position()]));
        }
    }
    Ok(())
}

fn invalid_name() -> Error {
    let detail = "the name of an application property must be a string";
    Error::new(ErrorKind::InvalidArgument, detail)
}

/// Writes the section. `convert` rewrites values in their AMQP encoding.
pub(super) fn write(out: &mut BytesMut, properties: Properties<'_>, convert: fn(&[u8]) -> Cow<'_, [u8]>) {
    out.put_slice(&[
        code::DESCRIBED,
        code::ULONG_SMALL,
        section::APPLICATION_PROPERTIES,
        code::MAP_32,
    ]);
    let start = out.len();
    out.put_bytes(0, 8);
    let mut items = 0u32;
    for (name, value) in properties.entries() {
        put_sized(out, code::TEXT_8, code::TEXT_32, name.as_bytes());
        put(out, value, convert);
        items += 2;
    }
    let size = u32::try_from(out.len() - start - 4).expect("a record has at most 1 GiB");
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
    out[start + 4..start + 8].copy_from_slice(&items.to_be_bytes());
}

fn put(out: &mut BytesMut, value: StoredValue<'_>, convert: fn(&[u8]) -> Cow<'_, [u8]>) {
    let value = match value {
        StoredValue::Amqp(encoded) => return out.put_slice(&convert(encoded)),
        StoredValue::Plain(value) => value,
    };
    match value {
        Value::Null => out.put_u8(code::NULL),
        Value::Bool(it) => it.encode(out),
        Value::Int(it) => AmqpValue::Long(it).encode(out),
        Value::Double(it) => AmqpValue::Double(it).encode(out),
        Value::Text(it) => put_sized(out, code::TEXT_8, code::TEXT_32, it.as_bytes()),
        Value::Bytes(it) => put_sized(out, code::BINARY_8, code::BINARY_32, it),
        Value::Uuid(it) => Uuid(it).encode(out),
        Value::Time(it) => AmqpTimestamp(it).encode(out),
        Value::Timespan(it) => timespan_value(it).encode(out),
    }
}

/// A timespan in the form of clients: a described long.
pub fn timespan_value(units: i64) -> AmqpValue {
    AmqpValue::described(symbol(timespan::AMQP_NAME).into(), units.into())
}

/// Writes a string or binary with its length.
pub(super) fn put_sized(out: &mut BytesMut, short: u8, long: u8, bytes: &[u8]) {
    put_size(out, short, long, bytes.len());
    out.put_slice(bytes);
}

/// Writes the format code and length of a string or binary.
pub(super) fn put_size(out: &mut BytesMut, short: u8, long: u8, len: usize) {
    if let Ok(len) = u8::try_from(len) {
        out.put_slice(&[short, len]);
    } else {
        out.put_u8(long);
        out.put_u32(u32::try_from(len).expect("a record has at most 1 GiB"));
    }
}

/// Converts a text to a symbol.
pub(super) fn symbol(text: &str) -> Symbol {
    Symbol::new(text)
}
