// SPDX-License-Identifier: Apache-2.0
//! Values of types known from the schema.

use bytes::{BufMut, Bytes, BytesMut};
use bytestring::ByteString;

use super::writer::{Compound, put_sized};
use super::{AmqpTimestamp, AmqpValue, DecodeError, Reader, Symbol, Tag, Uuid, code};

/// A value of a type known from the schema.
pub trait Field: Sized {
    /// Decodes the value. The next byte is its code, which is not that of null.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// The value if it is null or omitted.
    fn absent(name: &'static str) -> Result<Self, DecodeError> {
        Err(DecodeError::MissingField(name))
    }

    /// Encodes the value with its code.
    fn encode(&self, out: &mut BytesMut);
}

impl<T: Field> Field for Option<T> {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        T::decode(reader).map(Some)
    }

    #[inline]
    fn absent(_: &'static str) -> Result<Self, DecodeError> {
        Ok(None)
    }

    #[inline]
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Some(value) => value.encode(out),
            None => out.put_u8(code::NULL),
        }
    }
}

impl<T: Field> Field for Box<T> {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        T::decode(reader).map(Box::new)
    }

    fn encode(&self, out: &mut BytesMut) {
        T::encode(self, out);
    }
}

/// Absent means false, as the specification defines for all optional flags.
impl Field for bool {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            code::TRUE => Ok(true),
            code::FALSE => Ok(false),
            code::BOOLEAN => Ok(reader.u8()? != 0),
            code => Err(DecodeError::WrongType {
                expected: "boolean",
                code,
            }),
        }
    }

    fn absent(_: &'static str) -> Result<Self, DecodeError> {
        Ok(false)
    }

    #[inline]
    fn encode(&self, out: &mut BytesMut) {
        out.put_u8(if *self { code::TRUE } else { code::FALSE });
    }
}

impl Field for u8 {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            code::UBYTE => reader.u8(),
            code => Err(DecodeError::WrongType {
                expected: "ubyte",
                code,
            }),
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_slice(&[code::UBYTE, *self]);
    }
}

impl Field for u16 {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            code::USHORT => Ok(Self::from_be_bytes(reader.array()?)),
            code => Err(DecodeError::WrongType {
                expected: "ushort",
                code,
            }),
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_u8(code::USHORT);
        out.put_u16(*self);
    }
}

impl Field for u32 {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            code::UINT_0 => Ok(0),
            code::UINT_SMALL => Ok(reader.u8()?.into()),
            code::UINT => reader.u32(),
            code => Err(DecodeError::WrongType { expected: "uint", code }),
        }
    }

    #[inline]
    fn encode(&self, out: &mut BytesMut) {
        match u8::try_from(*self) {
            Ok(0) => out.put_u8(code::UINT_0),
            Ok(small) => out.put_slice(&[code::UINT_SMALL, small]),
            Err(_) => {
                out.put_u8(code::UINT);
                out.put_u32(*self);
            }
        }
    }
}

impl Field for u64 {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            code::ULONG_0 => Ok(0),
            code::ULONG_SMALL => Ok(reader.u8()?.into()),
            code::ULONG => Ok(Self::from_be_bytes(reader.array()?)),
            code => Err(DecodeError::WrongType {
                expected: "ulong",
                code,
            }),
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        match u8::try_from(*self) {
            Ok(0) => out.put_u8(code::ULONG_0),
            Ok(small) => out.put_slice(&[code::ULONG_SMALL, small]),
            Err(_) => {
                out.put_u8(code::ULONG);
                out.put_u64(*self);
            }
        }
    }
}

impl Field for AmqpTimestamp {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            code::TIMESTAMP => Ok(Self(i64::from_be_bytes(reader.array()?))),
            code => Err(DecodeError::WrongType {
                expected: "timestamp",
                code,
            }),
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_u8(code::TIMESTAMP);
        out.put_i64(self.0);
    }
}

impl Field for Uuid {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            code::UUID => Ok(Self(reader.array()?)),
            code => Err(DecodeError::WrongType { expected: "uuid", code }),
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_u8(code::UUID);
        out.put_slice(&self.0);
    }
}

impl Field for Bytes {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            code @ (code::BINARY_8 | code::BINARY_32) => reader.bytes(code == code::BINARY_32),
            code => Err(DecodeError::WrongType {
                expected: "binary",
                code,
            }),
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        put_sized(out, code::BINARY_8, code::BINARY_32, self);
    }
}

impl Field for ByteString {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            code @ (code::TEXT_8 | code::TEXT_32) => reader.text(code == code::TEXT_32),
            code => Err(DecodeError::WrongType {
                expected: "string",
                code,
            }),
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        put_sized(out, code::TEXT_8, code::TEXT_32, self.as_bytes());
    }
}

impl Field for Symbol {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            code @ (code::SYMBOL_8 | code::SYMBOL_32) => {
                Self::checked(reader.text(code == code::SYMBOL_32)?).ok_or(DecodeError::NotText)
            }
            code => Err(DecodeError::WrongType {
                expected: "symbol",
                code,
            }),
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        put_sized(out, code::SYMBOL_8, code::SYMBOL_32, self.as_str().as_bytes());
    }
}

impl Field for Tag {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let length = match reader.u8()? {
            code::BINARY_8 => usize::from(reader.u8()?),
            code::BINARY_32 => reader.u32()? as usize,
            code => {
                return Err(DecodeError::WrongType {
                    expected: "binary",
                    code,
                });
            }
        };
        Self::new(reader.take(length)?)
    }

    fn encode(&self, out: &mut BytesMut) {
        put_sized(out, code::BINARY_8, code::BINARY_32, self.as_bytes());
    }
}

/// A `multiple` field: a symbol, an array of symbols, or absent.
impl Field for Vec<Symbol> {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let code = reader.peek()?;
        let symbols = match AmqpValue::decode(reader)? {
            AmqpValue::Symbol(symbol) => Some(vec![symbol]),
            AmqpValue::Array(array) => array.items().iter().map(as_symbol).collect(),
            // The encoding of an empty array in this and other libraries.
            AmqpValue::List(items) if items.is_empty() => Some(Self::new()),
            _ => None,
        };
        symbols.ok_or(DecodeError::WrongType {
            expected: "symbols",
            code,
        })
    }

    fn absent(_: &'static str) -> Result<Self, DecodeError> {
        Ok(Self::new())
    }

    fn encode(&self, out: &mut BytesMut) {
        if self.is_empty() {
            out.put_u8(code::NULL);
            return;
        }
        let array = Compound::begin(out, code::ARRAY_32);
        let is_long = self.iter().any(|symbol| symbol.as_str().len() > usize::from(u8::MAX));
        out.put_u8(if is_long { code::SYMBOL_32 } else { code::SYMBOL_8 });
        for symbol in self {
            let bytes = symbol.as_str().as_bytes();
            if is_long {
                out.put_u32(bytes.len() as u32);
            } else {
                out.put_u8(bytes.len() as u8);
            }
            out.put_slice(bytes);
        }
        array.end(out, self.len());
    }
}

fn as_symbol(value: &AmqpValue) -> Option<Symbol> {
    if let AmqpValue::Symbol(symbol) = value {
        Some(symbol.clone())
    } else {
        None
    }
}
