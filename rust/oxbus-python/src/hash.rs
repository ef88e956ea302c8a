// SPDX-License-Identifier: Apache-2.0
//! `partition_id` and `partition_ids`.

use oxbus_model::hash::partition_of;
use oxbus_model::options::in_range;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::arrow::{self, ArrowArray};
use crate::error::OrRaise;

/// The maximum number of partitions that a partition id can number.
const PARTITIONS_OF_AN_ID_MAX: u64 = u16::MAX as u64;

fn check_partitions(partitions: i64) -> PyResult<u32> {
    let count = u64::try_from(partitions).unwrap_or(0);
    in_range("partitions", count, 1, PARTITIONS_OF_AN_ID_MAX, "partitions").or_raise()?;
    Ok(count as u32)
}

/// Returns the partition of a key of type str or bytes, and `None` for a null key.
fn partition_of_object(key: &Bound<'_, PyAny>, partitions: u32) -> PyResult<Option<i32>> {
    let id = if let Ok(text) = key.cast::<PyString>() {
        partition_of(text.to_str()?.as_bytes(), partitions)
    } else if let Ok(bytes) = key.cast::<PyBytes>() {
        partition_of(bytes.as_bytes(), partitions)
    } else if key.is_none() {
        return Ok(None);
    } else {
        let detail = format!(
            "a key must be str or bytes; convert it first, to the type that other readers see: {}",
            key.get_type().name()?
        );
        return Err(PyTypeError::new_err(detail));
    };
    Ok(Some(id as i32))
}

/// See the stub.
#[pyfunction]
#[pyo3(signature = (key, partitions=16))]
pub(crate) fn partition_id(key: &Bound<'_, PyAny>, partitions: i64) -> PyResult<i32> {
    let partitions = check_partitions(partitions)?;
    partition_of_object(key, partitions)?
        .ok_or_else(|| PyTypeError::new_err("a key must be str or bytes; a null key has no partition"))
}

/// See the stub.
#[pyfunction]
#[pyo3(signature = (keys, partitions=16))]
pub(crate) fn partition_ids(keys: &Bound<'_, PyAny>, partitions: i64) -> PyResult<ArrowArray> {
    let partitions = check_partitions(partitions)?;
    if let Some(arrays) = arrow::keys(keys)? {
        return keys.py().detach(|| arrow::partition_ids(&arrays, partitions));
    }
    if keys.cast::<PyString>().is_ok() || keys.cast::<PyBytes>().is_ok() {
        return Err(PyTypeError::new_err(
            "keys must be a collection; use partition_id for one key",
        ));
    }
    let objects = keys
        .try_iter()
        .map_err(|_| PyTypeError::new_err("keys must be an Arrow array, a list or a numpy array"))?;
    let mut ids = Vec::with_capacity(keys.len().unwrap_or(0));
    for key in objects {
        ids.push(partition_of_object(&key?, partitions)?);
    }
    Ok(ArrowArray::of_ids(ids))
}
