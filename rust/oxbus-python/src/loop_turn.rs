// SPDX-License-Identifier: Apache-2.0
//! Calls of asyncio that return at once, and the turn of their client in the event loop.
//!
//! A call in memory, or at the durability `os`, neither waits nor gives control back to the event loop. A task that only
//! makes such calls would keep all other tasks from running, so each client has turns of limited length, and its first
//! call after a turn lets other tasks run. Each method here refuses a call that has to do so, or that may wait for a
//! disk. Python then makes the call in the longer way. A call to a server or a store is started, and Python waits for
//! its end.

use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_broker::clock::Stopwatch;
use oxbus_model::options::Durability;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::fork::ProcessLocal;
use crate::loop_calls::start_sending;
use crate::pending_call::PendingCall;
use crate::receiver::ServiceBusReceiver;
use crate::sender::ServiceBusSender;
use crate::settle_call::LoopSettlement;
use crate::transport::NamespaceTransport;

/// The turn of one client.
#[pyclass(frozen, name = "_LoopTurn", module = "oxbus")]
pub(crate) struct LoopTurn {
    stopwatch: Stopwatch,
    /// The length of a turn, measured with the resolution of the kernel's ticks.
    turn_ms: u64,
    /// When the turn began, by `stopwatch`.
    began_ms: AtomicU64,
}

impl LoopTurn {
    /// True if a call may be made at once, at a durability or at the default one.
    #[inline]
    fn is_free(&self, namespace: &ProcessLocal<NamespaceTransport>, durability: Option<Durability>) -> bool {
        match namespace.if_same_process() {
            Some(NamespaceTransport::Local(namespace)) => namespace.answers_at_once(durability) && !self.is_over(),
            // In a forked child the longer way reports the error.
            Some(NamespaceTransport::Remote(_)) | None => false,
        }
    }
}

#[pymethods]
impl LoopTurn {
    #[new]
    fn new(turn_ms: u64) -> Self {
        Self {
            stopwatch: Stopwatch::start(),
            turn_ms,
            began_ms: AtomicU64::new(0),
        }
    }

    /// True if other tasks must run before the next call.
    #[getter]
    #[inline]
    fn is_over(&self) -> bool {
        self.stopwatch
            .ms()
            .saturating_sub(self.began_ms.load(Ordering::Relaxed))
            >= self.turn_ms
    }

    /// Begins the next turn: other tasks have run.
    fn begin(&self) {
        self.began_ms.store(self.stopwatch.ms(), Ordering::Relaxed);
    }
}

/// What became of a call.
#[derive(IntoPyObject)]
pub(crate) enum Ready {
    /// True if it was made.
    Answered(bool),
    /// It waits for a server or a store.
    Started(PendingCall),
}

impl From<Option<PendingCall>> for Ready {
    fn from(started: Option<PendingCall>) -> Self {
        started.map_or(Self::Answered(false), Self::Started)
    }
}

/// The sends of a sender that return at once.
#[pyclass(frozen, name = "_ReadySender", module = "oxbus")]
pub(crate) struct ReadySender {
    sender: Py<ServiceBusSender>,
    turn: Py<LoopTurn>,
}

#[pymethods]
impl ReadySender {
    #[new]
    fn new(sender: Py<ServiceBusSender>, turn: Py<LoopTurn>) -> Self {
        Self { sender, turn }
    }

    /// Returns true if the messages were sent, or the call that sends them.
    fn send_messages(
        &self,
        message: &Bound<'_, PyAny>,
        timeout: Option<f64>,
        durability: Option<&str>,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Ready> {
        let sender = self.sender.get();
        // The call reports an unknown name.
        let level = durability.and_then(|name| {
            [Durability::Os, Durability::Fsync]
                .into_iter()
                .find(|it| it.name() == name)
        });
        if !self.turn.get().is_free(&sender.namespace, level) {
            let sender = self.sender.bind(message.py());
            let started = start_sending(sender, message, timeout, durability, transaction)?;
            return Ok(started.into());
        }
        sender.send_messages(message, timeout, durability, transaction)?;
        Ok(Ready::Answered(true))
    }
}

/// The receives and settlements of a receiver that return at once.
#[pyclass(frozen, name = "_ReadyReceiver", module = "oxbus")]
pub(crate) struct ReadyReceiver {
    receiver: Py<ServiceBusReceiver>,
    turn: Py<LoopTurn>,
}

impl ReadyReceiver {
    /// The receiver, if its call may be made at once.
    #[inline]
    fn free<'py>(&self, py: Python<'py>) -> PyResult<Option<&Bound<'py, ServiceBusReceiver>>> {
        let receiver = self.receiver.bind(py);
        let is_free = self.turn.get().is_free(&receiver.get().namespace, None) && receiver.get().acceptor()?.is_none();
        Ok(is_free.then_some(receiver))
    }
}

#[pymethods]
impl ReadyReceiver {
    #[new]
    fn new(receiver: Py<ServiceBusReceiver>, turn: Py<LoopTurn>) -> Self {
        Self { receiver, turn }
    }

    /// Returns `None` if no message is ready, or if the list may be long.
    fn receive_messages<'py>(
        &self,
        py: Python<'py>,
        max_message_count: Option<i64>,
        max_wait_time: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let Some(receiver) = self.free(py)? else {
            return Ok(None);
        };
        ServiceBusReceiver::receive_ready(receiver, max_message_count, max_wait_time)
    }

    /// Returns true if the message was settled, or the call that settles it.
    fn settle(
        &self,
        message: &Bound<'_, PyAny>,
        settlement: &LoopSettlement,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Ready> {
        let Some(receiver) = self.free(message.py())? else {
            let one = (std::slice::from_ref(message), false);
            let receiver = self.receiver.get();
            let started = receiver.start_settling(message.py(), one, &settlement.0, transaction)?;
            return Ok(started.into());
        };
        receiver.get().settle(message, &settlement.0, transaction)?;
        Ok(Ready::Answered(true))
    }

    /// Returns true if the messages were settled, or the call that settles them.
    fn settle_all(
        &self,
        messages: &Bound<'_, PyAny>,
        settlement: &LoopSettlement,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Ready> {
        let Some(receiver) = self.free(messages.py())? else {
            // Other iterables may be read only once.
            let listed = messages.cast::<PyList>().map(|list| list.iter().collect::<Vec<_>>());
            let started = listed.map_or(Ok(None), |listed| {
                let receiver = self.receiver.get();
                receiver.start_settling(messages.py(), (&listed, true), &settlement.0, transaction)
            });
            return Ok(started?.into());
        };
        receiver.get().settle_all(messages, &settlement.0, transaction)?;
        Ok(Ready::Answered(true))
    }
}
