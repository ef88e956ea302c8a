// SPDX-License-Identifier: Apache-2.0
//! Why bytes cannot be decoded.

use std::fmt;

/// Why bytes cannot be decoded.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end before the value.
    Truncated,
    /// No type has this code.
    UnknownCode(u8),
    /// The value has the wrong type.
    WrongType {
        /// The expected type.
        expected: &'static str,
        /// The code found.
        code: u8,
    },
    /// A string is not UTF-8, or a symbol not ASCII.
    NotText,
    /// A char is not a Unicode scalar value.
    NotACharacter(u32),
    /// More nested levels than `AMQP_NESTING_MAX`.
    TooDeep,
    /// More values than `AMQP_VALUES_MAX`.
    TooMany,
    /// The size of a list, map or array does not match its items, or a map has a key without a value.
    BadSize,
    /// A delivery tag is longer than `AMQP_TAG_BYTES_MAX`.
    TagTooLong(usize),
    /// A required field is absent.
    MissingField(&'static str),
    /// The value is not a choice of the field.
    UnknownChoice {
        /// The field.
        field: &'static str,
        /// The value.
        value: u64,
    },
    /// A described value has the wrong descriptor.
    WrongDescriptor {
        /// The expected type.
        expected: &'static str,
        /// The descriptor found, if it is a number.
        descriptor: Option<u64>,
    },
    /// The sections of a message are out of order or repeated.
    SectionOrder(u8),
    /// The frame size is invalid or larger than the negotiated maximum.
    FrameSize(u32),
    /// The data offset of a frame is outside the frame or too small.
    FrameOffset(u8),
    /// The frame has the wrong type.
    FrameType(u8),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => write!(out, "the bytes end before the value"),
            Self::UnknownCode(code) => write!(out, "unknown type code: code=`0x{code:02x}`"),
            Self::WrongType { expected, code } => {
                write!(out, "wrong type: expected=`{expected}` code=`0x{code:02x}`")
            }
            Self::NotText => write!(out, "a string is not UTF-8, or a symbol not ASCII"),
            Self::NotACharacter(value) => write!(out, "not a Unicode character: value=`0x{value:x}`"),
            Self::TooDeep => write!(out, "too many nested levels in a value"),
            Self::TooMany => write!(out, "too many values in a value"),
            Self::BadSize => write!(out, "the size of a list, map or array does not match its items"),
            Self::TagTooLong(length) => write!(out, "delivery tag too long: length=`{length}`"),
            Self::MissingField(field) => write!(out, "a required field is missing: field=`{field}`"),
            Self::UnknownChoice { field, value } => write!(out, "unknown value: field=`{field}` value=`{value}`"),
            Self::WrongDescriptor { expected, descriptor } => match descriptor {
                Some(code) => write!(out, "wrong descriptor: expected=`{expected}` descriptor=`0x{code:x}`"),
                None => write!(out, "wrong descriptor: expected=`{expected}`"),
            },
            Self::SectionOrder(code) => write!(out, "a section of the message is out of order: section=`0x{code:02x}`"),
            Self::FrameSize(size) => write!(out, "frame size out of range: size=`{size}`"),
            Self::FrameOffset(offset) => write!(out, "frame data offset out of range: offset=`{offset}`"),
            Self::FrameType(kind) => write!(out, "unexpected frame type: type=`0x{kind:02x}`"),
        }
    }
}

impl std::error::Error for DecodeError {}
