// SPDX-License-Identifier: Apache-2.0
//! `receive_arrow` and `settle_arrow`: received messages as columns, and lock tokens read back from them.

use oxbus_arrow::{ColumnSelection, LockTokens};
use oxbus_broker::Receiver;
use oxbus_broker::client::Deliveries;
use oxbus_broker::entity::Entity;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::capsule::{ArrowTable, import};
use crate::error::OrRaise;

/// Received messages as columns.
pub(crate) fn table(
    py: Python<'_>,
    columns: ColumnSelection,
    receiver: &Receiver,
    deliveries: &Deliveries,
) -> PyResult<ArrowTable> {
    let batch = py.detach(|| oxbus_arrow::table(columns, receiver, deliveries));
    Ok(ArrowTable::of(batch.or_raise()?))
}

/// Messages of a reservation as columns.
pub(crate) fn reserved_table(queue: &Entity, messages: &Deliveries, with_bodies: bool) -> PyResult<ArrowTable> {
    let columns = ColumnSelection::default();
    let batch = oxbus_arrow::reserved_table(columns, queue, messages, with_bodies);
    Ok(ArrowTable::of(batch.or_raise()?))
}

/// Reads the lock tokens of a table.
pub(crate) fn lock_tokens(data: &Bound<'_, PyAny>) -> PyResult<LockTokens> {
    let Some(imported) = import(data)? else {
        return Err(PyValueError::new_err(
            "settle_arrow takes a table that receive_arrow returned, or rows of one",
        ));
    };
    oxbus_arrow::lock_tokens(&imported.data_type, &imported.chunks).or_raise()
}
