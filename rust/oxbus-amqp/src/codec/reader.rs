// SPDX-License-Identifier: Apache-2.0
//! Reads values from bytes.

use bytes::Bytes;
use bytestring::ByteString;
use oxbus_model::caps::{AMQP_NESTING_MAX, AMQP_VALUES_MAX};

use super::{DecodeError, Field, code};

/// A position in bytes, which reading advances.
///
/// While a list, map or array is read, `end` is its end.
#[derive(Debug)]
pub struct Reader<'a> {
    source: &'a Bytes,
    at: usize,
    end: usize,
    levels_left: u32,
    values_left: u32,
}

/// A list, map or array that is being read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenCompound {
    pub(crate) count: u32,
    outer_end: usize,
}

impl<'a> Reader<'a> {
    /// A reader of all bytes.
    pub fn new(source: &'a Bytes) -> Self {
        Self::within(source, 0, source.len())
    }

    /// A reader from `at` to `end`, both limited to the length.
    pub fn within(source: &'a Bytes, at: usize, end: usize) -> Self {
        let end = end.min(source.len());
        Self {
            source,
            at: at.min(end),
            end,
            levels_left: AMQP_NESTING_MAX,
            values_left: AMQP_VALUES_MAX,
        }
    }

    /// True at the end.
    pub fn is_at_end(&self) -> bool {
        self.at == self.end
    }

    /// Position in bytes.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The remaining bytes, without a copy.
    pub fn rest(&self) -> Bytes {
        self.source.slice(self.at..self.end)
    }

    /// The code of the next value, without reading it.
    #[inline]
    pub fn peek(&self) -> Result<u8, DecodeError> {
        if self.at < self.end {
            Ok(self.source[self.at])
        } else {
            Err(DecodeError::Truncated)
        }
    }

    /// Reads a value of a known type, or null.
    #[inline]
    pub fn field<T: Field>(&mut self, name: &'static str) -> Result<T, DecodeError> {
        if self.peek()? == code::NULL {
            self.at += 1;
            return T::absent(name);
        }
        T::decode(self)
    }

    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        if length > self.end - self.at {
            return Err(DecodeError::Truncated);
        }
        let taken = &self.source[self.at..self.at + length];
        self.at += length;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    #[inline]
    fn size(&mut self, is_wide: bool) -> Result<usize, DecodeError> {
        Ok(if is_wide {
            self.u32()? as usize
        } else {
            usize::from(self.u8()?)
        })
    }

    /// Reads a length and that many bytes, without a copy.
    pub(crate) fn bytes(&mut self, is_wide: bool) -> Result<Bytes, DecodeError> {
        let length = self.size(is_wide)?;
        let start = self.at;
        self.take(length)?;
        Ok(self.source.slice(start..start + length))
    }

    pub(crate) fn text(&mut self, is_wide: bool) -> Result<ByteString, DecodeError> {
        ByteString::try_from(self.bytes(is_wide)?).map_err(|_| DecodeError::NotText)
    }

    /// Begins a list, map or array. End it with `close` or `skip_rest`.
    pub(crate) fn open(&mut self, is_wide: bool) -> Result<OpenCompound, DecodeError> {
        let size = self.size(is_wide)?;
        if size > self.end - self.at {
            return Err(DecodeError::Truncated);
        }
        let outer_end = self.end;
        self.end = self.at + size;
        let count = self.size(is_wide)? as u32;
        self.descend()?;
        Ok(OpenCompound { count, outer_end })
    }

    /// Ends a list, map or array. Fails unless all of it was read.
    pub(crate) fn close(&mut self, opened: OpenCompound) -> Result<(), DecodeError> {
        if self.at != self.end {
            return Err(DecodeError::BadSize);
        }
        self.skip_rest(opened);
        Ok(())
    }

    /// Ends a list, map or array. Skips unread items.
    pub(crate) fn skip_rest(&mut self, opened: OpenCompound) {
        self.at = self.end;
        self.end = opened.outer_end;
        self.ascend();
    }

    pub(crate) fn descend(&mut self) -> Result<(), DecodeError> {
        self.levels_left = self.levels_left.checked_sub(1).ok_or(DecodeError::TooDeep)?;
        Ok(())
    }

    pub(crate) fn ascend(&mut self) {
        self.levels_left += 1;
    }

    /// Counts values against the limit, before memory is allocated for them.
    pub(crate) fn count_values(&mut self, values: u32) -> Result<(), DecodeError> {
        self.values_left = self.values_left.checked_sub(values).ok_or(DecodeError::TooMany)?;
        Ok(())
    }

    /// Skips one value without decoding it.
    pub fn skip(&mut self) -> Result<(), DecodeError> {
        let mut code = self.u8()?;
        let levels = self.levels_left;
        while code == code::DESCRIBED {
            self.descend()?;
            self.skip()?;
            code = self.u8()?;
        }
        self.levels_left = levels;
        let length = match code >> 4 {
            0x4 => 0,
            0x5 => 1,
            0x6 => 2,
            0x7 => 4,
            0x8 => 8,
            0x9 => 16,
            0xa | 0xc | 0xe => self.size(false)?,
            0xb | 0xd | 0xf => self.size(true)?,
            _ => return Err(DecodeError::UnknownCode(code)),
        };
        self.take(length)?;
        Ok(())
    }
}
