// SPDX-License-Identifier: Apache-2.0
//! Import and export of arrays through the Arrow C data interface.
//!
//! Capsule names and life cycle follow the Arrow `PyCapsule` interface. An importer moves the structure out of the
//! capsule and leaves a released one behind. The destructor of a capsule releases a structure that was never imported.

#![expect(unsafe_code, reason = "the C data interface uses raw pointers")]

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{Array, ArrayReader, ArrayRef, Int32Array, RecordBatch, RecordBatchIterator, make_array};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use oxbus_arrow::unreadable;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use crate::error::raise;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
pub(super) const STREAM: &CStr = c"arrow_array_stream";

/// Imported arrays of one type.
pub(crate) struct ImportedArrays {
    pub(crate) data_type: DataType,
    pub(crate) chunks: Vec<ArrayRef>,
}

pub(super) fn arrow_error(error: ArrowError) -> PyErr {
    raise(&unreadable(error))
}

/// Imports the arrays of an object. Returns `None` if it exports neither an Arrow array nor a stream.
pub(crate) fn import(object: &Bound<'_, PyAny>) -> PyResult<Option<ImportedArrays>> {
    if object.hasattr("__arrow_c_array__")? {
        let pair = object.call_method0("__arrow_c_array__")?;
        let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = pair.extract()?;
        let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
        let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
        // SAFETY: the capsules bear the names that the interface gives to initialised structures of these types, and
        // both live until the end of this function. The array is moved out, which leaves a released one in its
        // capsule.
        let data = unsafe { from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
        let array = make_array(data.map_err(arrow_error)?);
        return Ok(Some(ImportedArrays {
            data_type: array.data_type().clone(),
            chunks: vec![array],
        }));
    }
    if object.hasattr("__arrow_c_stream__")? {
        let capsule: Bound<'_, PyCapsule> = object.call_method0("__arrow_c_stream__")?.extract()?;
        let stream = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
        // SAFETY: the capsule bears the name that the interface gives to an initialised stream, and lives until the
        // end of this function. The stream is moved out, which leaves a released one in its capsule.
        let reader = unsafe { ArrayStreamReader::from_raw(stream.as_ptr()) }.map_err(arrow_error)?;
        let data_type = reader.field().data_type().clone();
        let chunks = reader
            .collect::<Result<Vec<ArrayRef>, ArrowError>>()
            .map_err(arrow_error)?;
        return Ok(Some(ImportedArrays { data_type, chunks }));
    }
    Ok(None)
}

/// Imports the stream of an object without reading it. Returns `None` if it exports none.
pub(super) fn import_stream(object: &Bound<'_, PyAny>) -> PyResult<Option<RecordBatchStreamReader>> {
    if !object.hasattr("__arrow_c_stream__")? {
        return Ok(None);
    }
    let capsule: Bound<'_, PyCapsule> = object.call_method0("__arrow_c_stream__")?.extract()?;
    let stream = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: the capsule bears the name that the interface gives to an initialised stream, and lives until the end of
    // this function. The stream is moved out, which leaves a released one in its capsule.
    let reader = unsafe { RecordBatchStreamReader::from_raw(stream.as_ptr()) };
    reader.map(Some).map_err(arrow_error)
}

/// An Arrow array of partition ids.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct ArrowArray(Int32Array);

impl ArrowArray {
    pub(crate) fn new(ids: Int32Array) -> Self {
        Self(ids)
    }

    pub(crate) fn of_ids(ids: Vec<Option<i32>>) -> Self {
        Self(Int32Array::from(ids))
    }
}

#[pymethods]
impl ArrowArray {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.0.iter().collect::<Vec<Option<i32>>>())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // The interface allows a producer to ignore the requested type.
        let _ = requested_schema;
        let (array, schema) = to_ffi(&self.0.to_data()).map_err(arrow_error)?;
        Ok((
            PyCapsule::new_with_value(py, schema, SCHEMA)?,
            PyCapsule::new_with_value(py, array, ARRAY)?,
        ))
    }

    fn __repr__(&self) -> String {
        format!("ArrowArray(int32, length={})", self.0.len())
    }
}

/// Messages as Arrow columns.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct ArrowTable {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl ArrowTable {
    pub(crate) fn of(batch: RecordBatch) -> Self {
        Self {
            schema: batch.schema(),
            batches: vec![batch],
        }
    }

    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    pub(super) fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

#[pymethods]
impl ArrowTable {
    fn __len__(&self) -> usize {
        self.rows()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let reader = RecordBatchIterator::new(self.batches.clone().into_iter().map(Ok), Arc::clone(&self.schema));
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
    }

    fn __repr__(&self) -> String {
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        format!("ArrowTable(rows={}, columns=[{}])", self.rows(), names.join(", "))
    }
}
