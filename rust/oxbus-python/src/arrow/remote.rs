// SPDX-License-Identifier: Apache-2.0
//! Tables of messages from a server, and rows sent to one. They travel as ordinary messages.

use std::collections::BTreeMap;

use oxbus_arrow::{ColumnSelection, InputColumns, RemoteRow, RowSendError, each_row, remote_table};
use oxbus_model::message::Fields;
use oxbus_model::{Effect, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::capsule::ArrowTable;
use super::send::{not_sent, read};
use crate::error::OrRaise;
use crate::ids;
use crate::remote::{RemoteMessage, RemoteSender, Rows, RowsSent};

/// Messages from a server as columns.
pub(crate) fn table_of_remote(
    py: Python<'_>,
    columns: ColumnSelection,
    messages: &[RemoteMessage],
) -> PyResult<ArrowTable> {
    let batch = py.detach(|| {
        let rows: Vec<RemoteRow<'_>> = messages.iter().map(RemoteMessage::row).collect();
        remote_table(columns, &rows)
    });
    Ok(ArrowTable::of(batch.or_raise()?))
}

/// Sends the rows of an Arrow object to a server. Returns their number under the key None: a server does not tell the
/// partitions.
pub(crate) fn send_to_remote<'py>(sender: &RemoteSender, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = data.py();
    let chunks = read(data)?;
    let limit = sender.batch_bytes_max(py)?;
    let rows = py.detach(|| encode(Rows::new(limit), &chunks)).or_raise()?;
    let RowsSent { not_stored, error } = sender.send_rows(py, &rows)?;
    let Some(error) = error else {
        let stored = PyDict::new(py);
        stored.set_item(py.None(), rows.len())?;
        return Ok(stored);
    };
    if not_stored.len() == rows.len() {
        return Err(error.raise());
    }
    let effect = match error.effect() {
        Some(Effect::Unknown) => Effect::Unknown,
        _ => Effect::Partial,
    };
    let detail = format!(
        "{} rows were not stored; send them again; the first error: {}",
        not_stored.len(),
        error.detail()
    );
    Err(not_sent(
        py,
        RowSendError::PartlyStored {
            detail,
            effect,
            rows: not_stored,
            stored: BTreeMap::new(),
        },
    ))
}

fn encode(mut rows: Rows, chunks: &[InputColumns]) -> Result<Rows> {
    for chunk in chunks {
        let number = rows.len();
        each_row(chunk, number, ids::first_of, |fields: &Fields<'_>| rows.push(fields))?;
    }
    Ok(rows)
}
