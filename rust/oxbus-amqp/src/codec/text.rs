// SPDX-License-Identifier: Apache-2.0
//! AMQP types that Rust lacks.

use std::fmt;

use bytestring::ByteString;

/// An ASCII name from a constrained set.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(ByteString);

impl Symbol {
    /// A static symbol.
    pub const fn from_static(name: &'static str) -> Self {
        Self(ByteString::from_static(name))
    }

    /// A symbol. Characters outside ASCII become question marks.
    pub fn new(name: &str) -> Self {
        if name.is_ascii() {
            return Self(ByteString::from(name));
        }
        let ascii: String = name.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect();
        Self(ByteString::from(ascii))
    }

    pub(super) fn checked(text: ByteString) -> Option<Self> {
        text.is_ascii().then_some(Self(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, ":{}", self.as_str())
    }
}

impl PartialEq<str> for Symbol {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl From<&'static str> for Symbol {
    fn from(name: &'static str) -> Self {
        if name.is_ascii() {
            Self::from_static(name)
        } else {
            Self::new(name)
        }
    }
}

/// Milliseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AmqpTimestamp(pub i64);

/// Sixteen bytes in network order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);
