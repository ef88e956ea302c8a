// SPDX-License-Identifier: Apache-2.0
//! Items of one type, which is written once.

use bytes::{BufMut, BytesMut};

use super::writer::Compound;
use super::{DecodeError, Field, Reader, Value, code};

/// Items of one type, which is written once.
///
/// Holds always: `code_of` gives the same for all items, and their descriptors are equal.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Array(Vec<Value>);

impl Array {
    /// An array of these items; nothing when they are of several types, or described more than once.
    pub fn new(items: Vec<Value>) -> Option<Self> {
        // The first one is compared with itself too: it may be one that no array can have.
        let is_uniform = items.iter().all(|item| has_same_constructor(&items[0], item));
        is_uniform.then_some(Self(items))
    }

    /// Its items.
    pub fn items(&self) -> &[Value] {
        &self.0
    }

    pub(super) fn decode_body(reader: &mut Reader<'_>, is_wide: bool) -> Result<Self, DecodeError> {
        let opened = reader.open(is_wide)?;
        reader.count(opened.count)?;
        if reader.is_at_end() {
            // Some encoders leave out the type of no items.
            return if opened.count == 0 {
                reader.leave(opened);
                Ok(Self::default())
            } else {
                Err(DecodeError::Truncated)
            };
        }
        let (descriptor, code) = match reader.u8()? {
            code::DESCRIBED => {
                let descriptor = Value::decode(reader)?;
                reader.count(opened.count)?;
                (Some(descriptor), reader.u8()?)
            }
            code => (None, code),
        };
        if code == code::DESCRIBED {
            return Err(DecodeError::UnknownCode(code));
        }
        let mut items = Vec::new();
        for _ in 0..opened.count {
            let item = Value::decode_body(reader, code)?;
            items.push(match &descriptor {
                Some(descriptor) => Value::described(descriptor.clone(), item),
                None => item,
            });
        }
        reader.close(opened)?;
        Ok(Self(items))
    }
}

impl Field for Array {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            wide @ (code::ARRAY_8 | code::ARRAY_32) => Self::decode_body(reader, wide == code::ARRAY_32),
            code => Err(DecodeError::WrongType { wanted: "array", code }),
        }
    }

    /// No items become an empty list: clients in use fail to read an empty array.
    fn encode(&self, out: &mut BytesMut) {
        if self.0.is_empty() {
            out.put_u8(code::LIST_0);
        } else {
            put_array(out, &self.0);
        }
    }
}

fn put_array(out: &mut BytesMut, items: &[Value]) {
    let array = Compound::begin(out, code::ARRAY_32);
    if let Some(first) = items.first() {
        let mut first = first;
        if let Value::Described(pair) = first {
            out.put_u8(code::DESCRIBED);
            pair.0.encode(out);
            first = &pair.1;
        }
        out.put_u8(code_of(first));
    }
    for item in items {
        put_item(
            out,
            if let Value::Described(pair) = item {
                &pair.1
            } else {
                item
            },
        );
    }
    array.end(out, items.len());
}

fn has_same_constructor(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Described(one), Value::Described(other)) => {
            one.0 == other.0 && !matches!(one.1, Value::Described(_)) && has_same_constructor(&one.1, &other.1)
        }
        _ => code_of(one) == code_of(other),
    }
}

/// The code of an item: always the widest form, which holds every value of the type.
fn code_of(value: &Value) -> u8 {
    match value {
        Value::Null => code::NULL,
        Value::Boolean(_) => code::BOOLEAN,
        Value::Ubyte(_) => code::UBYTE,
        Value::Ushort(_) => code::USHORT,
        Value::Uint(_) => code::UINT,
        Value::Ulong(_) => code::ULONG,
        Value::Byte(_) => code::BYTE,
        Value::Short(_) => code::SHORT,
        Value::Int(_) => code::INT,
        Value::Long(_) => code::LONG,
        Value::Float(_) => code::FLOAT,
        Value::Double(_) => code::DOUBLE,
        Value::Decimal32(_) => code::DECIMAL_32,
        Value::Decimal64(_) => code::DECIMAL_64,
        Value::Decimal128(_) => code::DECIMAL_128,
        Value::Char(_) => code::CHAR,
        Value::Timestamp(_) => code::TIMESTAMP,
        Value::Uuid(_) => code::UUID,
        Value::Binary(_) => code::BINARY_32,
        Value::String(_) => code::TEXT_32,
        Value::Symbol(_) => code::SYMBOL_32,
        Value::List(_) => code::LIST_32,
        Value::Map(_) => code::MAP_32,
        Value::Array(_) => code::ARRAY_32,
        Value::Described(_) => code::DESCRIBED,
    }
}

/// What stands behind the code of an item: the encoding of the value in its widest form, without the code.
fn put_item(out: &mut BytesMut, value: &Value) {
    match value {
        Value::Boolean(value) => out.put_u8((*value).into()),
        Value::Uint(value) => out.put_u32(*value),
        Value::Ulong(value) => out.put_u64(*value),
        Value::Int(value) => out.put_i32(*value),
        Value::Long(value) => out.put_i64(*value),
        Value::Binary(bytes) => put_long(out, bytes),
        Value::String(text) => put_long(out, text.as_bytes()),
        Value::Symbol(symbol) => put_long(out, symbol.as_str().as_bytes()),
        Value::List(items) => {
            let start = out.len();
            out.put_u64(0);
            for item in items {
                item.encode(out);
            }
            let size = (out.len() - start - 4) as u32;
            out[start..start + 4].copy_from_slice(&size.to_be_bytes());
            out[start + 4..start + 8].copy_from_slice(&(items.len() as u32).to_be_bytes());
        }
        // One code and one form: what stands behind the code is the item.
        other => {
            let mut whole = BytesMut::new();
            match other {
                Value::Array(array) => put_array(&mut whole, array.items()),
                other => other.encode(&mut whole),
            }
            out.put_slice(&whole[1..]);
        }
    }
}

fn put_long(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32(bytes.len() as u32);
    out.put_slice(bytes);
}
