// SPDX-License-Identifier: Apache-2.0
//! A column of bytes or text that most rows have.

use std::sync::Arc;

use arrow_array::types::ByteArrayType;
use arrow_array::{ArrayRef, GenericByteArray};
use arrow_buffer::{Buffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use oxbus_model::{Error, ErrorKind, Result};

use crate::unreadable;

/// A column of bytes, in one allocation if the expected size was right.
pub(crate) struct BytesColumnBuilder {
    offsets: Vec<i32>,
    bytes: Vec<u8>,
    nulls: NullBufferBuilder,
}

impl BytesColumnBuilder {
    /// A column for this number of rows and bytes.
    pub(crate) fn with_capacity(rows: usize, bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self {
            offsets,
            bytes: Vec::with_capacity(bytes),
            nulls: NullBufferBuilder::new(rows),
        }
    }

    /// Adds a row.
    #[inline]
    pub(crate) fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.nulls.append_non_null();
        self.end_row();
    }

    /// Adds a null.
    #[inline]
    pub(crate) fn push_null(&mut self) {
        self.nulls.append_null();
        self.end_row();
    }

    #[inline]
    fn end_row(&mut self) {
        // Beyond 2 GiB this wraps, which `finish` sees from the length.
        self.offsets.push(self.bytes.len() as i32);
    }

    /// The column. Fails if it has more than 2 GiB, or text that is not UTF-8.
    pub(crate) fn finish<T: ByteArrayType<Offset = i32>>(mut self, name: &str) -> Result<ArrayRef> {
        if self.bytes.len() > i32::MAX as usize {
            let detail = format!(
                "column `{name}` would have more than 2 GiB, which its type cannot hold; receive fewer messages at once: {} bytes",
                self.bytes.len()
            );
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let array = GenericByteArray::<T>::try_new(offsets, Buffer::from_vec(self.bytes), self.nulls.finish());
        Ok(Arc::new(array.map_err(unreadable)?))
    }
}
