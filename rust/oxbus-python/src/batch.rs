// SPDX-License-Identifier: Apache-2.0
//! `ServiceBusMessageBatch`: messages of which all or none are stored.

use std::ops::DerefMut;
use std::sync::{Mutex, MutexGuard};

use oxbus_broker::client::Batch;
use oxbus_model::caps::{BATCH_SIZE_BYTES_DEFAULT, MESSAGE_SIZE_BYTES_MAX};
use oxbus_model::message::Fields;
use oxbus_model::options::in_range;
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Error, ErrorKind};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::{OrRaise, raise};
use crate::message::ServiceBusMessage;
use crate::received::ServiceBusReceivedMessage;

/// A batch.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct ServiceBusMessageBatch {
    /// A panic leaves it consistent: a message is added after it is checked and encoded.
    batch: Mutex<Batch>,
}

impl ServiceBusMessageBatch {
    pub(crate) fn with_max(max_size_in_bytes: Option<usize>, limit: usize) -> PyResult<Self> {
        let max = match max_size_in_bytes {
            Some(max) => {
                in_range("max_size_in_bytes", max as u64, 1, limit as u64, "bytes").or_raise()?;
                max
            }
            None => BATCH_SIZE_BYTES_DEFAULT.min(limit),
        };
        Ok(Self {
            batch: Mutex::new(Batch::new(max)),
        })
    }

    /// Copies the messages for sending. As in the SDK, the batch keeps them.
    pub(crate) fn messages(&self) -> Batch {
        self.guard().clone()
    }

    fn guard(&self) -> MutexGuard<'_, Batch> {
        ignore_poison(self.batch.lock())
    }
}

/// Rejects a received message: it carries its own number and lock (B-175).
pub(crate) fn check_outgoing(message: &ServiceBusMessage) -> PyResult<()> {
    if message.record().is_none() {
        return Ok(());
    }
    let detail = "a received message cannot be sent again; make a new ServiceBusMessage from its body and properties";
    Err(raise(&Error::new(ErrorKind::InvalidOperation, detail)))
}

/// Adds a message to a batch. Calls `batch`, which may lock it, only after the last step that can run Python code.
pub(crate) fn push<B: DerefMut<Target = Batch>>(message: &Bound<'_, PyAny>, batch: impl FnOnce() -> B) -> PyResult<()> {
    let py = message.py();
    let message = message
        .cast::<ServiceBusMessage>()
        .map_err(|_| not_a_message(message))?;
    let message = message.get();
    check_outgoing(message)?;
    message.set_sent();
    message.with_fields(py, |fields| batch().push(fields))
}

pub(crate) fn not_a_message(value: &Bound<'_, PyAny>) -> PyErr {
    let name = value
        .get_type()
        .name()
        .map_or_else(|_| "?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!(
        "only ServiceBusMessage objects, lists of them, and batches can be sent; wrap the value in ServiceBusMessage: {name}"
    ))
}

#[pymethods]
impl ServiceBusMessageBatch {
    #[new]
    #[pyo3(signature = (max_size_in_bytes=None))]
    fn new(max_size_in_bytes: Option<usize>) -> PyResult<Self> {
        Self::with_max(max_size_in_bytes, MESSAGE_SIZE_BYTES_MAX)
    }

    fn add_message(&self, message: &Bound<'_, PyAny>) -> PyResult<()> {
        push(message, || self.guard())
    }

    /// Adds a copy of a received message, with a time to live in milliseconds or none. What a broker gave it is left out.
    fn _add_copy(&self, message: &Bound<'_, ServiceBusReceivedMessage>, time_to_live_ms: Option<u64>) -> PyResult<()> {
        let py = message.py();
        let received = message.as_super().get();
        received.with_fields(py, |fields| {
            self.guard().push(&Fields {
                time_to_live_ms,
                enqueued_number: None,
                hops: None,
                dead_letter_source: None,
                ..*fields
            })
        })
    }

    #[getter]
    fn max_size_in_bytes(&self) -> usize {
        self.guard().size_bytes_max()
    }

    #[getter]
    fn size_in_bytes(&self) -> usize {
        self.guard().size_bytes()
    }

    fn __len__(&self) -> usize {
        self.guard().len()
    }

    fn __repr__(&self) -> String {
        let batch = self.guard();
        format!(
            "ServiceBusMessageBatch(max_size_in_bytes={}, message_count={})",
            batch.size_bytes_max(),
            batch.len()
        )
    }
}
