// SPDX-License-Identifier: Apache-2.0
//! The connection of a `BulkClient` to its server. Each process has its own client, a signal ends a wait, and errors
//! become exceptions.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oxbus_broker::SystemClock;
use oxbus_model::{Clock, Effect, Error, ErrorKind, Timestamp};
use oxbus_wire::client::{Client, ClientError, NetworkWaitOptions};
use oxbus_wire::{ConnectionString, ServerError, ServerErrorKind};
use pyo3::prelude::*;
use pyo3::types::IntoPyDict;

use crate::error::{OrRaise, exception, exception_with, raise, with_cause};
use crate::fork::ProcessLocal;
use crate::waiting;

/// The client of one process, and the clients of processes forked from it.
struct ProcessClient {
    client: ProcessLocal<Client>,
    /// The client of a forked child, which must not use its parent's connections.
    child: OnceLock<Box<Self>>,
}

/// Connection parameters and connections.
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

    /// Makes a call, detached from the interpreter. `extra` is the wait time requested from the server. It extends the
    /// timeout.
    pub(super) fn run<T: Send>(
        &self,
        py: Python<'_>,
        extra: Duration,
        work: impl FnOnce(&Client, &NetworkWaitOptions<'_>) -> Result<T, ClientError> + Send,
    ) -> PyResult<T> {
        let client = self.client()?;
        let timeout = self.timeout.saturating_add(extra);
        let (done, signal) = waiting::run_network_call(py, |slice, is_cancelled| {
            let wait = NetworkWaitOptions {
                timeout,
                poll_interval: slice.min(timeout),
                is_cancelled,
            };
            work(client, &wait)
        })?;
        if let Some(signal) = signal.filter(|_| matches!(done, Err(ClientError::Cancelled))) {
            return Err(signal);
        }
        done.map_err(|error| raise_client_error(py, error))
    }
}

/// The exception for a failed call.
fn raise_client_error(py: Python<'_>, error: ClientError) -> PyErr {
    match error {
        ClientError::Server(error) => raise_server_error(py, error),
        ClientError::Local(error) => raise(&error),
        ClientError::Connection(text, effect, source) => {
            let exception = exception_with("ServiceBusConnectionError", &text, effect, &[], |_| Ok(()));
            with_cause(exception, source.as_deref().map(|source| source as _))
        }
        ClientError::Timeout(text, effect) => exception_with("OperationTimeoutError", &text, effect, &[], |_| Ok(())),
        ClientError::Cancelled => {
            let text = "the interpreter is exiting";
            exception_with("OperationTimeoutError", text, Some(Effect::Unknown), &[], |_| Ok(()))
        }
    }
}

fn raise_server_error(py: Python<'_>, error: ServerError) -> PyErr {
    let ServerError {
        kind,
        detail,
        rows,
        stored,
        effect,
        numbers,
    } = error;
    match kind {
        ServerErrorKind::Broker(kind) => {
            let error = Error::new(kind, detail).with_numbers(numbers);
            raise(&match effect {
                Some(effect) => error.with_effect(effect),
                None => error,
            })
        }
        ServerErrorKind::Unauthenticated => exception("ServiceBusAuthenticationError", &detail, |_| Ok(())),
        ServerErrorKind::Unauthorized => exception("ServiceBusAuthorizationError", &detail, |_| Ok(())),
        ServerErrorKind::PartialSend => exception_with("PartialSendError", &detail, effect, &[], |keywords| {
            keywords.set_item("rows", rows)?;
            keywords.set_item("partitions", stored.into_py_dict(py)?)
        }),
    }
}
