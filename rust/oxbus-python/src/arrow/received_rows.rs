// SPDX-License-Identifier: Apache-2.0
//! Received messages and their table. The next call may take them with other columns, if the call that received them
//! was cancelled.

use arrow_array::RecordBatch;
use oxbus_arrow::ColumnSelection;
use oxbus_broker::client::Deliveries;
use pyo3::prelude::*;

use super::capsule::ArrowTable;
use super::columns::_Columns;
use crate::error::OrRaise;
use crate::shared_receiver::SharedReceiver;

/// Received messages and their table.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct _ReceivedRows {
    receiver: Py<SharedReceiver>,
    deliveries: Deliveries,
    columns: ColumnSelection,
    table: RecordBatch,
}

impl _ReceivedRows {
    pub(crate) fn new(
        receiver: &Py<SharedReceiver>,
        deliveries: Deliveries,
        columns: &_Columns,
        py: Python<'_>,
    ) -> PyResult<Self> {
        let columns = columns.0;
        let shared = receiver.get().receiver()?;
        let table = py
            .detach(|| oxbus_arrow::table(columns, shared, &deliveries))
            .or_raise()?;
        Ok(Self {
            receiver: receiver.clone_ref(py),
            deliveries,
            columns,
            table,
        })
    }
}

#[pymethods]
impl _ReceivedRows {
    fn __len__(&self) -> usize {
        self.deliveries.len()
    }

    /// The table with these columns.
    fn table(&self, py: Python<'_>, columns: &_Columns) -> PyResult<ArrowTable> {
        if columns.0 == self.columns {
            return Ok(ArrowTable::of(self.table.clone()));
        }
        let receiver = self.receiver.get().receiver()?;
        super::table(py, columns.0, receiver, &self.deliveries)
    }
}
