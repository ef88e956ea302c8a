// SPDX-License-Identifier: Apache-2.0
//! Delivery tags.

use std::fmt;

use oxbus_model::caps::AMQP_TAG_BYTES_MAX;

use super::DecodeError;

/// A delivery tag: a sender's name for a delivery, up to `AMQP_TAG_BYTES_MAX` bytes, stored inline.
#[derive(Clone, Copy)]
pub struct Tag {
    length: u8,
    bytes: [u8; AMQP_TAG_BYTES_MAX],
}

impl Tag {
    /// The empty tag, of deliveries that are sent settled.
    pub const EMPTY: Self = Self {
        length: 0,
        bytes: [0; AMQP_TAG_BYTES_MAX],
    };

    /// A tag of these bytes. Fails if there are too many.
    pub fn new(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut tag = Self::EMPTY;
        tag.bytes
            .get_mut(..bytes.len())
            .ok_or(DecodeError::TagTooLong(bytes.len()))?
            .copy_from_slice(bytes);
        tag.length = bytes.len() as u8;
        Ok(tag)
    }

    /// A tag of the four bytes of a number.
    pub fn from_number(number: u32) -> Self {
        let mut tag = Self::EMPTY;
        tag.bytes[..4].copy_from_slice(&number.to_be_bytes());
        tag.length = 4;
        tag
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl From<[u8; 16]> for Tag {
    fn from(bytes: [u8; 16]) -> Self {
        let mut tag = Self::EMPTY;
        tag.bytes[..16].copy_from_slice(&bytes);
        tag.length = 16;
        tag
    }
}

impl PartialEq for Tag {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Tag {}

impl fmt::Debug for Tag {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.as_bytes() {
            write!(out, "{byte:02x}")?;
        }
        Ok(())
    }
}
