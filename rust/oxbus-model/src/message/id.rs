// SPDX-License-Identifier: Apache-2.0
//! Message ids: the application's text, or 16 bytes that the sender assigned (docs/behaviour.md B-067).

use std::fmt;

/// The id of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageId<'a> {
    /// The application's text.
    Given(&'a str),
    /// Made by the sender if the application gave none. Its text has 32 hexadecimal digits.
    Assigned(AssignedId),
}

/// An id made by a sender: 8 random bytes of the sender, then its count, big-endian.
///
/// Two words, not an array: copying an array byte by byte would stall the word-sized read that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AssignedId {
    sender: u64,
    count: u64,
}

impl AssignedId {
    /// Bytes of an assigned id.
    pub const LEN: usize = 16;

    /// The id with number `count` of the sender with this prefix.
    pub fn new(sender: u64, count: u64) -> Self {
        Self { sender, count }
    }

    /// The same sender's id, `later` ids after this one.
    #[inline]
    #[must_use]
    pub fn following(self, later: u64) -> Self {
        Self::new(self.sender, self.count.wrapping_add(later))
    }

    /// The id with these bytes.
    #[inline]
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let id = u128::from_be_bytes(bytes);
        Self::new((id >> 64) as u64, id as u64)
    }

    /// The bytes.
    #[inline]
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        (u128::from(self.sender) << 64 | u128::from(self.count)).to_be_bytes()
    }

    /// The sender's prefix.
    #[inline]
    pub fn sender(self) -> u64 {
        self.sender
    }

    /// The 32 hexadecimal digits.
    ///
    /// Computed eight at a time: reading words that were written byte by byte would stall.
    #[inline]
    pub fn hex(self) -> [u8; 32] {
        let mut out = [0; 32];
        let words = [self.sender >> 32, self.sender, self.count >> 32, self.count];
        for (digits, word) in out.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *digits = eight_digits(word as u32).to_be_bytes();
        }
        out
    }
}

/// The eight hexadecimal digits of a number, the first one in the highest byte.
#[inline]
fn eight_digits(number: u32) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let pairs = u64::from(number & 0xffff_0000) << 16 | u64::from(number & 0xffff);
    let bytes = (pairs << 8 | pairs) & 0x00ff_00ff_00ff_00ff;
    let nibbles = (bytes << 4 | bytes) & 0x0f0f_0f0f_0f0f_0f0f;
    let is_letter = (nibbles + EACH * 6) >> 4 & EACH;
    nibbles + EACH * u64::from(b'0') + is_letter * u64::from(b'a' - b'0' - 10)
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

/// Makes this many unique ids. Returns the first; the others [follow](AssignedId::following) it.
pub type NewId = fn(u64) -> AssignedId;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::AssignedId;

    proptest! {
        #[test]
        fn hex_digits_match_the_formatted_numbers(sender: u64, count: u64) {
            let digits = AssignedId::new(sender, count).hex().to_vec();
            prop_assert_eq!(String::from_utf8(digits), Ok(format!("{sender:016x}{count:016x}")));
        }
    }
}
