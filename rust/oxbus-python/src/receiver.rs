// SPDX-License-Identifier: Apache-2.0
//! `ServiceBusReceiver`: receiving and peeking. Opening and closing are in `receiver_opening`, settlement in `settle`.

use oxbus_store::Wait;
use oxbus_store::prefetch::RecordHint;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use oxbus_broker::client::{Deliveries, Delivery, SessionSelector};
use oxbus_broker::{Receiver, ReceiverOptions};
use oxbus_model::SequenceNumber;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arrow::{self, ArrowTable, ColumnNames};
use crate::clock::ManualClock;
use crate::convert::{self, Seconds, check_timeout};
use crate::error::OrRaise;
use crate::fork::ProcessLocal;
use crate::received::ServiceBusReceivedMessage;
use crate::remote::RemoteMessage;
use crate::session::ServiceBusSession;
use crate::shared_receiver::SharedReceiver;
use crate::transport::{AcceptorTransport, NamespaceTransport, ReceiverTransport};
use crate::unknown_options::{self, UnknownOptions};
use crate::{blocking, receiving};

/// A receiver. It looks up its entity at first use, as the SDK connects at first use.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct ServiceBusReceiver {
    pub(crate) namespace: ProcessLocal<NamespaceTransport>,
    pub(crate) queue_name: String,
    pub(crate) client_identifier: String,
    pub(crate) options: ReceiverOptions,
    pub(crate) max_wait_time: Option<f64>,
    pub(crate) auto_lock_renewer: Option<Py<PyAny>>,
    /// The manual clock of the namespace, if it has one.
    pub(crate) clock: Option<Py<ManualClock>>,
    /// The session to accept, and `None` for a receiver without sessions.
    pub(crate) session_selector: Option<SessionSelector>,
    pub(crate) acceptor: OnceLock<ProcessLocal<AcceptorTransport>>,
    pub(crate) session: OnceLock<Py<ServiceBusSession>>,
    /// True if the session is registered with the lock renewer.
    pub(crate) is_renewing_session: AtomicBool,
    pub(crate) shared: OnceLock<Py<SharedReceiver>>,
    pub(crate) closed: AtomicBool,
}

/// Reading the body of a message in a list prefetches the message that so many places later follows.
const BODIES_AHEAD: usize = 2;

impl ServiceBusReceiver {
    pub(crate) fn new(
        namespace: ProcessLocal<NamespaceTransport>,
        queue_name: String,
        client_identifier: String,
        options: ReceiverOptions,
        max_wait_time: Option<f64>,
        auto_lock_renewer: Option<Py<PyAny>>,
        session_selector: Option<SessionSelector>,
    ) -> Self {
        Self {
            namespace,
            queue_name,
            client_identifier,
            options,
            max_wait_time,
            auto_lock_renewer,
            clock: None,
            session_selector,
            acceptor: OnceLock::new(),
            session: OnceLock::new(),
            is_renewing_session: AtomicBool::new(false),
            shared: OnceLock::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// Sets the manual clock of the namespace.
    pub(crate) fn with_clock(mut self, clock: Option<Py<ManualClock>>) -> Self {
        self.clock = clock;
        self
    }

    /// Receives into the empty list `out`.
    fn receive(
        &self,
        py: Python<'_>,
        receiver: &Receiver,
        max: usize,
        max_wait_time: Option<f64>,
        out: &mut Deliveries,
    ) -> PyResult<()> {
        if let Some(seconds) = max_wait_time {
            convert::duration("max_wait_time", seconds)?;
        }
        receiving::receive(py, receiver, max, out, || {
            convert::deadline("max_wait_time", max_wait_time.or(self.max_wait_time))
        })
    }

    /// Receives messages that are ready, without a wait. Returns `None` if there are none, or if the list may be long.
    pub(crate) fn receive_ready<'py>(
        slf: &Bound<'py, Self>,
        max_message_count: Option<i64>,
        max_wait_time: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let (this, py) = (slf.get(), slf.py());
        let max = this.max_count(max_message_count)?;
        if let Some(seconds) = max_wait_time {
            convert::duration("max_wait_time", seconds)?;
        }
        if max > blocking::INLINE_MESSAGES_MAX {
            return Ok(None);
        }
        let shared = this.open(py)?;
        let mut found = Deliveries::new();
        let ReceiverTransport::Local(receiver) = shared.get().receiver()? else {
            return Ok(None);
        };
        let may_wait = receiver.entity().may_wait();
        blocking::run(py, may_wait, |wait| receiver.receive_into(max, &mut found, wait))?.or_raise()?;
        if found.is_empty() {
            return Ok(None);
        }
        Self::to_messages(slf, shared, &mut found).map(Some)
    }

    pub(crate) fn max_count(&self, max_message_count: Option<i64>) -> PyResult<usize> {
        match max_message_count {
            None => Ok(self.options.prefetch.max(1)),
            Some(count) => usize::try_from(count).ok().filter(|count| *count > 0).ok_or_else(|| {
                PyValueError::new_err(format!(
                    "max_message_count must be at least 1; use 1 for a single message: {count}"
                ))
            }),
        }
    }

    fn to_message<'py>(
        slf: &Bound<'py, Self>,
        shared: &Py<SharedReceiver>,
        delivery: Delivery,
        next: Option<RecordHint>,
    ) -> PyResult<Bound<'py, ServiceBusReceivedMessage>> {
        let message = ServiceBusReceivedMessage::of_delivery(slf.py(), shared, delivery, next)?;
        Self::renew_message(slf, &message)?;
        Ok(message)
    }

    /// Registers a message with the lock renewer, if there is one.
    #[inline]
    fn renew_message(slf: &Bound<'_, Self>, message: &Bound<'_, ServiceBusReceivedMessage>) -> PyResult<()> {
        if let Some(renewer) = slf
            .get()
            .auto_lock_renewer
            .as_ref()
            .filter(|_| !slf.get().is_session_receiver())
        {
            renewer.bind(slf.py()).call_method1("register", (slf, message))?;
        }
        Ok(())
    }

    /// The Python object of the only message of a call. Its body is likely read at once, and is prefetched meanwhile.
    fn to_single_message<'py>(
        slf: &Bound<'py, Self>,
        shared: &Py<SharedReceiver>,
        delivery: Delivery,
    ) -> PyResult<Bound<'py, ServiceBusReceivedMessage>> {
        let record = &delivery.claimed.record;
        RecordHint::of(record).prefetch(record.len());
        Self::to_message(slf, shared, delivery, None)
    }

    /// The Python objects of messages from a server.
    pub(crate) fn of_remote<'py>(
        slf: &Bound<'py, Self>,
        shared: &Py<SharedReceiver>,
        found: Vec<RemoteMessage>,
    ) -> PyResult<Bound<'py, PyList>> {
        let messages = PyList::empty(slf.py());
        for received in found {
            let message = ServiceBusReceivedMessage::of_remote(slf.py(), shared, received)?;
            Self::renew_message(slf, &message)?;
            messages.append(message)?;
        }
        Ok(messages)
    }

    pub(crate) fn to_messages<'py>(
        slf: &Bound<'py, Self>,
        shared: &Py<SharedReceiver>,
        deliveries: &mut Deliveries,
    ) -> PyResult<Bound<'py, PyList>> {
        if deliveries.len() == 1
            && let Some(delivery) = deliveries.pop()
        {
            return PyList::new(slf.py(), [Self::to_single_message(slf, shared, delivery)?]);
        }
        let hints: Vec<_> = deliveries
            .iter()
            .map(|delivery| RecordHint::of(&delivery.claimed.record))
            .collect();
        let messages: Vec<_> = deliveries
            .drain(..)
            .enumerate()
            .map(|(at, delivery)| Self::to_message(slf, shared, delivery, hints.get(at + BODIES_AHEAD).copied()))
            .collect::<PyResult<_>>()?;
        PyList::new(slf.py(), messages)
    }
}

#[pymethods]
impl ServiceBusReceiver {
    #[pyo3(signature = (max_message_count=Some(1), max_wait_time=None), text_signature = "($self, max_message_count=1, max_wait_time=None)")]
    fn receive_messages<'py>(
        slf: &Bound<'py, Self>,
        max_message_count: Option<i64>,
        max_wait_time: Option<Seconds>,
    ) -> PyResult<Bound<'py, PyList>> {
        let this = slf.get();
        let (max, max_wait_time) = (this.max_count(max_message_count)?, max_wait_time.map(|wait| wait.0));
        Self::renew_session(slf)?;
        let shared = this.open(slf.py())?;
        match shared.get().receiver()? {
            ReceiverTransport::Local(receiver) => {
                let mut deliveries = Deliveries::new();
                this.receive(slf.py(), receiver, max, max_wait_time, &mut deliveries)?;
                Self::to_messages(slf, shared, &mut deliveries)
            }
            ReceiverTransport::Remote(remote) => {
                let found = remote.receive(slf.py(), max, max_wait_time.or(this.max_wait_time))?;
                Self::of_remote(slf, shared, found)
            }
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, ServiceBusReceivedMessage>>> {
        let (this, py) = (slf.get(), slf.py());
        Self::renew_session(slf)?;
        let shared = this.open(py)?;
        let receiver = match shared.get().receiver()? {
            ReceiverTransport::Local(receiver) => receiver,
            ReceiverTransport::Remote(remote) => {
                let Some(received) = remote.receive(py, 1, this.max_wait_time)?.pop() else {
                    return Ok(None);
                };
                let message = ServiceBusReceivedMessage::of_remote(py, shared, received)?;
                Self::renew_message(slf, &message)?;
                return Ok(Some(message));
            }
        };
        let mut deliveries = Deliveries::new();
        this.receive(py, receiver, 1, None, &mut deliveries)?;
        let delivery = deliveries.pop();
        delivery
            .map(|delivery| Self::to_single_message(slf, shared, delivery))
            .transpose()
    }

    fn next<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, ServiceBusReceivedMessage>> {
        Self::__next__(slf)?.ok_or_else(|| pyo3::exceptions::PyStopIteration::new_err(()))
    }

    #[pyo3(signature = (sequence_numbers, *, timeout=60.0))]
    fn receive_deferred_messages<'py>(
        slf: &Bound<'py, Self>,
        sequence_numbers: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let this = slf.get();
        Self::renew_session(slf)?;
        let shared = this.open(slf.py())?;
        let receiver = shared.get().receiver()?;
        check_timeout(timeout)?;
        let numbers = convert::sequence_numbers(sequence_numbers)?;
        let receiver = match receiver {
            ReceiverTransport::Local(receiver) => receiver,
            ReceiverTransport::Remote(remote) => {
                let found = remote.receive_deferred(slf.py(), &numbers, timeout)?;
                return Self::of_remote(slf, shared, found);
            }
        };
        let mut deliveries = blocking::run_for(slf.py(), true, timeout, |wait| {
            receiver.receive_deferred(&numbers, wait)
        })?
        .or_raise()?;
        Self::to_messages(slf, shared, &mut deliveries)
    }

    #[pyo3(
        signature = (max_message_count=1, *, sequence_number=0, timeout=60.0, **unknown),
        text_signature = "($self, max_message_count=1, *, sequence_number=0, timeout=60.0)",
    )]
    fn peek_messages<'py>(
        slf: &Bound<'py, Self>,
        max_message_count: i64,
        sequence_number: i64,
        timeout: Option<f64>,
        unknown: Option<UnknownOptions<'_, '_>>,
    ) -> PyResult<Bound<'py, PyList>> {
        unknown_options::refuse::<Self>(slf.py(), "peek_messages", unknown)?;
        let (this, py) = (slf.get(), slf.py());
        Self::renew_session(slf)?;
        let shared = this.open(py)?;
        let receiver = shared.get().receiver()?;
        check_timeout(timeout)?;
        let max = this.max_count(Some(max_message_count))?;
        let number = u64::try_from(sequence_number).map_err(|_| {
            PyValueError::new_err(format!(
                "sequence_number cannot be negative; use 0 to continue after the last peek: {sequence_number}"
            ))
        })?;
        let from = (number > 0).then_some(SequenceNumber(number));
        let receiver = match receiver {
            ReceiverTransport::Local(receiver) => receiver,
            ReceiverTransport::Remote(remote) => {
                let found = remote.peek(py, max, from, timeout)?.into_iter();
                let peeked = found.map(|message| ServiceBusReceivedMessage::of_peeked(py, shared, message));
                return PyList::new(py, peeked.collect::<PyResult<Vec<_>>>()?);
            }
        };
        let browsed = py.detach(|| receiver.browse(max, from, &Wait::FOREVER)).or_raise()?;
        let messages = browsed
            .into_iter()
            .map(|browsed| ServiceBusReceivedMessage::of_browsed(py, shared, browsed))
            .collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, messages)
    }

    /// See the stub.
    #[pyo3(signature = (max_message_count=1, max_wait_time=None, *, columns=None))]
    fn receive_arrow(
        slf: &Bound<'_, Self>,
        max_message_count: i64,
        max_wait_time: Option<f64>,
        columns: ColumnNames,
    ) -> PyResult<ArrowTable> {
        let (this, py) = (slf.get(), slf.py());
        let columns = arrow::selection(&columns)?;
        let max = this.max_count(Some(max_message_count))?;
        Self::renew_session(slf)?;
        let shared = this.open(py)?;
        match shared.get().receiver()? {
            ReceiverTransport::Local(receiver) => {
                let mut deliveries = Deliveries::new();
                this.receive(py, receiver, max, max_wait_time, &mut deliveries)?;
                arrow::table(py, columns, receiver, &deliveries)
            }
            ReceiverTransport::Remote(remote) => {
                let found = remote.receive(py, max, max_wait_time.or(this.max_wait_time))?;
                remote.keep_handles(&found);
                arrow::table_of_remote(py, columns, &found)
            }
        }
    }

    fn close(&self, py: Python<'_>) {
        self.close_now(py);
    }

    #[getter]
    fn closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    #[getter]
    fn _entity_path(&self) -> &str {
        &self.queue_name
    }

    #[getter]
    fn client_identifier(&self) -> &str {
        &self.client_identifier
    }

    #[getter]
    fn session<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, ServiceBusSession>>> {
        Self::renew_session(slf)?;
        let session = slf.get().session_object(slf.py())?;
        Ok(session.map(|session| session.bind(slf.py()).clone()))
    }

    /// Raises the error for a wait that ended without a session.
    fn _raise_timed_out(&self) -> PyResult<()> {
        match self.acceptor()? {
            Some(AcceptorTransport::Local(acceptor)) => Err(acceptor.timed_out()).or_raise(),
            // The server has given its own error.
            Some(AcceptorTransport::Remote(_)) | None => Ok(()),
        }
    }

    #[getter]
    fn _wants_session(&self) -> bool {
        self.is_session_receiver()
    }

    /// The manual clock of the namespace, if it has one.
    #[getter]
    fn _clock<'py>(&self, py: Python<'py>) -> Option<&Bound<'py, ManualClock>> {
        self.clock.as_ref().map(|clock| clock.bind(py))
    }

    fn _now<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let now = match self.namespace.get()? {
            NamespaceTransport::Local(namespace) => namespace.clock().now(),
            NamespaceTransport::Remote(namespace) => namespace.now(),
        };
        convert::datetime(py, now)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().open(slf.py())?;
        Self::renew_session(&slf)?;
        Ok(slf)
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Option<Py<PyAny>>,
        exc_value: Option<Py<PyAny>>,
        traceback: Option<Py<PyAny>>,
    ) {
        let _ = (exc_type, exc_value, traceback);
        self.close(py);
    }

    fn __repr__(&self) -> String {
        format!(
            "ServiceBusReceiver(queue_name={:?}, sub_queue={}{:?})",
            self.queue_name,
            if self.options.transfer { "Transfer" } else { "" },
            self.options.sub_queue
        )
    }
}
