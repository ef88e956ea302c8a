// SPDX-License-Identifier: Apache-2.0
//! Arrays: items with one constructor.

use bytes::{BufMut, BytesMut};

use super::writer::Compound;
use super::{AmqpValue, DecodeError, Field, Reader, code};

/// Items of one type, which is encoded once.
///
/// Invariant: `code_of` is the same for all items, and their descriptors are equal.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Array(Vec<AmqpValue>);

impl Array {
    /// An array of these items, or `None` if their types differ or a descriptor is nested.
    pub fn new(items: Vec<AmqpValue>) -> Option<Self> {
        // Compares the first item with itself, too, to find a nested descriptor.
        let is_uniform = items.iter().all(|item| has_same_constructor(&items[0], item));
        is_uniform.then_some(Self(items))
    }

    /// Its items.
    pub fn items(&self) -> &[AmqpValue] {
        &self.0
    }

    pub(super) fn decode_body(reader: &mut Reader<'_>, is_wide: bool) -> Result<Self, DecodeError> {
        let opened = reader.open(is_wide)?;
        reader.count_values(opened.count)?;
        if reader.is_at_end() {
            // Some encoders omit the constructor of an empty array.
            return if opened.count == 0 {
                reader.skip_rest(opened);
                Ok(Self::default())
            } else {
                Err(DecodeError::Truncated)
            };
        }
        let (descriptor, code) = match reader.u8()? {
            code::DESCRIBED => {
                let descriptor = AmqpValue::decode(reader)?;
                reader.count_values(opened.count)?;
                (Some(descriptor), reader.u8()?)
            }
            code => (None, code),
        };
        if code == code::DESCRIBED {
            return Err(DecodeError::UnknownCode(code));
        }
        let mut items = Vec::new();
        for _ in 0..opened.count {
            let item = AmqpValue::decode_body(reader, code)?;
            items.push(match &descriptor {
                Some(descriptor) => AmqpValue::described(descriptor.clone(), item),
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
            code => Err(DecodeError::WrongType {
                expected: "array",
                code,
            }),
        }
    }

    /// Encodes an empty array as an empty list, because common clients cannot read an empty array.
    fn encode(&self, out: &mut BytesMut) {
        if self.0.is_empty() {
            out.put_u8(code::LIST_0);
        } else {
            put_array(out, &self.0);
        }
    }
}

fn put_array(out: &mut BytesMut, items: &[AmqpValue]) {
    let array = Compound::begin(out, code::ARRAY_32);
    if let Some(first) = items.first() {
        let mut first = first;
        if let AmqpValue::Described(pair) = first {
            out.put_u8(code::DESCRIBED);
            pair.0.encode(out);
            first = &pair.1;
        }
        out.put_u8(code_of(first));
    }
    for item in items {
        put_item(
            out,
            if let AmqpValue::Described(pair) = item {
                &pair.1
            } else {
                item
            },
        );
    }
    array.end(out, items.len());
}

fn has_same_constructor(a: &AmqpValue, b: &AmqpValue) -> bool {
    match (a, b) {
        (AmqpValue::Described(a), AmqpValue::Described(b)) => {
            a.0 == b.0 && !matches!(a.1, AmqpValue::Described(_)) && has_same_constructor(&a.1, &b.1)
        }
        _ => code_of(a) == code_of(b),
    }
}

/// The code of an item: the widest encoding, which can hold all values of the type.
fn code_of(value: &AmqpValue) -> u8 {
    match value {
        AmqpValue::Null => code::NULL,
        AmqpValue::Boolean(_) => code::BOOLEAN,
        AmqpValue::Ubyte(_) => code::UBYTE,
        AmqpValue::Ushort(_) => code::USHORT,
        AmqpValue::Uint(_) => code::UINT,
        AmqpValue::Ulong(_) => code::ULONG,
        AmqpValue::Byte(_) => code::BYTE,
        AmqpValue::Short(_) => code::SHORT,
        AmqpValue::Int(_) => code::INT,
        AmqpValue::Long(_) => code::LONG,
        AmqpValue::Float(_) => code::FLOAT,
        AmqpValue::Double(_) => code::DOUBLE,
        AmqpValue::Decimal32(_) => code::DECIMAL_32,
        AmqpValue::Decimal64(_) => code::DECIMAL_64,
        AmqpValue::Decimal128(_) => code::DECIMAL_128,
        AmqpValue::Char(_) => code::CHAR,
        AmqpValue::Timestamp(_) => code::TIMESTAMP,
        AmqpValue::Uuid(_) => code::UUID,
        AmqpValue::Binary(_) => code::BINARY_32,
        AmqpValue::String(_) => code::TEXT_32,
        AmqpValue::Symbol(_) => code::SYMBOL_32,
        AmqpValue::List(_) => code::LIST_32,
        AmqpValue::Map(_) => code::MAP_32,
        AmqpValue::Array(_) => code::ARRAY_32,
        AmqpValue::Described(_) => code::DESCRIBED,
    }
}

/// Writes a value in its widest encoding, without the code.
fn put_item(out: &mut BytesMut, value: &AmqpValue) {
    match value {
        AmqpValue::Boolean(value) => out.put_u8((*value).into()),
        AmqpValue::Uint(value) => out.put_u32(*value),
        AmqpValue::Ulong(value) => out.put_u64(*value),
        AmqpValue::Int(value) => out.put_i32(*value),
        AmqpValue::Long(value) => out.put_i64(*value),
        AmqpValue::Binary(bytes) => put_long(out, bytes),
        AmqpValue::String(text) => put_long(out, text.as_bytes()),
        AmqpValue::Symbol(symbol) => put_long(out, symbol.as_str().as_bytes()),
        AmqpValue::List(items) => {
            let start = out.len();
            out.put_u64(0);
            for item in items {
                item.encode(out);
            }
            let size = (out.len() - start - 4) as u32;
            out[start..start + 4].copy_from_slice(&size.to_be_bytes());
            out[start + 4..start + 8].copy_from_slice(&(items.len() as u32).to_be_bytes());
        }
        // These types have one encoding: write it without the code.
        other => {
            let mut whole = BytesMut::new();
            match other {
                AmqpValue::Array(array) => put_array(&mut whole, array.items()),
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
