// SPDX-License-Identifier: Apache-2.0
//! The namespace of a server.

use oxbus_client::{Client, ReceiverOptions, SessionChoice};
use oxbus_model::name::SubQueue;
use oxbus_model::options::LockPolicy;
use oxbus_model::{Error, ErrorKind, Timestamp};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::call;
use super::error::raise;
use super::options::RemoteOptions;
use super::receiver::{RemoteAcceptor, RemoteReceiver};
use super::sender::RemoteSender;
use super::transaction::RemoteTransaction;
use crate::fork::ProcessLocal;
use crate::handles::Handles;
use crate::receiver::ServiceBusReceiver;
use crate::sender::ServiceBusSender;
use crate::transaction::Transaction;
use crate::transport::{NamespaceTransport, TransactionTransport};

/// The connection to a server, of which handles are made.
#[derive(Clone)]
pub(crate) struct RemoteNamespace {
    client: Client,
}

impl RemoteNamespace {
    pub(crate) fn sender(&self, path: &str) -> RemoteSender {
        RemoteSender::new(self.client.clone(), path)
    }

    pub(crate) fn receiver(
        &self,
        path: &str,
        options: oxbus_broker::ReceiverOptions,
        owner: &str,
    ) -> oxbus_model::Result<RemoteReceiver> {
        let receiver = self
            .client
            .receiver(of_sub_queue(path, options), of_client(options, owner)?);
        Ok(RemoteReceiver::new(receiver, options.mode))
    }

    pub(crate) fn acceptor(
        &self,
        path: &str,
        selector: oxbus_broker::client::SessionSelector,
        options: oxbus_broker::ReceiverOptions,
        owner: &str,
    ) -> oxbus_model::Result<RemoteAcceptor> {
        use oxbus_broker::client::SessionSelector;
        Ok(RemoteAcceptor {
            client: self.client.clone(),
            path: of_sub_queue(path, options),
            options: of_client(options, owner)?,
            choice: match selector {
                SessionSelector::Id(id) => SessionChoice::Id(id),
                SessionSelector::Next => SessionChoice::Next,
            },
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        call::now()
    }
}

/// The path of a queue or of one of its sub-queues.
fn of_sub_queue(path: &str, options: oxbus_broker::ReceiverOptions) -> String {
    match (options.sub_queue, options.transfer) {
        (_, true) => format!("{path}/$Transfer/$DeadLetterQueue"),
        (SubQueue::DeadLetter, false) => format!("{path}/$DeadLetterQueue"),
        (SubQueue::Main, false) => path.to_owned(),
    }
}

/// The options of a receiver, as far as servers have them.
fn of_client(options: oxbus_broker::ReceiverOptions, owner: &str) -> oxbus_model::Result<ReceiverOptions> {
    let only_local = |what: &str| {
        let detail = format!("{what} works only on a namespace of this process; leave it out");
        Err(Error::new(ErrorKind::NotSupported, detail))
    };
    if options.partition.is_some() {
        return only_local("partition_id");
    }
    if options.lock_policy == Some(LockPolicy::Fresh) {
        return only_local("lock_policy=\"fresh\"");
    }
    Ok(ReceiverOptions {
        mode: options.mode,
        prefetch: u32::try_from(options.prefetch).unwrap_or(u32::MAX),
        name: Some(owner.to_owned()),
    })
}

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
        let client = Client::new(options.build()?).map_err(|error| raise(&error))?;
        let namespace = RemoteNamespace { client };
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
        let begun = RemoteTransaction::begin(py, &self.namespace.get()?.client, cross_entity)?;
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
        let deadline = call::deadline("timeout", timeout)?;
        let management = self.namespace.get()?.client.management(entity_path);
        call::run(py, management.list_sessions(updated_since_ms.map(Timestamp), deadline))
    }

    /// Closes the connection. In a forked process it belongs to the parent.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(namespace) = self.namespace.if_same_process() else {
            return Ok(());
        };
        call::run(py, async {
            namespace.client.close().await;
            Ok(())
        })
    }
}
