// SPDX-License-Identifier: Apache-2.0
//! `send_arrow`: sends the rows of a table as messages.

use arrow_array::cast::AsArray;
use arrow_schema::DataType;
use oxbus_arrow::{InputColumns, RowSendError, RowSender, SendReport, StageBuilder};
use oxbus_broker::{Sender, Stages};
use oxbus_model::Result;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use super::capsule::import;
use crate::error::{OrRaise, exception_with, raise};
use crate::ids;
use crate::waiting;

/// Reads the columns of an Arrow object.
pub(crate) fn read(data: &Bound<'_, PyAny>) -> PyResult<Vec<InputColumns>> {
    let Some(imported) = import(data)? else {
        let name = data.get_type().name()?;
        return Err(pyo3::exceptions::PyTypeError::new_err(format!(
            "send_arrow takes Arrow data: a table or batch of pyarrow, polars or pandas, or any object with __arrow_c_stream__: {name}"
        )));
    };
    if !matches!(imported.data_type, DataType::Struct(_)) {
        return Err(PyValueError::new_err(format!(
            "send_arrow takes a table with named columns: {}",
            imported.data_type
        )));
    }
    let mut chunks = Vec::with_capacity(imported.chunks.len());
    for chunk in &imported.chunks {
        chunks.push(InputColumns::read(chunk.as_struct()).or_raise()?);
    }
    Ok(chunks)
}

/// Sends the rows of an Arrow object. Returns the number of rows stored per partition id.
pub(crate) fn send<'py>(sender: &Sender, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = data.py();
    let chunks = read(data)?;
    let sent = waiting::run_detached(py, |wait| encode(sender, &chunks).map(|rows| rows.send(wait)))?;
    finish_send(py, sent)
}

/// Returns the number of rows stored per partition id, or raises the error of the others.
pub(crate) fn finish_send(py: Python<'_>, sent: Result<SendReport>) -> PyResult<Bound<'_, PyDict>> {
    sent.or_raise()?
        .outcome()
        .map_or_else(|failed| Err(not_sent(py, failed)), |stored| stored.into_py_dict(py))
}

/// The exception for a send that did not store all rows.
pub(crate) fn not_sent(py: Python<'_>, failed: RowSendError) -> PyErr {
    match failed {
        RowSendError::NothingStored(error) => raise(&error),
        RowSendError::PartlyStored {
            detail,
            effect,
            rows,
            stored,
        } => exception_with("PartialSendError", &detail, Some(effect), &[], |keywords| {
            keywords.set_item("rows", rows)?;
            keywords.set_item("partitions", stored.into_py_dict(py)?)
        }),
    }
}

/// Checks and encodes rows.
pub(crate) fn encode<'a>(sender: &'a Sender, chunks: &[InputColumns]) -> Result<RowSender<&'a Sender>> {
    let mut rows = RowSender::new(sender, ids::first_of)?;
    for chunk in chunks {
        rows.push(chunk)?;
    }
    Ok(rows)
}

/// Stages the rows of an Arrow object under an id and returns their number.
pub(crate) fn stage(stages: &Stages, entity: &str, id: &str, data: &Bound<'_, PyAny>) -> PyResult<u64> {
    let chunks = read(data)?;
    let staged = waiting::run_detached(data.py(), |_| {
        let mut stage = StageBuilder::new(stages.begin(entity, id)?, ids::first_of);
        for chunk in &chunks {
            stage.push(chunk)?;
        }
        stage.finish()
    });
    staged?.or_raise()
}
