// SPDX-License-Identifier: Apache-2.0
//! Partition ids of Arrow keys, read in place.

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{Array, ArrayRef, GenericByteArray, Int32Array};
use arrow_buffer::{ArrowNativeType, NullBuffer, NullBufferBuilder, ScalarBuffer};
use arrow_schema::DataType;
use oxbus_arrow::{BytesColumn, ColumnContent};
use oxbus_model::hash::partition_of;
use pyo3::prelude::*;

use super::capsule::{ArrowArray, import};

/// Returns the chunks of an Arrow object, and `None` for any other object.
pub(crate) fn keys(object: &Bound<'_, PyAny>) -> PyResult<Option<Vec<ArrayRef>>> {
    Ok(import(object)?.map(|imported| imported.chunks))
}

/// The partition of each key. A null key has a null partition.
pub(crate) fn partition_ids(chunks: &[ArrayRef], partitions: u32) -> PyResult<ArrowArray> {
    let rows = chunks.iter().map(Array::len).sum();
    let mut ids = Vec::with_capacity(rows);
    let mut nulls = NullBufferBuilder::new(rows);
    for chunk in chunks {
        match chunk.data_type() {
            DataType::Utf8 => hash(chunk.as_string::<i32>(), partitions, &mut ids),
            DataType::LargeUtf8 => hash(chunk.as_string::<i64>(), partitions, &mut ids),
            DataType::Binary => hash(chunk.as_binary::<i32>(), partitions, &mut ids),
            DataType::LargeBinary => hash(chunk.as_binary::<i64>(), partitions, &mut ids),
            DataType::Null => ids.extend(std::iter::repeat_n(0, chunk.len())),
            other => {
                let Some(column) = BytesColumn::new(chunk, ColumnContent::BytesOrText) else {
                    let detail = format!(
                        "keys must be strings or binaries; cast them first, to the type that other readers see: {other}"
                    );
                    return Err(pyo3::exceptions::PyTypeError::new_err(detail));
                };
                let id_of = |row| column.get(row).map_or(0, |key| partition_of(key, partitions) as i32);
                ids.extend((0..chunk.len()).map(id_of));
            }
        }
        match chunk.logical_nulls() {
            Some(chunk_nulls) => nulls.append_buffer(&chunk_nulls),
            None => nulls.append_n_non_nulls(chunk.len()),
        }
    }
    let nulls: Option<NullBuffer> = nulls.finish();
    Ok(ArrowArray::new(Int32Array::new(ScalarBuffer::from(ids), nulls)))
}

fn hash<T: ByteArrayType>(keys: &GenericByteArray<T>, partitions: u32, ids: &mut Vec<i32>) {
    let bytes = keys.value_data();
    let mut ends = keys.value_offsets().iter().map(|offset| offset.as_usize());
    let Some(mut start) = ends.next() else { return };
    // A null row may contain bytes. The null mask hides its hash.
    if partitions.is_power_of_two() {
        let mask = i64::from(partitions - 1);
        ids.extend(
            ends.map(|end| (oxbus_model::hash::hash(&bytes[std::mem::replace(&mut start, end)..end]) & mask) as i32),
        );
    } else {
        ids.extend(ends.map(|end| partition_of(&bytes[std::mem::replace(&mut start, end)..end], partitions) as i32));
    }
}
