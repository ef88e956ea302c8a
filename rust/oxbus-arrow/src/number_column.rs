// SPDX-License-Identifier: Apache-2.0
//! Columns of numbers and times, one allocation each.

use std::sync::Arc;

use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::{NullBufferBuilder, ScalarBuffer};

/// A column of numbers or times. It has a null mask only once a value is null.
pub(crate) struct NumberColumn<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
}

impl<T: ArrowPrimitiveType> NumberColumn<T> {
    /// A column with room for this number of rows.
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self {
            values: Vec::with_capacity(rows),
            nulls: NullBufferBuilder::new(rows),
        }
    }

    /// Adds a value for each row of a chunk.
    pub(crate) fn extend(&mut self, values: impl ExactSizeIterator<Item = T::Native>) {
        self.nulls.append_n_non_nulls(values.len());
        self.values.extend(values);
    }

    /// Adds a value or a null for each row of a chunk.
    pub(crate) fn extend_options(&mut self, values: impl ExactSizeIterator<Item = Option<T::Native>>) {
        let nulls = &mut self.nulls;
        self.values.extend(values.map(|value| {
            nulls.append(value.is_some());
            value.unwrap_or_default()
        }));
    }

    fn finish_array(mut self) -> PrimitiveArray<T> {
        PrimitiveArray::new(ScalarBuffer::from(self.values), self.nulls.finish())
    }

    pub(crate) fn finish(self) -> ArrayRef {
        Arc::new(self.finish_array())
    }
}

impl NumberColumn<TimestampMicrosecondType> {
    /// The column, as times in UTC.
    pub(crate) fn finish_as_utc(self) -> ArrayRef {
        Arc::new(self.finish_array().with_timezone("UTC"))
    }
}
