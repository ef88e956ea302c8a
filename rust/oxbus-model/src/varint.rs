// SPDX-License-Identifier: Apache-2.0
//! Varints (LEB128): seven bits per byte, low bits first.

/// Encoded length of `value` in bytes.
pub fn len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Writes `value` at `at`. Returns its end.
pub fn put(out: &mut [u8], mut at: usize, mut value: u64) -> usize {
    while value >= 0x80 {
        out[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    out[at] = value as u8;
    at + 1
}

/// Writes length and bytes at `at`. Returns their end.
pub fn put_bytes(out: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    let at = put(out, at, bytes.len() as u64);
    out[at..at + bytes.len()].copy_from_slice(bytes);
    at + bytes.len()
}

/// Appends `value` to `out`.
pub fn push(out: &mut Vec<u8>, value: u64) {
    let at = out.len();
    out.resize(at + len(value), 0);
    put(out, at, value);
}

/// Appends length and bytes to `out`.
pub fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads values from the front of a slice. Returns `None` if it is too short or malformed.
#[derive(Debug, Clone, Copy)]
pub struct VarintReader<'a>(pub &'a [u8]);

impl<'a> VarintReader<'a> {
    /// The next varint.
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: u64) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(head)
    }

    /// The next bytes with their length before them.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.varint()?;
        self.take(len)
    }

    /// The next bytes with their length before them, if they are UTF-8.
    pub fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}
