// SPDX-License-Identifier: Apache-2.0
//! `ServiceBusSender`.

use oxbus_store::Wait;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use oxbus_broker::Sender;
use oxbus_broker::client::Batch;
use oxbus_model::caps::MESSAGE_SIZE_BYTES_MAX;
use oxbus_model::options::Durability;
use oxbus_model::{Error, ErrorKind, SequenceNumber, Timestamp};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::batch::{ServiceBusMessageBatch, check_outgoing, not_a_message, push};
use crate::convert::{check_timeout, sequence_numbers as numbers_of, timestamp};
use crate::error::OrRaise;
use crate::fork::ProcessLocal;
use crate::message::ServiceBusMessage;
use crate::remote::RemoteBatch;
use crate::transport::{NamespaceTransport, SenderTransport};
use crate::unknown_options::{self, UnknownOptions};
use crate::{arrow, blocking, transaction};

/// A sender. It looks up its entity at first use, as the SDK connects at first use.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct ServiceBusSender {
    pub(crate) namespace: ProcessLocal<NamespaceTransport>,
    queue_name: String,
    client_identifier: String,
    sender: ProcessLocal<OnceLock<SenderTransport>>,
    closed: AtomicBool,
}

impl ServiceBusSender {
    pub(crate) fn new(
        namespace: ProcessLocal<NamespaceTransport>,
        queue_name: String,
        client_identifier: String,
    ) -> Self {
        Self {
            sender: namespace.sibling(OnceLock::new()),
            namespace,
            queue_name,
            client_identifier,
            closed: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn open(&self) -> PyResult<&SenderTransport> {
        let cell = self.sender.get()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(
                ErrorKind::Closed,
                "the sender was closed; get a new one from the client",
            ))
            .or_raise();
        }
        if let Some(sender) = cell.get() {
            return Ok(sender);
        }
        let sender = match self.namespace.get()? {
            NamespaceTransport::Local(namespace) => {
                SenderTransport::Local(namespace.sender(&self.queue_name).or_raise()?)
            }
            NamespaceTransport::Remote(namespace) => SenderTransport::Remote(namespace.sender(&self.queue_name)),
        };
        Ok(cell.get_or_init(|| sender))
    }

    fn send_one(
        &self,
        py: Python<'_>,
        sender: &Sender,
        message: &Bound<'_, ServiceBusMessage>,
        durability: Option<Durability>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        if sender.entity().may_wait() {
            // Encoded before the wait for the store, during which another thread may send the same message.
            let mut batch = Batch::new(MESSAGE_SIZE_BYTES_MAX).with_capacity(1);
            push(message.as_any(), || &mut batch)?;
            Self::send_batch(py, sender, batch, durability, timeout)?;
            return Ok(());
        }
        let message = message.get();
        check_outgoing(message)?;
        message.set_sent();
        message.with_fields(py, |fields| sender.send(fields, durability, &Wait::FOREVER))?;
        Ok(())
    }

    fn collect(messages: &Bound<'_, PyAny>) -> PyResult<Batch> {
        if let Ok(list) = messages.cast::<PyList>() {
            let mut batch = Batch::new(MESSAGE_SIZE_BYTES_MAX).with_capacity(list.len());
            for message in list.iter() {
                push(&message, || &mut batch)?;
            }
            return Ok(batch);
        }
        let mut batch = Batch::new(MESSAGE_SIZE_BYTES_MAX);
        for message in messages.try_iter().map_err(|_| not_a_message(messages))? {
            push(&message?, || &mut batch)?;
        }
        Ok(batch)
    }

    /// Collects one message, a batch object, or an iterable of messages.
    pub(crate) fn collect_any(messages: &Bound<'_, PyAny>) -> PyResult<Batch> {
        if let Ok(batch) = messages.cast::<ServiceBusMessageBatch>() {
            return Ok(batch.get().messages());
        }
        if messages.cast::<ServiceBusMessage>().is_ok() {
            return Self::collect(PyList::new(messages.py(), [messages])?.as_any());
        }
        Self::collect(messages)
    }

    fn send_batch(
        py: Python<'_>,
        sender: &Sender,
        batch: Batch,
        durability: Option<Durability>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<SequenceNumber>> {
        let may_wait = sender.entity().may_wait() || batch.len() > blocking::INLINE_MESSAGES_MAX;
        blocking::run_for(py, may_wait, timeout, |wait| sender.send_batch(batch, durability, wait))?.or_raise()
    }
}

impl ServiceBusSender {
    /// The sender of this process, if its first call was made.
    pub(crate) fn opened(&self) -> PyResult<Option<&Sender>> {
        if self.sender.get()?.get().is_none() {
            return Ok(None);
        }
        match self.open()? {
            SenderTransport::Local(sender) => Ok(Some(sender)),
            SenderTransport::Remote(_) => Ok(None),
        }
    }

    /// The sender of this process, unless this is a forked child. Its first call was made.
    pub(crate) fn opened_in_same_process(&self) -> Option<&Sender> {
        match self.sender.if_same_process()?.get()? {
            SenderTransport::Local(sender) => Some(sender),
            SenderTransport::Remote(_) => None,
        }
    }
}

/// Encodes one message, a batch object, or an iterable of messages for a server.
pub(crate) fn remote_batch(messages: &Bound<'_, PyAny>, due: Option<Timestamp>) -> PyResult<RemoteBatch> {
    if let Ok(batch) = messages.cast::<ServiceBusMessageBatch>() {
        return RemoteBatch::of(&batch.get().messages(), due).or_raise();
    }
    let mut batch = RemoteBatch::new(due);
    if messages.cast::<ServiceBusMessage>().is_ok() {
        push_remote(messages, &mut batch)?;
        return Ok(batch);
    }
    for message in messages.try_iter().map_err(|_| not_a_message(messages))? {
        push_remote(&message?, &mut batch)?;
    }
    Ok(batch)
}

fn push_remote(message: &Bound<'_, PyAny>, batch: &mut RemoteBatch) -> PyResult<()> {
    let py = message.py();
    let message = message
        .cast::<ServiceBusMessage>()
        .map_err(|_| not_a_message(message))?
        .get();
    check_outgoing(message)?;
    message.set_sent();
    message.with_fields(py, |fields| batch.push(fields))
}

/// A server decides on the durability by itself.
pub(crate) fn refuse_durability(name: Option<&str>) -> PyResult<()> {
    if name.is_none() {
        return Ok(());
    }
    let detail = "a server decides how durably it stores messages; leave durability out";
    Err(Error::new(ErrorKind::NotSupported, detail)).or_raise()
}

/// Parses the durability of a send. The lowest level that a single send can request is `os`.
pub(crate) fn durability_of(sender: &Sender, name: Option<&str>) -> PyResult<Option<Durability>> {
    let durability = match name {
        None => return Ok(None),
        Some("os") => Durability::Os,
        Some("fsync") => Durability::Fsync,
        Some(other) => {
            return Err(PyValueError::new_err(format!(
                "unknown durability of a send; leave it out, or use `os` or `fsync`: `{other}`"
            )));
        }
    };
    if sender.entity().is_durable() {
        return Ok(Some(durability));
    }
    let detail = "a namespace in memory cannot store a send durably; open the namespace with a path";
    Err(Error::new(ErrorKind::InvalidOperation, detail)).or_raise()
}

#[pymethods]
impl ServiceBusSender {
    #[pyo3(signature = (message, *, timeout=60.0, durability=None, transaction=None))]
    pub(crate) fn send_messages(
        &self,
        message: &Bound<'_, PyAny>,
        timeout: Option<f64>,
        durability: Option<&str>,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let py = message.py();
        let sender = self.open()?;
        check_timeout(timeout)?;
        let sender = match sender {
            SenderTransport::Local(sender) => sender,
            SenderTransport::Remote(remote) => {
                let transaction = transaction::of_call(py, transaction)?;
                let transaction = transaction.as_ref().map(|it| it.get().remote()).transpose()?;
                refuse_durability(durability)?;
                return remote.send(py, remote_batch(message, None)?, transaction, timeout);
            }
        };
        let durability = durability_of(sender, durability)?;
        if let Some(transaction) = transaction::of_call(py, transaction)? {
            let batch = Self::collect_any(message)?;
            let inner = transaction.get().local()?;
            let may_wait = sender.entity().may_wait();
            blocking::run_for(py, may_wait, timeout, |_| inner.send(sender, batch, durability))?.or_raise()?;
            return Ok(());
        }
        if let Ok(one) = message.cast::<ServiceBusMessage>() {
            self.send_one(py, sender, one, durability, timeout)?;
        } else if let Ok(batch) = message.cast::<ServiceBusMessageBatch>() {
            Self::send_batch(py, sender, batch.get().messages(), durability, timeout)?;
        } else {
            let batch = Self::collect(message)?;
            Self::send_batch(py, sender, batch, durability, timeout)?;
        }
        Ok(())
    }

    #[pyo3(
        signature = (messages, schedule_time_utc, *, timeout=60.0, transaction=None, **unknown),
        text_signature = "($self, messages, schedule_time_utc, *, timeout=60.0, transaction=None)",
    )]
    fn schedule_messages<'py>(
        &self,
        messages: &Bound<'py, PyAny>,
        schedule_time_utc: &Bound<'py, PyAny>,
        timeout: Option<f64>,
        transaction: Option<&Bound<'py, PyAny>>,
        unknown: Option<UnknownOptions<'_, '_>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = messages.py();
        unknown_options::refuse::<Self>(py, "schedule_messages", unknown)?;
        let sender = self.open()?;
        check_timeout(timeout)?;
        let due = timestamp(schedule_time_utc)?;
        let sender = match sender {
            SenderTransport::Local(sender) => sender,
            SenderTransport::Remote(remote) => {
                let transaction = transaction::of_call(py, transaction)?;
                let transaction = transaction.as_ref().map(|it| it.get().remote()).transpose()?;
                let numbers = remote.schedule(py, &remote_batch(messages, Some(due))?, transaction, timeout)?;
                return PyList::new(py, numbers.into_iter().map(|number| number.0));
            }
        };
        let mut batch = Self::collect_any(messages)?;
        batch.schedule_all(due).or_raise()?;
        if let Some(transaction) = transaction::of_call(py, transaction)? {
            let transaction = transaction.get();
            let (inner, may_wait) = (transaction.local()?, sender.entity().may_wait());
            let numbers = blocking::run_for(py, may_wait, timeout, |_| inner.send(sender, batch, None))?.or_raise()?;
            let list = PyList::empty(py);
            transaction.fill_on_commit(numbers, list.clone().unbind());
            return Ok(list);
        }
        let numbers = blocking::run_for(py, true, timeout, |wait| sender.send_batch(batch, None, wait))?.or_raise()?;
        PyList::new(py, numbers.into_iter().map(|number| number.0))
    }

    #[pyo3(signature = (sequence_numbers, *, timeout=60.0))]
    fn cancel_scheduled_messages(
        &self,
        py: Python<'_>,
        sequence_numbers: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let sender = self.open()?;
        check_timeout(timeout)?;
        transaction::refuse(py, None, "cancelling scheduled messages")?;
        let numbers = numbers_of(sequence_numbers)?;
        let sender = match sender {
            SenderTransport::Local(sender) => sender,
            SenderTransport::Remote(remote) => return remote.cancel_scheduled(py, &numbers, timeout),
        };
        blocking::run_for(py, true, timeout, |wait| sender.cancel_scheduled(&numbers, wait))?.or_raise()
    }

    #[pyo3(signature = (max_size_in_bytes=None))]
    fn create_message_batch(
        &self,
        py: Python<'_>,
        max_size_in_bytes: Option<usize>,
    ) -> PyResult<ServiceBusMessageBatch> {
        let limit = match self.open()? {
            SenderTransport::Local(sender) => sender.entity().settings().message_size_bytes_max,
            SenderTransport::Remote(remote) => remote.batch_bytes_max(py)?,
        };
        ServiceBusMessageBatch::with_max(max_size_in_bytes, limit)
    }

    /// See the stub.
    fn send_arrow<'py>(&self, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        transaction::refuse(data.py(), None, "send_arrow")?;
        match self.open()? {
            SenderTransport::Local(sender) => arrow::send(sender, data),
            SenderTransport::Remote(remote) => arrow::send_to_remote(remote, data),
        }
    }

    fn close(&self, py: Python<'_>) {
        match self.sender.if_same_process().and_then(OnceLock::get) {
            Some(SenderTransport::Local(sender)) => sender.close(),
            Some(SenderTransport::Remote(remote)) => remote.close(py),
            None => {}
        }
        self.closed.store(true, Ordering::Release);
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
    fn last_durability(&self) -> Option<&'static str> {
        match self.sender.if_same_process().and_then(OnceLock::get)? {
            SenderTransport::Local(sender) => sender.last_durability().map(Durability::name),
            // The server keeps it to itself.
            SenderTransport::Remote(_) => None,
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        if let SenderTransport::Remote(remote) = slf.get().open()? {
            remote.batch_bytes_max(slf.py())?;
        }
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
        format!("ServiceBusSender(queue_name={:?})", self.queue_name)
    }
}
