// SPDX-License-Identifier: Apache-2.0
//! The connection of a `BulkClient` to its server: one per process, waits that a signal ends, errors as exceptions.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oxbus_broker::SystemClock;
use oxbus_model::{Clock, Effect, Error, ErrorKind, Timestamp};
use oxbus_wire::client::{Client, ClientError, NetworkWaitOptions};
use oxbus_wire::{ConnectionString, ServerError, ServerErrorKind};
use pyo3::prelude::*;
use pyo3::types::IntoPyDict;

use crate::error::{OrRaise, named, named_with, raise, with_cause};
use crate::fork::Owned;
use crate::waiting;

/// The client of one process, and of the processes that are forked from it.
struct Generation {
    client: Owned<Client>,
    /// That of a child: its parent's connections are the parent's.
    child: OnceLock<Box<Self>>,
}

/// What it takes to connect, and the connections.
pub(super) struct Link {
    place: ConnectionString,
    ca_file: Option<String>,
    pub(super) timeout: Duration,
    first: Generation,
    closed: AtomicBool,
}

fn now() -> Timestamp {
    SystemClock::new().now()
}

impl Generation {
    fn new(place: &ConnectionString, ca_file: Option<&str>) -> oxbus_model::Result<Self> {
        Ok(Self {
            client: Owned::new(Client::new(place.clone(), ca_file, now)?),
            child: OnceLock::new(),
        })
    }
}

impl Link {
    pub(super) fn new(
        connection_string: &str,
        ca_file: Option<String>,
        timeout: Duration,
    ) -> oxbus_model::Result<Self> {
        let place = ConnectionString::parse(connection_string)?;
        let first = Generation::new(&place, ca_file.as_deref())?;
        Ok(Self {
            place,
            ca_file,
            timeout,
            first,
            closed: AtomicBool::new(false),
        })
    }

    pub(super) fn endpoint(&self) -> String {
        self.place.endpoint()
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
        let mut generation = &self.first;
        loop {
            if let Some(client) = generation.client.if_ours() {
                return Ok(client);
            }
            generation = if let Some(child) = generation.child.get() {
                child
            } else {
                let child = Generation::new(&self.place, self.ca_file.as_deref()).or_raise()?;
                generation.child.get_or_init(|| Box::new(child))
            };
        }
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let mut generation = Some(&self.first);
        while let Some(here) = generation {
            if let Some(client) = here.client.if_ours() {
                client.close_idle();
            }
            generation = here.child.get().map(|child| &**child);
        }
    }

    /// Makes a call outside the interpreter. `extra` is what the server is asked to wait beyond the time of a call.
    pub(super) fn run<T: Send>(
        &self,
        py: Python<'_>,
        extra: Duration,
        work: impl FnOnce(&Client, &NetworkWaitOptions<'_>) -> Result<T, ClientError> + Send,
    ) -> PyResult<T> {
        let client = self.client()?;
        let timeout = self.timeout.saturating_add(extra);
        let (done, signal) = waiting::in_network(py, |slice, wants_to_leave| {
            let wait = NetworkWaitOptions {
                timeout,
                poll_interval: slice.min(timeout),
                is_cancelled: wants_to_leave,
            };
            work(client, &wait)
        })?;
        if let Some(signal) = signal.filter(|_| matches!(done, Err(ClientError::Cancelled))) {
            return Err(signal);
        }
        done.map_err(|failure| raise_failure(py, failure))
    }
}

/// The exception of a call that failed.
fn raise_failure(py: Python<'_>, failure: ClientError) -> PyErr {
    match failure {
        ClientError::Server(fault) => raise_fault(py, fault),
        ClientError::Local(error) => raise(&error),
        ClientError::Connection(text, effect, source) => {
            let exception = named_with("ServiceBusConnectionError", &text, effect, &[], |_| Ok(()));
            with_cause(exception, source.as_deref().map(|source| source as _))
        }
        ClientError::Timeout(text, effect) => named_with("OperationTimeoutError", &text, effect, &[], |_| Ok(())),
        ClientError::Cancelled => {
            let text = "the interpreter is exiting";
            named_with("OperationTimeoutError", text, Some(Effect::Unknown), &[], |_| Ok(()))
        }
    }
}

fn raise_fault(py: Python<'_>, fault: ServerError) -> PyErr {
    let ServerError {
        kind,
        detail,
        rows,
        stored,
        effect,
        numbers,
    } = fault;
    match kind {
        ServerErrorKind::Broker(kind) => {
            let error = Error::new(kind, detail).with_numbers(numbers);
            raise(&match effect {
                Some(effect) => error.with_effect(effect),
                None => error,
            })
        }
        ServerErrorKind::Unauthenticated => named("ServiceBusAuthenticationError", &detail, |_| Ok(())),
        ServerErrorKind::Unauthorized => named("ServiceBusAuthorizationError", &detail, |_| Ok(())),
        ServerErrorKind::PartialSend => named_with("PartialSendError", &detail, effect, &[], |keywords| {
            keywords.set_item("rows", rows)?;
            keywords.set_item("partitions", stored.into_py_dict(py)?)
        }),
    }
}
