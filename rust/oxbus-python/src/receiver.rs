// SPDX-License-Identifier: Apache-2.0
//! `ServiceBusReceiver`: receiving and browsing. Settling is in `settle`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use oxbus_broker::client::{Deliveries, Delivery};
use oxbus_broker::{Namespace, Receiver, ReceiverOptions};
use oxbus_model::SequenceNumber;
use oxbus_model::{Error, ErrorKind};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use smallvec::SmallVec;

use crate::arrow::{self, ArrowTable};
use crate::convert::{self, check_timeout};
use crate::error::OrRaise;
use crate::fork::Owned;
use crate::received::ServiceBusReceivedMessage;
use crate::waiting;

/// A receiver. It looks its queue up at its first use, as the SDK connects at the first use.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct ServiceBusReceiver {
    namespace: Owned<Namespace>,
    queue_name: String,
    client_identifier: String,
    options: ReceiverOptions,
    max_wait_time: Option<f64>,
    auto_lock_renewer: Option<Py<PyAny>>,
    receiver: OnceLock<Owned<Arc<Receiver>>>,
    closed: AtomicBool,
}

impl ServiceBusReceiver {
    pub(crate) fn new(
        namespace: Owned<Namespace>,
        queue_name: String,
        client_identifier: String,
        options: ReceiverOptions,
        max_wait_time: Option<f64>,
        auto_lock_renewer: Option<Py<PyAny>>,
    ) -> Self {
        Self {
            namespace,
            queue_name,
            client_identifier,
            options,
            max_wait_time,
            auto_lock_renewer,
            receiver: OnceLock::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// The receiver behind this handle.
    #[inline]
    pub(crate) fn open(&self) -> PyResult<&Owned<Arc<Receiver>>> {
        let namespace = self.namespace.get()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(
                ErrorKind::Closed,
                "the receiver was closed; get a new one from the client",
            ))
            .or_raise();
        }
        if let Some(receiver) = self.receiver.get() {
            return Ok(receiver);
        }
        let receiver = namespace.receiver(&self.queue_name, self.options).or_raise()?;
        Ok(self.receiver.get_or_init(|| self.namespace.sibling(Arc::new(receiver))))
    }

    /// What was received, and by whom.
    fn receive(
        &self,
        py: Python<'_>,
        max: usize,
        max_wait_time: Option<f64>,
    ) -> PyResult<(&Owned<Arc<Receiver>>, Deliveries)> {
        let receiver = self.open()?;
        if let Some(seconds) = max_wait_time {
            convert::wait("max_wait_time", seconds)?;
        }
        let deliveries = waiting::receive(py, receiver.get()?, max, || {
            convert::alarm("max_wait_time", max_wait_time.or(self.max_wait_time))
        })?;
        Ok((receiver, deliveries))
    }

    fn max_count(&self, max_message_count: Option<i64>) -> PyResult<usize> {
        match max_message_count {
            None => Ok(self.options.prefetch.max(1)),
            Some(count) => usize::try_from(count).ok().filter(|count| *count > 0).ok_or_else(|| {
                PyValueError::new_err(format!(
                    "max_message_count must be at least 1; use 1 for a single message: {count}"
                ))
            }),
        }
    }

    fn hand_over<'py>(
        slf: &Bound<'py, Self>,
        receiver: &Owned<Arc<Receiver>>,
        delivery: Delivery,
    ) -> PyResult<Bound<'py, ServiceBusReceivedMessage>> {
        let message = ServiceBusReceivedMessage::of_delivery(slf.py(), receiver, delivery)?;
        if let Some(renewer) = &slf.get().auto_lock_renewer {
            renewer.bind(slf.py()).call_method1("register", (slf, &message))?;
        }
        Ok(message)
    }

    fn hand_over_all<'py>(
        slf: &Bound<'py, Self>,
        receiver: &Owned<Arc<Receiver>>,
        deliveries: Deliveries,
    ) -> PyResult<Bound<'py, PyList>> {
        let messages: SmallVec<[_; 1]> = deliveries
            .into_iter()
            .map(|delivery| Self::hand_over(slf, receiver, delivery))
            .collect::<PyResult<_>>()?;
        PyList::new(slf.py(), messages)
    }
}

/// A receiver that nobody holds any more gives its cache back, even while its messages are held.
impl Drop for ServiceBusReceiver {
    fn drop(&mut self) {
        if let Some(receiver) = self.receiver.get().and_then(Owned::if_ours) {
            receiver.close();
        }
    }
}

#[pymethods]
impl ServiceBusReceiver {
    #[pyo3(signature = (max_message_count=Some(1), max_wait_time=None), text_signature = "($self, max_message_count=1, max_wait_time=None)")]
    fn receive_messages<'py>(
        slf: &Bound<'py, Self>,
        max_message_count: Option<i64>,
        max_wait_time: Option<f64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let this = slf.get();
        let (receiver, deliveries) = this.receive(slf.py(), this.max_count(max_message_count)?, max_wait_time)?;
        Self::hand_over_all(slf, receiver, deliveries)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, ServiceBusReceivedMessage>>> {
        let (receiver, mut deliveries) = slf.get().receive(slf.py(), 1, None)?;
        let delivery = deliveries.pop();
        delivery
            .map(|delivery| Self::hand_over(slf, receiver, delivery))
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
        let owned = this.open()?;
        let receiver = owned.get()?;
        check_timeout(timeout)?;
        let numbers = convert::sequence_numbers(sequence_numbers)?;
        let deliveries = waiting::outside(slf.py(), || receiver.receive_deferred(&numbers))?.or_raise()?;
        Self::hand_over_all(slf, owned, deliveries)
    }

    #[pyo3(signature = (max_message_count=1, *, sequence_number=0, timeout=60.0))]
    fn peek_messages<'py>(
        &self,
        py: Python<'py>,
        max_message_count: i64,
        sequence_number: i64,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let owned = self.open()?;
        let receiver = owned.get()?;
        check_timeout(timeout)?;
        let max = self.max_count(Some(max_message_count))?;
        let number = u64::try_from(sequence_number).map_err(|_| {
            PyValueError::new_err(format!(
                "sequence_number cannot be negative; use 0 to go on browsing: {sequence_number}"
            ))
        })?;
        let from = (number > 0).then_some(SequenceNumber(number));
        let browsed = py.detach(|| receiver.browse(max, from)).or_raise()?;
        let messages = browsed
            .into_iter()
            .map(|browsed| ServiceBusReceivedMessage::of_browsed(py, owned, browsed))
            .collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, messages)
    }

    /// See the stub.
    #[pyo3(signature = (max_message_count=1, max_wait_time=None))]
    fn receive_arrow(
        &self,
        py: Python<'_>,
        max_message_count: i64,
        max_wait_time: Option<f64>,
    ) -> PyResult<ArrowTable> {
        let (receiver, deliveries) = self.receive(py, self.max_count(Some(max_message_count))?, max_wait_time)?;
        let receiver = receiver.get()?;
        py.detach(|| arrow::table(receiver, deliveries))
    }

    fn close(&self, py: Python<'_>) {
        self.closed.store(true, Ordering::Release);
        if let Some(receiver) = self.receiver.get().and_then(Owned::if_ours) {
            py.detach(|| receiver.close());
        }
    }

    #[getter]
    fn closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    #[getter]
    fn client_identifier(&self) -> &str {
        &self.client_identifier
    }

    #[getter]
    fn session<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        py.None().into_bound(py)
    }

    fn _now<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::datetime(py, self.namespace.get()?.clock().now())
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().open()?;
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
            "ServiceBusReceiver(queue_name={:?}, sub_queue={:?})",
            self.queue_name, self.options.sub_queue
        )
    }
}
