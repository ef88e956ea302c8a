// SPDX-License-Identifier: Apache-2.0
//! Writes lists, maps and arrays, and bytes with their length.

use bytes::{BufMut, BytesMut};

/// A list, map or array that is being written, in the wide encoding: four bytes of size, four of count.
#[derive(Debug)]
pub(crate) struct Compound {
    size_at: usize,
}

impl Compound {
    /// Writes the code and reserves size and count.
    pub(crate) fn begin(out: &mut BytesMut, code: u8) -> Self {
        out.put_u8(code);
        let size_at = out.len();
        out.put_u64(0);
        Self { size_at }
    }

    /// Sets size and count.
    pub(crate) fn end(self, out: &mut BytesMut, count: usize) {
        let size = (out.len() - self.size_at - 4) as u32;
        out[self.size_at..self.size_at + 4].copy_from_slice(&size.to_be_bytes());
        out[self.size_at + 4..self.size_at + 8].copy_from_slice(&(count as u32).to_be_bytes());
    }
}

/// Writes the code, length and bytes in the short or long encoding.
pub(crate) fn put_sized(out: &mut BytesMut, short: u8, long: u8, bytes: &[u8]) {
    if let Ok(length) = u8::try_from(bytes.len()) {
        out.put_u8(short);
        out.put_u8(length);
    } else {
        out.put_u8(long);
        out.put_u32(bytes.len() as u32);
    }
    out.put_slice(bytes);
}
