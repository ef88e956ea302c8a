// SPDX-License-Identifier: Apache-2.0
//! `_Pages`: a stream of tables that a Python iterator yields, one at a time, as Arrow's C stream.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyIterator};

use super::capsule::{ArrowTable, STREAM};

/// The pages of a scan. The stream reads the next page when its reader asks for more rows.
struct PageReader {
    schema: SchemaRef,
    pending: VecDeque<RecordBatch>,
    pages: Py<PyIterator>,
}

impl PageReader {
    fn next_page(&self) -> PyResult<Option<Vec<RecordBatch>>> {
        Python::attach(|py| {
            let Some(page) = self.pages.bind(py).clone().next().transpose()? else {
                return Ok(None);
            };
            let page: PyRef<'_, ArrowTable> = page.extract()?;
            Ok(Some(page.batches().to_vec()))
        })
    }
}

impl Iterator for PageReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.pending.pop_front() {
                return Some(Ok(batch));
            }
            match self.next_page() {
                Ok(Some(batches)) => self.pending.extend(batches),
                Ok(None) => return None,
                Err(error) => return Some(Err(ArrowError::ExternalError(error.to_string().into()))),
            }
        }
    }
}

impl RecordBatchReader for PageReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Returns the stream of a first page and those that follow, as a capsule of Arrow's C stream interface.
#[pyfunction]
pub(crate) fn _page_stream<'py>(
    py: Python<'py>,
    first: &ArrowTable,
    rest: Bound<'py, PyIterator>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let reader = PageReader {
        schema: first.schema(),
        pending: first.batches().iter().cloned().collect(),
        pages: rest.unbind(),
    };
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
}
