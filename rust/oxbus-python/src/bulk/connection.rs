// SPDX-License-Identifier: Apache-2.0
//! The connection of a `BulkClient` to its server: one per process, waits that a signal ends, errors as exceptions.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oxbus_broker::SystemClock;
use oxbus_model::{Clock, Effect, Error, ErrorKind, Timestamp};
use oxbus_wire::client::{Client, Failure, Patience};
use oxbus_wire::{ConnectionString, Fault, FaultKind};
use pyo3::prelude::*;
use pyo3::types::IntoPyDict;

use crate::error::{OrRaise, exception, exception_with, raise, with_cause};
use crate::fork::ProcessLocal;
use crate::waiting;

/// The client of one process, and of the processes that are forked from it.
struct ProcessClient {
    client: ProcessLocal<Client>,
    /// That of a child: its parent's connections are the parent's.
    child: OnceLock<Box<Self>>,
}

/// What it takes to connect, and the connections.
pub(super) struct BulkConnection {
    connection_string: ConnectionString,
    ca_file: Option<String>,
    pub(super) timeout: Duration,
    first: ProcessClient,
    closed: AtomicBool,
}

fn now() -> Timestamp {
    SystemClock::new().now()
}

impl ProcessClient {
    fn new(connection_string: &ConnectionString, ca_file: Option<&str>) -> oxbus_model::Result<Self> {
        Ok(Self {
            client: ProcessLocal::new(Client::new(connection_string.clone(), ca_file, now)?),
            child: OnceLock::new(),
        })
    }
}

impl BulkConnection {
    pub(super) fn new(
        connection_string: &str,
        ca_file: Option<String>,
        timeout: Duration,
    ) -> oxbus_model::Result<Self> {
        let connection_string = ConnectionString::parse(connection_string)?;
        let first = ProcessClient::new(&connection_string, ca_file.as_deref())?;
        Ok(Self {
            connection_string,
            ca_file,
            timeout,
            first,
            closed: AtomicBool::new(false),
        })
    }

    pub(super) fn endpoint(&self) -> String {
        self.connection_string.endpoint()
    }

    /// The client of this process.
    pub(super) fn client(&self) -> PyResult<&Client> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(
                ErrorKind::Closed,
                "the client was closed; make a new BulkClient",
            ))
            .or_raise();
        }
        let mut current = &self.first;
        loop {
            if let Some(client) = current.client.if_same_process() {
                return Ok(client);
            }
            current = if let Some(child) = current.child.get() {
                child
            } else {
                let child = ProcessClient::new(&self.connection_string, self.ca_file.as_deref()).or_raise()?;
                current.child.get_or_init(|| Box::new(child))
            };
        }
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let mut current = Some(&self.first);
        while let Some(here) = current {
            if let Some(client) = here.client.if_same_process() {
                client.close_idle();
            }
            current = here.child.get().map(|child| &**child);
        }
    }

    /// Makes a call outside the interpreter. `extra` is what the server is asked to wait beyond the time of a call.
    pub(super) fn run<T: Send>(
        &self,
        py: Python<'_>,
        extra: Duration,
        work: impl FnOnce(&Client, &Patience<'_>) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        let client = self.client()?;
        let timeout = self.timeout.saturating_add(extra);
        let (done, signal) = waiting::run_network_call(py, |slice, is_cancelled| {
            let patience = Patience {
                timeout,
                slice: slice.min(timeout),
                wants_to_leave: is_cancelled,
            };
            work(client, &patience)
        })?;
        if let Some(signal) = signal.filter(|_| matches!(done, Err(Failure::Left))) {
            return Err(signal);
        }
        done.map_err(|failure| raise_failure(py, failure))
    }
}

/// The exception of a call that failed.
fn raise_failure(py: Python<'_>, failure: Failure) -> PyErr {
    match failure {
        Failure::Fault(fault) => raise_fault(py, fault),
        Failure::Here(error) => raise(&error),
        Failure::Connection(text, effect, source) => {
            let exception = exception_with("ServiceBusConnectionError", &text, effect, &[], |_| Ok(()));
            with_cause(exception, source.as_deref().map(|source| source as _))
        }
        Failure::Timeout(text, effect) => exception_with("OperationTimeoutError", &text, effect, &[], |_| Ok(())),
        Failure::Left => {
            let text = "the interpreter is exiting";
            exception_with("OperationTimeoutError", text, Some(Effect::Unknown), &[], |_| Ok(()))
        }
    }
}

fn raise_fault(py: Python<'_>, fault: Fault) -> PyErr {
    let Fault {
        kind,
        detail,
        rows,
        stored,
        effect,
        numbers,
    } = fault;
    match kind {
        FaultKind::Broker(kind) => {
            let error = Error::new(kind, detail).with_numbers(numbers);
            raise(&match effect {
                Some(effect) => error.with_effect(effect),
                None => error,
            })
        }
        FaultKind::Unauthenticated => exception("ServiceBusAuthenticationError", &detail, |_| Ok(())),
        FaultKind::Unauthorized => exception("ServiceBusAuthorizationError", &detail, |_| Ok(())),
        FaultKind::PartialSend => exception_with("PartialSendError", &detail, effect, &[], |keywords| {
            keywords.set_item("rows", rows)?;
            keywords.set_item("partitions", stored.into_py_dict(py)?)
        }),
    }
}
