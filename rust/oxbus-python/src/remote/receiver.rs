// SPDX-License-Identifier: Apache-2.0
//! Receiving from a server.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oxbus_client::{Client, Closing, Deadline, Receiver, ReceiverOptions, Result, SessionChoice, SettleHandle};
use oxbus_model::options::ReceiveMode;
use oxbus_model::{LockToken, SequenceNumber, Timestamp};
use pyo3::prelude::*;

use super::call;
use super::message::RemoteMessage;
use super::wait::RemoteWait;

/// Time for the server to confirm the end of a link.
pub(super) const CLOSE_TIME: Duration = Duration::from_secs(5);

/// A receiver of an entity of a server.
pub(crate) struct RemoteReceiver {
    pub(super) inner: Arc<Receiver>,
    pub(super) mode: ReceiveMode,
    /// Where a peek without a number continues.
    peek_from: AtomicU64,
    /// What settles the messages of tables. A panic leaves it consistent: each change is one step.
    pub(super) of_tokens: Mutex<HashMap<LockToken, SettleHandle>>,
}

/// Accepts a session of an entity of a server.
pub(crate) struct RemoteAcceptor {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) options: ReceiverOptions,
    pub(super) choice: SessionChoice,
    pub(super) closing: Closing,
}

impl RemoteAcceptor {
    /// Waits for the session until `seconds` have passed.
    pub(crate) fn accept(&self, py: Python<'_>, seconds: f64) -> PyResult<RemoteReceiver> {
        let deadline = call::deadline("max_wait_time", Some(seconds))?;
        call::run(py, self.accepted(deadline))
    }

    /// Ends the wait for the session.
    pub(crate) fn close(&self) {
        self.closing.close();
    }

    /// The acceptance for an event loop.
    pub(crate) fn accept_in_loop(&self, wait: Option<Duration>) -> RemoteWait<RemoteReceiver> {
        RemoteWait::new(self.accepted(Deadline::after(wait)))
    }

    fn accepted(&self, deadline: Deadline) -> impl Future<Output = Result<RemoteReceiver>> + Send + use<> {
        let (client, path) = (self.client.clone(), self.path.clone());
        let (choice, options) = (self.choice.clone(), self.options.clone());
        self.closing.unless_closed(async move {
            let mode = options.mode;
            let receiver = client.accept_session(path, choice, options, deadline).await?;
            Ok(RemoteReceiver::new(receiver, mode))
        })
    }
}

impl RemoteReceiver {
    pub(super) fn new(receiver: Receiver, mode: ReceiveMode) -> Self {
        Self {
            inner: Arc::new(receiver),
            mode,
            peek_from: AtomicU64::new(0),
            of_tokens: Mutex::default(),
        }
    }

    /// Checks that the entity exists. The first receive attaches the link: other calls need none.
    pub(crate) fn open(&self, py: Python<'_>) -> PyResult<()> {
        call::run(py, self.inner.open(Deadline::NEVER))
    }

    pub(crate) fn mode(&self) -> ReceiveMode {
        self.mode
    }

    /// The path of its entity.
    pub(crate) fn path(&self) -> &str {
        self.inner.path()
    }

    /// True if both receive from one entity over one client.
    pub(crate) fn is_of_same_entity(&self, other: &Self) -> bool {
        self.inner.is_of_same_entity(&other.inner)
    }

    /// The id of its session, if it has one.
    pub(crate) fn session_id(&self) -> Option<&str> {
        self.inner.session().map(oxbus_client::Session::id)
    }

    /// The time of the server, as this machine knows it.
    pub(crate) fn now(&self) -> Timestamp {
        call::now()
    }

    /// Receives up to `max` messages, waiting up to `seconds` for the first.
    pub(crate) fn receive(&self, py: Python<'_>, max: usize, seconds: Option<f64>) -> PyResult<Vec<RemoteMessage>> {
        let deadline = call::deadline("max_wait_time", seconds)?;
        call::run(py, self.received(max, deadline))
    }

    fn received(
        &self,
        max: usize,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Vec<RemoteMessage>>> + Send + use<> {
        let receiver = Arc::clone(&self.inner);
        async move {
            let received = receiver.receive(max, deadline).await?;
            received.iter().map(RemoteMessage::of_received).collect()
        }
    }

    /// A receive for an event loop.
    pub(crate) fn receive_in_loop(&self, max: usize, wait: Option<Duration>) -> RemoteWait<Vec<RemoteMessage>> {
        RemoteWait::new(self.received(max, Deadline::after(wait)))
    }

    /// Receives deferred messages by number.
    pub(crate) fn receive_deferred(
        &self,
        py: Python<'_>,
        numbers: &[SequenceNumber],
        timeout: Option<f64>,
    ) -> PyResult<Vec<RemoteMessage>> {
        let deadline = call::deadline("timeout", timeout)?;
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        call::run(py, async {
            let management = self.inner.management().await?;
            let found = management.receive_deferred(numbers, self.mode, deadline).await?;
            found.iter().map(RemoteMessage::of_deferred).collect()
        })
    }

    /// Returns messages without locking them: from a number, or after those of the last peek.
    pub(crate) fn peek(
        &self,
        py: Python<'_>,
        max: usize,
        from: Option<SequenceNumber>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<RemoteMessage>> {
        let deadline = call::deadline("timeout", timeout)?;
        let from = from.unwrap_or_else(|| SequenceNumber(self.peek_from.load(Ordering::Acquire)));
        let found: Vec<RemoteMessage> = call::run(py, async {
            let management = self.inner.management().await?;
            let peeked = management.peek(from, max, deadline).await?;
            peeked.iter().map(RemoteMessage::of_peeked).collect()
        })?;
        if let Some(last) = found.last() {
            self.peek_from
                .store(last.metadata.number.0.saturating_add(1), Ordering::Release);
        }
        Ok(found)
    }

    /// Takes no further messages, and gives back those that nobody has taken.
    pub(crate) fn stop(&self) {
        self.inner.stop();
    }

    /// Gives back what nobody has taken, and detaches the link.
    pub(crate) fn close(&self, py: Python<'_>) {
        let close = async {
            self.inner.close(Deadline::after(Some(CLOSE_TIME))).await;
            Ok(())
        };
        // A signal leaves the rest to the server.
        let _ = call::run(py, close);
    }
}
