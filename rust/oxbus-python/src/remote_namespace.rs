// SPDX-License-Identifier: Apache-2.0
//! `_RemoteNamespace`: the namespace of a server, with the methods of `Namespace` that clients for messages call.

use oxbus_model::Timestamp;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::fork::ProcessLocal;
use crate::handles::Handles;
use crate::receiver::ServiceBusReceiver;
use crate::remote::{RemoteNamespace, RemoteOptions};
use crate::sender::ServiceBusSender;
use crate::transaction::Transaction;
use crate::transport::{NamespaceTransport, TransactionTransport};

/// A namespace of a server.
#[pyclass(frozen, module = "oxbus", weakref)]
pub(crate) struct _RemoteNamespace {
    namespace: ProcessLocal<RemoteNamespace>,
    handles: Handles,
}

#[pymethods]
impl _RemoteNamespace {
    #[new]
    fn new(options: RemoteOptions) -> PyResult<Self> {
        let namespace = RemoteNamespace::new(options)?;
        Ok(Self {
            handles: Handles::new(ProcessLocal::new(NamespaceTransport::Remote(namespace.clone())), None),
            namespace: ProcessLocal::new(namespace),
        })
    }

    /// True: calls wait for the network.
    #[getter]
    fn _may_wait(&self) -> bool {
        true
    }

    #[pyo3(signature = (entity_path, client_identifier=None))]
    fn _sender(&self, entity_path: String, client_identifier: Option<String>) -> PyResult<ServiceBusSender> {
        self.handles.sender(entity_path, client_identifier)
    }

    /// The options are those of `Handles::receiver`.
    #[pyo3(signature = (entity_path, **options))]
    fn _receiver(
        &self,
        py: Python<'_>,
        entity_path: String,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ServiceBusReceiver> {
        self.handles.receiver(py, entity_path, options)
    }

    fn _transaction(&self, py: Python<'_>, cross_entity: bool) -> PyResult<Transaction> {
        let begun = self.namespace.get()?.transaction(py, cross_entity)?;
        Ok(Transaction::new(
            self.namespace.sibling(TransactionTransport::Remote(begun)),
        ))
    }

    /// The ids of the sessions of an entity: all, or those whose state was set after a time in milliseconds.
    fn _session_ids(
        &self,
        py: Python<'_>,
        entity_path: &str,
        updated_since_ms: Option<u64>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<String>> {
        let since = updated_since_ms.map(Timestamp);
        self.namespace.get()?.session_ids(py, entity_path, since, timeout)
    }

    /// Closes the connection. In a forked process it belongs to the parent.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.namespace.if_same_process() {
            Some(namespace) => namespace.close(py),
            None => Ok(()),
        }
    }
}
