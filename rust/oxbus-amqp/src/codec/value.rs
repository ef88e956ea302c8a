// SPDX-License-Identifier: Apache-2.0
//! A value of any type.

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;

use super::writer::Compound;
use super::{AmqpTimestamp, Array, DecodeError, Field, Map, Reader, Symbol, Uuid, code};

/// A value of any type. Decimals stay encoded, since nothing here computes with them.
#[expect(missing_docs, reason = "each name is that of the specification")]
#[derive(Debug, Clone, PartialEq)]
pub enum AmqpValue {
    Null,
    Boolean(bool),
    Ubyte(u8),
    Ushort(u16),
    Uint(u32),
    Ulong(u64),
    Byte(i8),
    Short(i16),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Decimal32([u8; 4]),
    Decimal64([u8; 8]),
    Decimal128([u8; 16]),
    Char(char),
    Timestamp(AmqpTimestamp),
    Uuid(Uuid),
    Binary(Bytes),
    String(ByteString),
    Symbol(Symbol),
    List(Vec<AmqpValue>),
    Map(Map),
    Array(Array),
    /// A descriptor and the value that it describes.
    Described(Box<(AmqpValue, AmqpValue)>),
}

impl AmqpValue {
    /// A described value.
    pub fn described(descriptor: Self, value: Self) -> Self {
        Self::Described(Box::new((descriptor, value)))
    }

    /// The text of a string, a symbol, or a UTF-8 binary, since some clients return strings as binaries.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Symbol(symbol) => Some(symbol.as_str()),
            Self::Binary(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// An integer that fits a signed 64-bit integer.
    pub fn as_i64(&self) -> Option<i64> {
        Some(match *self {
            Self::Ubyte(value) => value.into(),
            Self::Ushort(value) => value.into(),
            Self::Uint(value) => value.into(),
            Self::Ulong(value) => i64::try_from(value).ok()?,
            Self::Byte(value) => value.into(),
            Self::Short(value) => value.into(),
            Self::Int(value) => value.into(),
            Self::Long(value) => value,
            _ => return None,
        })
    }

    /// The map, if the value is one.
    pub fn as_map(&self) -> Option<&Map> {
        if let Self::Map(map) = self { Some(map) } else { None }
    }

    /// The items of a list or an array.
    pub fn as_items(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            Self::Array(array) => Some(array.items()),
            _ => None,
        }
    }

    /// The value inside all descriptors.
    pub fn undescribed(&self) -> &Self {
        if let Self::Described(pair) = self {
            pair.1.undescribed()
        } else {
            self
        }
    }

    /// The encoded value.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::new();
        self.encode(&mut out);
        out.freeze()
    }

    /// Decodes a value. Fails if bytes remain.
    pub fn from_bytes(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let value = Self::decode(&mut reader)?;
        if reader.is_at_end() {
            Ok(value)
        } else {
            Err(DecodeError::BadSize)
        }
    }

    /// Reads the value after its code.
    pub(super) fn decode_body(reader: &mut Reader<'_>, code: u8) -> Result<Self, DecodeError> {
        Ok(match code {
            code::DESCRIBED => {
                reader.count_values(2)?;
                reader.descend()?;
                let descriptor = Self::decode(reader)?;
                let value = Self::decode(reader)?;
                reader.ascend();
                Self::described(descriptor, value)
            }
            code::NULL => Self::Null,
            code::TRUE => Self::Boolean(true),
            code::FALSE => Self::Boolean(false),
            code::BOOLEAN => Self::Boolean(reader.u8()? != 0),
            code::UBYTE => Self::Ubyte(reader.u8()?),
            code::USHORT => Self::Ushort(u16::from_be_bytes(reader.array()?)),
            code::UINT_0 => Self::Uint(0),
            code::UINT_SMALL => Self::Uint(reader.u8()?.into()),
            code::UINT => Self::Uint(reader.u32()?),
            code::ULONG_0 => Self::Ulong(0),
            code::ULONG_SMALL => Self::Ulong(reader.u8()?.into()),
            code::ULONG => Self::Ulong(u64::from_be_bytes(reader.array()?)),
            code::BYTE => Self::Byte(reader.u8()? as i8),
            code::SHORT => Self::Short(i16::from_be_bytes(reader.array()?)),
            code::INT_SMALL => Self::Int((reader.u8()? as i8).into()),
            code::INT => Self::Int(i32::from_be_bytes(reader.array()?)),
            code::LONG_SMALL => Self::Long((reader.u8()? as i8).into()),
            code::LONG => Self::Long(i64::from_be_bytes(reader.array()?)),
            code::FLOAT => Self::Float(f32::from_be_bytes(reader.array()?)),
            code::DOUBLE => Self::Double(f64::from_be_bytes(reader.array()?)),
            code::DECIMAL_32 => Self::Decimal32(reader.array()?),
            code::DECIMAL_64 => Self::Decimal64(reader.array()?),
            code::DECIMAL_128 => Self::Decimal128(reader.array()?),
            code::CHAR => {
                let number = reader.u32()?;
                Self::Char(char::from_u32(number).ok_or(DecodeError::NotACharacter(number))?)
            }
            code::TIMESTAMP => Self::Timestamp(AmqpTimestamp(i64::from_be_bytes(reader.array()?))),
            code::UUID => Self::Uuid(Uuid(reader.array()?)),
            code::BINARY_8 | code::BINARY_32 => Self::Binary(reader.bytes(code == code::BINARY_32)?),
            code::TEXT_8 | code::TEXT_32 => Self::String(reader.text(code == code::TEXT_32)?),
            code::SYMBOL_8 | code::SYMBOL_32 => {
                Self::Symbol(Symbol::checked(reader.text(code == code::SYMBOL_32)?).ok_or(DecodeError::NotText)?)
            }
            code::LIST_0 => Self::List(Vec::new()),
            code::LIST_8 | code::LIST_32 => Self::List(decode_items(reader, code == code::LIST_32)?),
            code::MAP_8 | code::MAP_32 => Self::Map(Map::decode_body(reader, code == code::MAP_32)?),
            code::ARRAY_8 | code::ARRAY_32 => Self::Array(Array::decode_body(reader, code == code::ARRAY_32)?),
            _ => return Err(DecodeError::UnknownCode(code)),
        })
    }
}

fn decode_items(reader: &mut Reader<'_>, is_wide: bool) -> Result<Vec<AmqpValue>, DecodeError> {
    let opened = reader.open(is_wide)?;
    reader.count_values(opened.count)?;
    // No capacity from the count: an item has at least one byte, so a false count fails before it costs memory.
    let mut items = Vec::new();
    for _ in 0..opened.count {
        items.push(AmqpValue::decode(reader)?);
    }
    reader.close(opened)?;
    Ok(items)
}

impl Field for AmqpValue {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let code = reader.u8()?;
        Self::decode_body(reader, code)
    }

    fn absent(_: &'static str) -> Result<Self, DecodeError> {
        Ok(Self::Null)
    }

    fn encode(&self, out: &mut BytesMut) {
        use bytes::BufMut;
        match self {
            Self::Null => out.put_u8(code::NULL),
            Self::Boolean(value) => value.encode(out),
            Self::Ubyte(value) => value.encode(out),
            Self::Ushort(value) => value.encode(out),
            Self::Uint(value) => value.encode(out),
            Self::Ulong(value) => value.encode(out),
            Self::Byte(value) => out.put_slice(&[code::BYTE, *value as u8]),
            Self::Short(value) => {
                out.put_u8(code::SHORT);
                out.put_i16(*value);
            }
            Self::Int(value) => {
                if let Ok(small) = i8::try_from(*value) {
                    out.put_slice(&[code::INT_SMALL, small as u8]);
                } else {
                    out.put_u8(code::INT);
                    out.put_i32(*value);
                }
            }
            Self::Long(value) => {
                if let Ok(small) = i8::try_from(*value) {
                    out.put_slice(&[code::LONG_SMALL, small as u8]);
                } else {
                    out.put_u8(code::LONG);
                    out.put_i64(*value);
                }
            }
            Self::Float(value) => {
                out.put_u8(code::FLOAT);
                out.put_f32(*value);
            }
            Self::Double(value) => {
                out.put_u8(code::DOUBLE);
                out.put_f64(*value);
            }
            Self::Decimal32(bytes) => {
                out.put_u8(code::DECIMAL_32);
                out.put_slice(bytes);
            }
            Self::Decimal64(bytes) => {
                out.put_u8(code::DECIMAL_64);
                out.put_slice(bytes);
            }
            Self::Decimal128(bytes) => {
                out.put_u8(code::DECIMAL_128);
                out.put_slice(bytes);
            }
            Self::Char(value) => {
                out.put_u8(code::CHAR);
                out.put_u32(u32::from(*value));
            }
            Self::Timestamp(value) => value.encode(out),
            Self::Uuid(value) => value.encode(out),
            Self::Binary(value) => value.encode(out),
            Self::String(value) => value.encode(out),
            Self::Symbol(value) => value.encode(out),
            Self::List(items) if items.is_empty() => out.put_u8(code::LIST_0),
            Self::List(items) => {
                let list = Compound::begin(out, code::LIST_32);
                for item in items {
                    item.encode(out);
                }
                list.end(out, items.len());
            }
            Self::Map(map) => map.encode(out),
            Self::Array(array) => array.encode(out),
            Self::Described(pair) => {
                out.put_u8(code::DESCRIBED);
                pair.0.encode(out);
                pair.1.encode(out);
            }
        }
    }
}

macro_rules! from {
    ($($from:ty => $variant:ident),* $(,)?) => {
        $(impl From<$from> for AmqpValue {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

from! {
    bool => Boolean, u8 => Ubyte, u16 => Ushort, u32 => Uint, u64 => Ulong, i8 => Byte, i16 => Short, i32 => Int, i64 => Long,
    f32 => Float, f64 => Double, char => Char, AmqpTimestamp => Timestamp, Uuid => Uuid, Bytes => Binary, &str => String,
    ByteString => String, String => String, Symbol => Symbol, Vec<AmqpValue> => List, Map => Map, Array => Array,
}
