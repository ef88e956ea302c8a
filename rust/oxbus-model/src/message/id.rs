// SPDX-License-Identifier: Apache-2.0
//! Message ids: the application's text, or 16 bytes that the sender assigned (docs/behaviour.md B-067).

use std::fmt;

/// Identity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageId<'a> {
    /// Text of the application.
    Given(&'a str),
    /// Made by the sender because the application gave none; shown as 32 hexadecimal digits.
    Assigned(AssignedId),
}

/// An id made by a sender: 8 random bytes of that sender, then its count, big-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AssignedId(pub [u8; 16]);

impl AssignedId {
    /// Bytes of an assigned id.
    pub const LEN: usize = 16;

    /// The id number `count` of the sender with that prefix.
    pub fn new(sender: u64, count: u64) -> Self {
        Self((u128::from(sender) << 64 | u128::from(count)).to_be_bytes())
    }

    /// The prefix it was made with.
    #[inline]
    pub fn sender(self) -> u64 {
        u64::from_be_bytes(*self.0.first_chunk().expect("sixteen bytes"))
    }

    /// The 32 hexadecimal digits.
    pub fn hex(self) -> [u8; 32] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut out = [0; 32];
        for (pair, byte) in out.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        out
    }
}

impl fmt::Display for MessageId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(text) => f.write_str(text),
            Self::Assigned(id) => id
                .hex()
                .iter()
                .try_for_each(|&digit| fmt::Write::write_char(f, char::from(digit))),
        }
    }
}
