// SPDX-License-Identifier: Apache-2.0
//! Why bytes are not what they should be.

use std::fmt;

/// Why bytes are not what they should be.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// A value goes on behind the end of its bytes.
    Truncated,
    /// No type has this code.
    UnknownCode(u8),
    /// Another type was due.
    WrongType {
        /// The expected value.
        expected: &'static str,
        /// The code that came.
        code: u8,
    },
    /// A string is not UTF-8, or a symbol not ASCII.
    NotText,
    /// A number is not a character of Unicode.
    NotACharacter(u32),
    /// More levels than `AMQP_NESTING_MAX`.
    TooDeep,
    /// More values than `AMQP_VALUES_MAX`.
    TooMany,
    /// The items of a list, map or array do not fill its size, or a map has a key without a value.
    BadSize,
    /// A delivery tag is longer than `AMQP_TAG_BYTES_MAX`.
    TagTooLong(usize),
    /// A field that must be there is absent.
    MissingField(&'static str),
    /// A number that the field does not know.
    UnknownChoice {
        /// The field.
        field: &'static str,
        /// The number.
        value: u64,
    },
    /// A described value of another kind was due.
    WrongDescriptor {
        /// The expected value.
        expected: &'static str,
        /// The descriptor that came, when it was a number.
        descriptor: Option<u64>,
    },
    /// The sections of a message are out of order, or one occurs twice.
    SectionOrder(u8),
    /// The size in the head of a frame cannot be, or is more than was agreed on.
    FrameSize(u32),
    /// A frame whose head is longer than itself, or shorter than it must be.
    FrameOffset(u8),
    /// A frame of another type was due.
    FrameType(u8),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => write!(out, "a value goes on behind the end of its bytes"),
            Self::UnknownCode(code) => write!(out, "no AMQP type has this code: code=`0x{code:02x}`"),
            Self::WrongType { expected, code } => {
                write!(out, "another type was due: expected=`{expected}` code=`0x{code:02x}`")
            }
            Self::NotText => write!(out, "a string is not UTF-8, or a symbol not ASCII"),
            Self::NotACharacter(value) => write!(out, "not a character of Unicode: value=`0x{value:x}`"),
            Self::TooDeep => write!(out, "a value has too many levels"),
            Self::TooMany => write!(out, "a value holds too many values"),
            Self::BadSize => write!(out, "the size of a list, map or array does not fit what it holds"),
            Self::TagTooLong(length) => write!(out, "delivery tag too long: length=`{length}`"),
            Self::MissingField(field) => write!(out, "a field must be set: field=`{field}`"),
            Self::UnknownChoice { field, value } => write!(out, "unknown value: field=`{field}` value=`{value}`"),
            Self::WrongDescriptor { expected, descriptor } => match descriptor {
                Some(code) => write!(
                    out,
                    "another described type was due: expected=`{expected}` descriptor=`0x{code:x}`"
                ),
                None => write!(out, "another described type was due: expected=`{expected}`"),
            },
            Self::SectionOrder(code) => write!(out, "a section of the message is out of order: section=`0x{code:02x}`"),
            Self::FrameSize(size) => write!(out, "size of a frame out of range: size=`{size}`"),
            Self::FrameOffset(offset) => write!(out, "data offset of a frame out of range: offset=`{offset}`"),
            Self::FrameType(kind) => write!(out, "unexpected type of frame: type=`0x{kind:02x}`"),
        }
    }
}

impl std::error::Error for DecodeError {}
