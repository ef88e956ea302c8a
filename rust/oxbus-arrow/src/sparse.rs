// SPDX-License-Identifier: Apache-2.0
//! Columns in which few rows have a value.

use arrow_array::ArrayRef;
use arrow_array::builder::{ArrayBuilder, DurationMicrosecondBuilder, StringBuilder, TimestampMicrosecondBuilder};

/// A column that few rows have a value in: a row without one costs nothing until a later row has one.
pub(crate) struct SparseColumn<B>(pub(crate) B);

/// The operations that a sparse column needs of its builder.
pub(crate) trait AppendNulls: ArrayBuilder {
    fn append_nulls(&mut self, rows: usize);
}

impl AppendNulls for StringBuilder {
    fn append_nulls(&mut self, rows: usize) {
        Self::append_nulls(self, rows);
    }
}

impl AppendNulls for TimestampMicrosecondBuilder {
    fn append_nulls(&mut self, rows: usize) {
        Self::append_nulls(self, rows);
    }
}

impl AppendNulls for DurationMicrosecondBuilder {
    fn append_nulls(&mut self, rows: usize) {
        Self::append_nulls(self, rows);
    }
}

impl<B: AppendNulls> SparseColumn<B> {
    /// The builder, ready for the value of a row.
    pub(crate) fn at(&mut self, row: usize) -> &mut B {
        self.0.append_nulls(row - self.0.len());
        &mut self.0
    }

    /// The column of that many rows.
    pub(crate) fn finish(&mut self, rows: usize) -> ArrayRef {
        self.at(rows).finish()
    }
}
