// SPDX-License-Identifier: Apache-2.0
//! Message ids: of four types, and given back in the type they came in.

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;

use crate::codec::{DecodeError, Field, Reader, Uuid, Value, code};

/// A message id.
#[expect(missing_docs, reason = "each name is that of the specification")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MessageId {
    Ulong(u64),
    Uuid(Uuid),
    Binary(Bytes),
    String(ByteString),
}

impl Field for MessageId {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.peek()? {
            code::ULONG_0 | code::ULONG_SMALL | code::ULONG => Self::Ulong(Field::decode(reader)?),
            code::UUID => Self::Uuid(Field::decode(reader)?),
            code::BINARY_8 | code::BINARY_32 => Self::Binary(Field::decode(reader)?),
            code::TEXT_8 | code::TEXT_32 => Self::String(Field::decode(reader)?),
            code => {
                return Err(DecodeError::WrongType {
                    wanted: "message id",
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

impl From<MessageId> for Value {
    fn from(id: MessageId) -> Self {
        match id {
            MessageId::Ulong(id) => Self::Ulong(id),
            MessageId::Uuid(id) => Self::Uuid(id),
            MessageId::Binary(id) => Self::Binary(id),
            MessageId::String(id) => Self::String(id),
        }
    }
}

impl From<&str> for MessageId {
    fn from(id: &str) -> Self {
        Self::String(id.into())
    }
}
