// SPDX-License-Identifier: Apache-2.0
//! Splits the input into frames, and says which errors end what.

use bytes::{Bytes, BytesMut};
use oxbus_model::caps::AMQP_FRAME_BYTES_MAX;

use crate::codec::DecodeError;
use crate::performative::{AmqpError, AmqpFrameHeader, condition};

/// `AMQP`, protocol, version 1.0.0.
pub(crate) const AMQP_HEADER: [u8; 8] = *b"AMQP\x00\x01\x00\x00";
pub(crate) const SASL_HEADER: [u8; 8] = *b"AMQP\x03\x01\x00\x00";

/// An error that ends the session or the connection.
#[derive(Debug)]
pub(crate) enum ProtocolError {
    Session(AmqpError),
    Connection(AmqpError),
}

impl ProtocolError {
    pub(crate) fn unattached(handle: u32) -> Self {
        Self::Session(AmqpError::new(
            condition::UNATTACHED_HANDLE,
            format!("no link has this handle: handle=`{handle}`"),
        ))
    }

    pub(crate) fn framing(text: impl Into<String>) -> Self {
        Self::Connection(AmqpError::new(condition::FRAMING_ERROR, text.into()))
    }

    pub(crate) fn not_allowed(text: impl Into<String>) -> Self {
        Self::Connection(AmqpError::new(condition::NOT_ALLOWED, text.into()))
    }
}

impl From<DecodeError> for ProtocolError {
    fn from(error: DecodeError) -> Self {
        let condition = match error {
            DecodeError::FrameSize(_) | DecodeError::FrameOffset(_) | DecodeError::FrameType(_) => {
                condition::FRAMING_ERROR
            }
            DecodeError::MissingField(_) | DecodeError::UnknownChoice { .. } => condition::INVALID_FIELD,
            _ => condition::DECODE_ERROR,
        };
        Self::Connection(AmqpError::new(condition, error.to_string()))
    }
}

/// Splits the next frame from the input, if it is complete. Reserves room for the rest of an incomplete one.
pub(crate) fn split_frame(
    input: &mut BytesMut,
    size_max: u32,
) -> Result<Option<(AmqpFrameHeader, Bytes)>, ProtocolError> {
    let Some(head) = AmqpFrameHeader::read(input, size_max.min(AMQP_FRAME_BYTES_MAX))? else {
        return Ok(None);
    };
    let size = head.size as usize;
    if input.len() < size {
        input.reserve(size - input.len());
        return Ok(None);
    }
    let mut frame = input.split_to(size).freeze();
    Ok(Some((head, frame.split_off(head.body_offset))))
}
