// SPDX-License-Identifier: Apache-2.0
//! Columns in which few rows have a value.

use arrow_array::ArrayRef;
use arrow_array::builder::{ArrayBuilder, DurationMicrosecondBuilder, StringBuilder, TimestampMicrosecondBuilder};

/// A column in which few rows have a value: nulls are appended only before the next value.
pub(crate) struct SparseColumn<B>(pub(crate) B);

/// A builder that can append many nulls at once.
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
    /// The builder, positioned at a row.
    pub(crate) fn at(&mut self, row: usize) -> &mut B {
        self.0.append_nulls(row - self.0.len());
        &mut self.0
    }

    /// The column with this number of rows.
    pub(crate) fn finish(&mut self, rows: usize) -> ArrayRef {
        self.at(rows).finish()
    }
}
