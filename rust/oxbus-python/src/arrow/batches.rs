// SPDX-License-Identifier: Apache-2.0
//! The rows of an Arrow object as a sequence of batches.

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{Array, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use oxbus_arrow::unreadable;
use oxbus_model::Result;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::capsule::{arrow_error, import, import_stream};

/// The batches of an Arrow object, read on demand.
pub(crate) enum Batches {
    /// A stream. Its `next` may run Python code.
    Stream(RecordBatchStreamReader),
    /// A single batch in memory.
    One(SchemaRef, Option<RecordBatch>),
}

impl Batches {
    /// Imports the batches of an object that exports an Arrow array or stream.
    pub(crate) fn of(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(stream) = import_stream(data)? {
            return Ok(Self::Stream(stream));
        }
        let Some(mut imported) = import(data)? else {
            let name = data.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "data must be Arrow data: a table, batch or reader of pyarrow, polars or pandas, or any object with \
                 __arrow_c_stream__: {name}"
            )));
        };
        if !matches!(imported.data_type, DataType::Struct(_)) {
            return Err(PyValueError::new_err(format!(
                "data must be a table with named columns: {}",
                imported.data_type
            )));
        }
        let array = imported.chunks.remove(0);
        let array = array.as_struct();
        if array.null_count() > 0 {
            return Err(arrow_error(ArrowError::CDataInterface(
                "a row of the table is null; drop it".to_owned(),
            )));
        }
        let batch = RecordBatch::from(array);
        Ok(Self::One(batch.schema(), Some(batch)))
    }

    /// The schema of all batches.
    pub(crate) fn schema(&self) -> SchemaRef {
        match self {
            Self::Stream(stream) => stream.schema(),
            Self::One(schema, _) => schema.clone(),
        }
    }

    /// The next batch.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self {
            Self::Stream(stream) => stream.next().transpose().map_err(unreadable),
            Self::One(_, batch) => Ok(batch.take()),
        }
    }
}
