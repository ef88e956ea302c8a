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
use crate::remote::RemoteMessage;
use crate::shared_receiver::SharedReceiver;
use crate::transport::ReceiverTransport;

/// Received messages and their table.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct _ReceivedRows {
    receiver: Py<SharedReceiver>,
    messages: ReceivedMessages,
    columns: ColumnSelection,
    table: RecordBatch,
}

enum ReceivedMessages {
    Local(Deliveries),
    Remote(Vec<RemoteMessage>),
}

impl ReceivedMessages {
    fn table(&self, py: Python<'_>, receiver: &Py<SharedReceiver>, columns: ColumnSelection) -> PyResult<RecordBatch> {
        let receiver = receiver.get().receiver()?;
        let table = py.detach(|| match (self, receiver) {
            (Self::Local(deliveries), ReceiverTransport::Local(receiver)) => {
                oxbus_arrow::table(columns, receiver, deliveries)
            }
            (Self::Local(_), ReceiverTransport::Remote(_)) => unreachable!("a server gives no deliveries"),
            (Self::Remote(messages), _) => {
                let rows: Vec<_> = messages.iter().map(RemoteMessage::row).collect();
                oxbus_arrow::remote_table(columns, &rows)
            }
        });
        table.or_raise()
    }
}

impl _ReceivedRows {
    pub(crate) fn new(
        receiver: &Py<SharedReceiver>,
        deliveries: Deliveries,
        columns: &_Columns,
        py: Python<'_>,
    ) -> PyResult<Self> {
        Self::of(py, receiver, ReceivedMessages::Local(deliveries), columns)
    }

    pub(crate) fn of_remote(
        receiver: &Py<SharedReceiver>,
        messages: Vec<RemoteMessage>,
        columns: &_Columns,
        py: Python<'_>,
    ) -> PyResult<Self> {
        Self::of(py, receiver, ReceivedMessages::Remote(messages), columns)
    }

    fn of(
        py: Python<'_>,
        receiver: &Py<SharedReceiver>,
        messages: ReceivedMessages,
        columns: &_Columns,
    ) -> PyResult<Self> {
        let columns = columns.0;
        Ok(Self {
            table: messages.table(py, receiver, columns)?,
            receiver: receiver.clone_ref(py),
            messages,
            columns,
        })
    }
}

#[pymethods]
impl _ReceivedRows {
    fn __len__(&self) -> usize {
        match &self.messages {
            ReceivedMessages::Local(deliveries) => deliveries.len(),
            ReceivedMessages::Remote(messages) => messages.len(),
        }
    }

    /// The table with these columns.
    fn table(&self, py: Python<'_>, columns: &_Columns) -> PyResult<ArrowTable> {
        if columns.0 == self.columns {
            return Ok(ArrowTable::of(self.table.clone()));
        }
        Ok(ArrowTable::of(self.messages.table(py, &self.receiver, columns.0)?))
    }
}
