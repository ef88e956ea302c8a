// SPDX-License-Identifier: Apache-2.0
//! Message ids of four types. Each is returned in its original type.

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;

use crate::codec::{AmqpValue, DecodeError, Field, Reader, Uuid, code};

/// A message id.
#[expect(missing_docs, reason = "each name is that of the specification")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AmqpMessageId {
    Ulong(u64),
    Uuid(Uuid),
    Binary(Bytes),
    String(ByteString),
}

impl Field for AmqpMessageId {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.peek()? {
            code::ULONG_0 | code::ULONG_SMALL | code::ULONG => Self::Ulong(Field::decode(reader)?),
            code::UUID => Self::Uuid(Field::decode(reader)?),
            code::BINARY_8 | code::BINARY_32 => Self::Binary(Field::decode(reader)?),
            code::TEXT_8 | code::TEXT_32 => Self::String(Field::decode(reader)?),
            code => {
                return Err(DecodeError::WrongType {
                    expected: "message id",
                    code,
                });
            }
        })
    }

    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Ulong(id) => id.encode(out),
            Self::Uuid(id) => id.encode(out),
            Self::Binary(id) => id.encode(out),
            Self::String(id) => id.encode(out),
        }
    }
}

impl From<AmqpMessageId> for AmqpValue {
    fn from(id: AmqpMessageId) -> Self {
        match id {
            AmqpMessageId::Ulong(id) => Self::Ulong(id),
            AmqpMessageId::Uuid(id) => Self::Uuid(id),
            AmqpMessageId::Binary(id) => Self::Binary(id),
            AmqpMessageId::String(id) => Self::String(id),
        }
    }
}

impl From<&str> for AmqpMessageId {
    fn from(id: &str) -> Self {
        Self::String(id.into())
    }
}
