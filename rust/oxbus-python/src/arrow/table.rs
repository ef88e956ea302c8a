// SPDX-License-Identifier: Apache-2.0
//! `receive_arrow` and `settle_arrow`: received messages as columns, and lock tokens read back from them.

use oxbus_arrow::LockTokens;
use oxbus_broker::Receiver;
use oxbus_broker::client::Deliveries;
use oxbus_broker::entity::Entity;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::capsule::{ArrowTable, import};
use crate::error::OrRaise;

/// Received messages as columns.
pub(crate) fn table(receiver: &Receiver, deliveries: &Deliveries) -> PyResult<ArrowTable> {
    Ok(ArrowTable::of(oxbus_arrow::table(receiver, deliveries).or_raise()?))
}

/// Messages of a reservation as columns.
pub(crate) fn reserved_table(queue: &Entity, messages: &Deliveries, with_body: bool) -> PyResult<ArrowTable> {
    Ok(ArrowTable::of(
        oxbus_arrow::reserved_table(queue, messages, with_body).or_raise()?,
    ))
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
