// SPDX-License-Identifier: Apache-2.0
//! Makes the senders and receivers of a namespace, in this process or on a server.

use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_broker::ReceiverOptions;
use oxbus_broker::client::SessionSelector;
use oxbus_model::PartitionId;
use oxbus_model::options::ReceiveMode;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::clock::ManualClock;
use crate::fork::ProcessLocal;
use crate::receiver::ServiceBusReceiver;
use crate::sender::ServiceBusSender;
use crate::transport::NamespaceTransport;
use crate::{convert, options};

/// Makes the handles of a namespace.
pub(crate) struct Handles {
    namespace: ProcessLocal<NamespaceTransport>,
    made: AtomicU64,
    /// The manual clock of the namespace, if it has one.
    clock: Option<Py<ManualClock>>,
}

/// The options of a receiver, by their names in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ReceiverArguments {
    sub_queue: Option<String>,
    receive_mode: String,
    max_wait_time: Option<f64>,
    prefetch_count: i64,
    auto_lock_renewer: Option<Py<PyAny>>,
    lock_policy: Option<String>,
    partition_id: Option<i64>,
    client_identifier: Option<String>,
    #[pyo3(default)]
    session: Option<(Option<String>,)>,
}

/// Converts a partition id. An impossible id becomes `u16::MAX`, which the later lookup rejects with the valid range.
pub(crate) fn partition(partition_id: i64) -> PartitionId {
    PartitionId(u16::try_from(partition_id).unwrap_or(u16::MAX))
}

impl Handles {
    pub(crate) fn new(namespace: ProcessLocal<NamespaceTransport>, clock: Option<Py<ManualClock>>) -> Self {
        Self {
            namespace,
            made: AtomicU64::new(0),
            clock,
        }
    }

    pub(crate) fn sender(&self, path: String, client_identifier: Option<String>) -> PyResult<ServiceBusSender> {
        let identifier = self.identifier(client_identifier, "sender");
        Ok(ServiceBusSender::new(self.share()?, path, identifier))
    }

    pub(crate) fn receiver(
        &self,
        py: Python<'_>,
        path: String,
        arguments: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ServiceBusReceiver> {
        let none = PyDict::new(py);
        let given: ReceiverArguments = arguments.unwrap_or(&none).extract()?;
        let mode = options::receive_mode(&given.receive_mode)?;
        if let Some(seconds) = given.max_wait_time {
            convert::duration("max_wait_time", seconds)?;
        }
        if mode == ReceiveMode::ReceiveAndDelete && given.auto_lock_renewer.is_some() && given.session.is_none() {
            return Err(PyValueError::new_err(
                "a receiver in RECEIVE_AND_DELETE mode has no locks to renew; leave auto_lock_renewer out",
            ));
        }
        let (sub_queue, transfer) = options::received_sub_queue(given.sub_queue.as_deref())?;
        let options = ReceiverOptions {
            sub_queue,
            transfer,
            mode,
            prefetch: options::prefetch(given.prefetch_count)?,
            lock_policy: given.lock_policy.as_deref().map(options::lock_policy).transpose()?,
            partition: given.partition_id.map(partition),
        };
        let session = given.session;
        Ok(ServiceBusReceiver::new(
            self.share()?,
            path,
            self.identifier(given.client_identifier, "receiver"),
            options,
            given.max_wait_time,
            given.auto_lock_renewer,
            session.map(|(session_id,)| session_id.map_or(SessionSelector::Next, SessionSelector::Id)),
        )
        .with_clock(self.clock.as_ref().map(|clock| clock.clone_ref(py))))
    }

    fn identifier(&self, given: Option<String>, kind: &str) -> String {
        given.unwrap_or_else(|| format!("{kind}-{}", self.made.fetch_add(1, Ordering::Relaxed) + 1))
    }

    fn share(&self) -> PyResult<ProcessLocal<NamespaceTransport>> {
        Ok(self.namespace.sibling(self.namespace.get()?.clone()))
    }
}
