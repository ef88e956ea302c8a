// SPDX-License-Identifier: Apache-2.0
//! Columns in which few rows have a value. Without a value a column costs nothing until the table is finished.

use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, DurationMicrosecondBuilder, StringBuilder, TimestampMicrosecondBuilder};
use arrow_array::{ArrayRef, StringArray, new_null_array};
use arrow_schema::{DataType, TimeUnit};

/// Longest text for which room in all further rows is reserved.
const RESERVED_TEXT_BYTES: usize = 256;

/// A builder that can append many nulls at once.
pub(crate) trait SparseBuilder: ArrayBuilder {
    /// The value of a row.
    type Value<'a>: Copy;

    /// An empty builder for this number of rows, whose first value is `first`.
    fn sized(rows: usize, first: Self::Value<'_>) -> Self;

    fn append_nulls(&mut self, rows: usize);

    fn append_value(&mut self, value: Self::Value<'_>);
}

impl SparseBuilder for StringBuilder {
    type Value<'a> = &'a str;

    fn sized(rows: usize, first: &str) -> Self {
        // The texts of a column often have the same length.
        Self::with_capacity(rows, rows * first.len().min(RESERVED_TEXT_BYTES))
    }

    fn append_nulls(&mut self, rows: usize) {
        Self::append_nulls(self, rows);
    }

    fn append_value(&mut self, value: &str) {
        Self::append_value(self, value);
    }
}

impl SparseBuilder for TimestampMicrosecondBuilder {
    type Value<'a> = i64;

    fn sized(rows: usize, _: i64) -> Self {
        Self::with_capacity(rows).with_timezone("UTC")
    }

    fn append_nulls(&mut self, rows: usize) {
        Self::append_nulls(self, rows);
    }

    fn append_value(&mut self, value: i64) {
        Self::append_value(self, value);
    }
}

impl SparseBuilder for DurationMicrosecondBuilder {
    type Value<'a> = i64;

    fn sized(rows: usize, _: i64) -> Self {
        Self::with_capacity(rows)
    }

    fn append_nulls(&mut self, rows: usize) {
        Self::append_nulls(self, rows);
    }

    fn append_value(&mut self, value: i64) {
        Self::append_value(self, value);
    }
}

/// A column in which few rows have a value: nulls are appended only before the next value.
pub(crate) struct SparseColumn<B>(Option<B>);

impl<B> Default for SparseColumn<B> {
    fn default() -> Self {
        Self(None)
    }
}

impl<B: SparseBuilder> SparseColumn<B> {
    /// Sets the value of a row, after those of earlier rows. `rows` is the expected number of rows.
    pub(crate) fn set(&mut self, row: usize, value: B::Value<'_>, rows: usize) {
        let builder = self.0.get_or_insert_with(|| B::sized(rows, value));
        builder.append_nulls(row - builder.len());
        builder.append_value(value);
    }

    /// The column with this number of rows, or `None` if no row has a value.
    pub(crate) fn finish(self, rows: usize) -> Option<ArrayRef> {
        let mut builder = self.0?;
        builder.append_nulls(rows - builder.len());
        Some(builder.finish())
    }
}

/// Columns in which no row has a value. Those of one type share one array.
pub(crate) struct NullColumns {
    rows: usize,
    text: Option<ArrayRef>,
}

impl NullColumns {
    pub(crate) fn new(rows: usize) -> Self {
        Self { rows, text: None }
    }

    /// A column of text.
    pub(crate) fn text(&mut self) -> ArrayRef {
        let rows = self.rows;
        let make = || Arc::new(StringArray::new_null(rows)) as ArrayRef;
        Arc::clone(self.text.get_or_insert_with(make))
    }

    /// A column of times.
    pub(crate) fn times(&self) -> ArrayRef {
        self.of(&DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())))
    }

    /// A column of durations.
    pub(crate) fn durations(&self) -> ArrayRef {
        self.of(&DataType::Duration(TimeUnit::Microsecond))
    }

    /// A column of another type.
    pub(crate) fn of(&self, data_type: &DataType) -> ArrayRef {
        new_null_array(data_type, self.rows)
    }
}
