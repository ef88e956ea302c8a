// SPDX-License-Identifier: Apache-2.0
//! Columns of text, bytes and times of several Arrow types, read row by row without copies.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, Int64Array, LargeBinaryArray,
    LargeStringArray, MapArray, StringArray, StringViewArray,
};
use arrow_schema::{DataType, TimeUnit};
use oxbus_model::{Error, ErrorKind, Result};
use std::ops::Range;

/// A column of bytes or text.
pub enum BytesColumn {
    /// Bytes.
    Binary(BinaryArray),
    /// Bytes with 64-bit offsets.
    LargeBinary(LargeBinaryArray),
    /// Bytes through views.
    BinaryView(BinaryViewArray),
    /// Bytes of one length.
    FixedSizeBinary(FixedSizeBinaryArray),
    /// Text.
    Text(StringArray),
    /// Text with 64-bit offsets.
    LargeText(LargeStringArray),
    /// Text through views.
    TextView(StringViewArray),
    /// Keys, the dictionary array, and its values.
    Dictionary(Vec<usize>, ArrayRef, Box<BytesColumn>),
}

/// The content that a column may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ColumnContent {
    /// Text only.
    Text,
    /// Bytes, or text as its bytes.
    BytesOrText,
}

impl BytesColumn {
    /// The column, or `None` if its type does not have this content.
    pub fn new(array: &ArrayRef, kind: ColumnContent) -> Option<Self> {
        let bytes = kind == ColumnContent::BytesOrText;
        Some(match array.data_type() {
            DataType::Utf8 => Self::Text(array.as_string::<i32>().clone()),
            DataType::LargeUtf8 => Self::LargeText(array.as_string::<i64>().clone()),
            DataType::Utf8View => Self::TextView(array.as_string_view().clone()),
            DataType::Binary if bytes => Self::Binary(array.as_binary::<i32>().clone()),
            DataType::LargeBinary if bytes => Self::LargeBinary(array.as_binary::<i64>().clone()),
            DataType::BinaryView if bytes => Self::BinaryView(array.as_binary_view().clone()),
            DataType::FixedSizeBinary(_) if bytes => Self::FixedSizeBinary(array.as_fixed_size_binary().clone()),
            DataType::Dictionary(_, _) => {
                let dictionary = array.as_any_dictionary();
                let values = Self::new(dictionary.values(), kind)?;
                // Without values every key is null, so `get` reads no key.
                let keys = if dictionary.values().is_empty() {
                    Vec::new()
                } else {
                    dictionary.normalized_keys()
                };
                Self::Dictionary(keys, array.clone(), Box::new(values))
            }
            _ => return None,
        })
    }

    /// The bytes of a row, or `None` for null.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        macro_rules! of {
            ($array:expr) => {
                $array.is_valid(row).then(|| $array.value(row).as_ref())
            };
        }
        match self {
            Self::Binary(array) => of!(array),
            Self::LargeBinary(array) => of!(array),
            Self::BinaryView(array) => of!(array),
            Self::FixedSizeBinary(array) => of!(array),
            Self::Text(array) => of!(array),
            Self::LargeText(array) => of!(array),
            Self::TextView(array) => of!(array),
            Self::Dictionary(keys, array, values) => array.is_valid(row).then(|| values.get(keys[row])).flatten(),
        }
    }

    /// Calls `each` with the number and the bytes, or `None` for null, of each row of a range, until it fails.
    #[inline]
    pub(crate) fn try_each(
        &self,
        rows: Range<usize>,
        mut each: impl FnMut(usize, Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        macro_rules! of {
            ($array:expr) => {
                for row in rows {
                    each(row, $array.is_valid(row).then(|| $array.value(row).as_ref()))?;
                }
            };
        }
        match self {
            Self::Binary(array) => of!(array),
            Self::LargeBinary(array) => of!(array),
            Self::BinaryView(array) => of!(array),
            Self::Text(array) => of!(array),
            other => {
                for row in rows {
                    each(row, other.get(row))?;
                }
            }
        }
        Ok(())
    }

    /// The text of a row of a text column, or `None` for null.
    #[inline]
    pub fn text(&self, row: usize) -> Option<&str> {
        macro_rules! of {
            ($array:expr) => {
                $array.is_valid(row).then(|| $array.value(row))
            };
        }
        match self {
            Self::Text(array) => of!(array),
            Self::LargeText(array) => of!(array),
            Self::TextView(array) => of!(array),
            Self::Dictionary(keys, array, values) => array.is_valid(row).then(|| values.text(keys[row])).flatten(),
            Self::Binary(_) | Self::LargeBinary(_) | Self::BinaryView(_) | Self::FixedSizeBinary(_) => None,
        }
    }
}

/// A column of timestamps or durations.
pub(crate) struct TimeColumn {
    values: Int64Array,
    per_ms: (i64, i64),
}

impl TimeColumn {
    /// A column of durations if `durations` is true, else of timestamps. Returns `None` for any other type.
    pub(crate) fn new(array: &ArrayRef, durations: bool) -> Option<Self> {
        let unit = match (array.data_type(), durations) {
            (DataType::Timestamp(unit, _), false) | (DataType::Duration(unit), true) => *unit,
            _ => return None,
        };
        macro_rules! values {
            ($timestamp:ty, $duration:ty) => {
                if durations {
                    array.as_primitive::<$duration>().reinterpret_cast::<Int64Type>()
                } else {
                    array.as_primitive::<$timestamp>().reinterpret_cast::<Int64Type>()
                }
            };
        }
        // Factor and divisor from values to milliseconds.
        let (values, per_ms) = match unit {
            TimeUnit::Second => (values!(TimestampSecondType, DurationSecondType), (1000, 1)),
            TimeUnit::Millisecond => (values!(TimestampMillisecondType, DurationMillisecondType), (1, 1)),
            TimeUnit::Microsecond => (values!(TimestampMicrosecondType, DurationMicrosecondType), (1, 1000)),
            TimeUnit::Nanosecond => (values!(TimestampNanosecondType, DurationNanosecondType), (1, 1_000_000)),
        };
        Some(Self { values, per_ms })
    }

    /// The milliseconds of a row, or `None` for null.
    pub(crate) fn ms(&self, row: usize) -> Option<i64> {
        let (times, divided) = self.per_ms;
        self.values
            .is_valid(row)
            .then(|| self.values.value(row).saturating_mul(times).div_euclid(divided))
    }
}

/// A column of maps from text to text.
pub(crate) struct TextMapColumn {
    map: MapArray,
    keys: BytesColumn,
    values: BytesColumn,
}

impl TextMapColumn {
    /// The column, or `None` if it does not have maps from text to text.
    pub(crate) fn new(array: &ArrayRef) -> Option<Self> {
        let map = array.as_map_opt()?.clone();
        let keys = BytesColumn::new(map.keys(), ColumnContent::Text)?;
        let values = BytesColumn::new(map.values(), ColumnContent::Text)?;
        Some(Self { map, keys, values })
    }

    /// The entries of a row, or `None` for null.
    pub(crate) fn entries(&self, row: usize) -> Option<impl Iterator<Item = (&str, Option<&str>)>> {
        if !self.map.is_valid(row) {
            return None;
        }
        let offsets = self.map.value_offsets();
        let range = offsets[row] as usize..offsets[row + 1] as usize;
        Some(range.map(|entry| (self.keys.text(entry).unwrap_or(""), self.values.text(entry))))
    }
}

/// The error of a column of the wrong type.
pub(crate) fn wrong_type(name: &str, expected: &str, got: &DataType) -> Error {
    let detail = format!("column `{name}` has the wrong type; use {expected}: {got}");
    Error::new(ErrorKind::InvalidArgument, detail)
}
