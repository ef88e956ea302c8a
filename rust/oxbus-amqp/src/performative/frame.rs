// SPDX-License-Identifier: Apache-2.0
//! Frames: a header of eight bytes, a performative, and a payload (AMQP 1.0, part 2, 2.3).

use bytes::{BufMut, Bytes, BytesMut};

use super::{
    Attach, Begin, Close, Detach, Disposition, End, Flow, Open, SaslInit, SaslMechanisms, SaslOutcome, Transfer,
};
use crate::codec::{DecodeError, Field, Reader, descriptor_code};

/// Bytes of a frame header.
const FRAME_HEADER_BYTES: usize = 8;

/// The type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// AMQP.
    Amqp,
    /// SASL.
    Sasl,
}

/// A frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmqpFrameHeader {
    /// Bytes of the frame, with the header.
    pub size: u32,
    /// Offset of the body.
    pub body_offset: usize,
    /// The type.
    pub kind: FrameKind,
    /// The channel. Zero for SASL.
    pub channel: u16,
}

impl AmqpFrameHeader {
    /// Reads a header. Returns `None` if it is incomplete.
    pub fn read(bytes: &[u8], size_max: u32) -> Result<Option<Self>, DecodeError> {
        let Some(header) = bytes.first_chunk::<FRAME_HEADER_BYTES>() else {
            return Ok(None);
        };
        let size = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
        if size < FRAME_HEADER_BYTES as u32 || size > size_max {
            return Err(DecodeError::FrameSize(size));
        }
        let body_offset = usize::from(header[4]) * 4;
        if body_offset < FRAME_HEADER_BYTES || body_offset > size as usize {
            return Err(DecodeError::FrameOffset(header[4]));
        }
        let kind = match header[5] {
            0 => FrameKind::Amqp,
            1 => FrameKind::Sasl,
            kind => return Err(DecodeError::FrameType(kind)),
        };
        Ok(Some(Self {
            size,
            body_offset,
            kind,
            channel: u16::from_be_bytes([header[6], header[7]]),
        }))
    }
}

/// The performative of an AMQP frame.
#[expect(missing_docs, reason = "each name is that of the specification")]
#[derive(Debug, Clone, PartialEq)]
pub enum Performative {
    Open(Box<Open>),
    Begin(Box<Begin>),
    Attach(Box<Attach>),
    Flow(Box<Flow>),
    Transfer(Transfer),
    Disposition(Disposition),
    Detach(Box<Detach>),
    End(Box<End>),
    Close(Box<Close>),
}

/// An AMQP frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// The performative.
    pub performative: Performative,
    /// The payload: bytes of a message.
    pub payload: Bytes,
}

impl Frame {
    /// Reads the body of a frame. Returns `None` for an empty frame.
    pub fn read(body: &Bytes) -> Result<Option<Self>, DecodeError> {
        if body.is_empty() {
            return Ok(None);
        }
        let mut reader = Reader::new(body);
        let reader = &mut reader;
        let performative = match descriptor_code(reader)? {
            Some(0x10) => Performative::Open(Open::decode_list(reader)?.into()),
            Some(0x11) => Performative::Begin(Begin::decode_list(reader)?.into()),
            Some(0x12) => Performative::Attach(Attach::decode_list(reader)?.into()),
            Some(0x13) => Performative::Flow(Flow::decode_list(reader)?.into()),
            Some(0x14) => Performative::Transfer(Transfer::decode_list(reader)?),
            Some(0x15) => Performative::Disposition(Disposition::decode_list(reader)?),
            Some(0x16) => Performative::Detach(Detach::decode_list(reader)?.into()),
            Some(0x17) => Performative::End(End::decode_list(reader)?.into()),
            Some(0x18) => Performative::Close(Close::decode_list(reader)?.into()),
            descriptor => {
                return Err(DecodeError::WrongDescriptor {
                    expected: "performative",
                    descriptor,
                });
            }
        };
        Ok(Some(Self {
            performative,
            payload: reader.rest(),
        }))
    }
}

/// A SASL frame. Challenges are not supported.
#[derive(Debug, Clone, PartialEq)]
pub enum SaslFrame {
    /// From the server: the offered mechanisms.
    Mechanisms(SaslMechanisms),
    /// From the client: the selected mechanism.
    Init(Box<SaslInit>),
    /// From the server: the outcome.
    Outcome(SaslOutcome),
}

impl SaslFrame {
    /// Reads the body of a SASL frame.
    pub fn read(body: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let reader = &mut reader;
        match descriptor_code(reader)? {
            Some(0x40) => SaslMechanisms::decode_list(reader).map(Self::Mechanisms),
            Some(0x41) => SaslInit::decode_list(reader).map(|init| Self::Init(init.into())),
            Some(0x44) => SaslOutcome::decode_list(reader).map(Self::Outcome),
            descriptor => Err(DecodeError::WrongDescriptor {
                expected: "SASL frame",
                descriptor,
            }),
        }
    }
}

/// Writes an AMQP frame without payload.
pub fn put_frame(out: &mut BytesMut, channel: u16, performative: &impl Field) {
    let start = begin_frame(out, 0, channel);
    performative.encode(out);
    end_frame(out, start);
}

/// Writes a SASL frame.
pub fn put_sasl_frame(out: &mut BytesMut, body: &impl Field) {
    let start = begin_frame(out, 1, 0);
    body.encode(out);
    end_frame(out, start);
}

/// Writes an empty frame as heartbeat.
pub fn put_empty_frame(out: &mut BytesMut) {
    let start = begin_frame(out, 0, 0);
    end_frame(out, start);
}

/// Writes a frame header. `end_frame` sets the size.
pub(crate) fn begin_frame(out: &mut BytesMut, kind: u8, channel: u16) -> usize {
    let start = out.len();
    out.put_u32(0);
    out.put_slice(&[2, kind]);
    out.put_u16(channel);
    start
}

pub(crate) fn end_frame(out: &mut BytesMut, start: usize) {
    let size = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
}
