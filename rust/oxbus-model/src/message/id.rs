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
///
/// Two words: an array of bytes is moved in pieces, which the reader of the whole has to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AssignedId {
    sender: u64,
    count: u64,
}

impl AssignedId {
    /// Bytes of an assigned id.
    pub const LEN: usize = 16;

    /// The id number `count` of the sender with that prefix.
    pub fn new(sender: u64, count: u64) -> Self {
        Self { sender, count }
    }

    /// The id that the same sender makes `later` ids after this one.
    #[inline]
    #[must_use]
    pub fn following(self, later: u64) -> Self {
        Self::new(self.sender, self.count.wrapping_add(later))
    }

    /// The id that is written like this.
    #[inline]
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let id = u128::from_be_bytes(bytes);
        Self::new((id >> 64) as u64, id as u64)
    }

    /// How it is written.
    #[inline]
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        (u128::from(self.sender) << 64 | u128::from(self.count)).to_be_bytes()
    }

    /// The prefix it was made with.
    #[inline]
    pub fn sender(self) -> u64 {
        self.sender
    }

    /// The 32 hexadecimal digits.
    ///
    /// Writes eight bytes at a time: a reader of words that were written byte by byte waits for each byte.
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

/// The hexadecimal digits of a number, the first one in the highest byte.
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

/// Makes ids that no other message has: the first of as many as asked for, which follow it.
pub type NewId = fn(u64) -> AssignedId;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::AssignedId;

    proptest! {
        #[test]
        fn digits_are_those_of_the_number(sender: u64, count: u64) {
            let digits = AssignedId::new(sender, count).hex().to_vec();
            prop_assert_eq!(String::from_utf8(digits), Ok(format!("{sender:016x}{count:016x}")));
        }
    }
}
