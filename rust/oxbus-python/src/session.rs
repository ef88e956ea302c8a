// SPDX-License-Identifier: Apache-2.0
//! `ServiceBusSession`: the accepted session of a receiver.

use std::sync::Mutex;

use oxbus_model::Timestamp;
use oxbus_model::sync::ignore_poison;
use oxbus_store::Wait;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyString};

use crate::error::OrRaise;
use crate::shared_receiver::SharedReceiver;
use crate::transport::ReceiverTransport;
use crate::{blocking, convert, transaction};

/// The session of a receiver.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct ServiceBusSession {
    pub(crate) shared: Py<SharedReceiver>,
    /// A panic leaves it consistent: it is set in one step.
    auto_renew_error: Mutex<Option<Py<PyAny>>>,
}

impl ServiceBusSession {
    pub(crate) fn new(shared: Py<SharedReceiver>) -> Self {
        Self {
            shared,
            auto_renew_error: Mutex::new(None),
        }
    }

    fn receiver(&self) -> PyResult<&ReceiverTransport> {
        self.shared.get().receiver()
    }
}

/// Converts a session state to bytes. Text is encoded as UTF-8.
pub(crate) fn state_bytes(state: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = state.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    if let Ok(bytes) = state.cast::<PyByteArray>() {
        return Ok(bytes.to_vec());
    }
    if let Ok(text) = state.cast::<PyString>() {
        return Ok(text.to_str()?.as_bytes().to_vec());
    }
    let got = state.get_type().name()?.to_string();
    Err(PyTypeError::new_err(format!(
        "state must be bytes, bytearray, str or None: {got}"
    )))
}

#[pymethods]
impl ServiceBusSession {
    #[getter]
    fn session_id(&self) -> PyResult<Option<String>> {
        let id = match self.receiver()? {
            ReceiverTransport::Local(receiver) => receiver.session_id(),
            ReceiverTransport::Remote(remote) => remote.session_id(),
        };
        Ok(id.map(ToOwned::to_owned))
    }

    #[getter]
    fn locked_until_utc<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let until = match self.receiver()? {
            ReceiverTransport::Local(receiver) => receiver.session_locked_until(),
            ReceiverTransport::Remote(remote) => remote.session_locked_until(),
        };
        until.map(|until| convert::datetime(py, until)).transpose()
    }

    #[pyo3(signature = (*, timeout=None))]
    fn get_state<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        convert::check_timeout(timeout)?;
        let receiver = match self.receiver()? {
            ReceiverTransport::Local(receiver) => receiver,
            ReceiverTransport::Remote(remote) => {
                let state = remote.session_state(py, timeout)?;
                return Ok(state.map(|bytes| PyBytes::new(py, &bytes)));
            }
        };
        let may_wait = receiver.entity().may_wait();
        let state = blocking::run_for(py, may_wait, timeout, |wait| receiver.session_state(wait))?.or_raise()?;
        Ok(state.map(|bytes| PyBytes::new(py, &bytes)))
    }

    #[pyo3(signature = (state, *, timeout=None, transaction=None))]
    fn set_state(
        &self,
        py: Python<'_>,
        state: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        convert::check_timeout(timeout)?;
        let bytes = state.map(state_bytes).transpose()?;
        let transaction = transaction::of_call(py, transaction)?;
        let receiver = match self.receiver()? {
            ReceiverTransport::Local(receiver) => receiver,
            ReceiverTransport::Remote(remote) => {
                let inner = transaction.as_ref().map(|it| it.get().remote()).transpose()?;
                return remote.set_session_state(py, bytes, inner, timeout);
            }
        };
        if let Some(transaction) = transaction {
            let inner = transaction.get().local()?;
            let set = |wait: &Wait<'_>| inner.set_session_state(receiver, bytes.as_deref(), wait);
            return blocking::run_for(py, receiver.entity().may_wait(), timeout, set)?.or_raise();
        }
        let set = |wait: &Wait<'_>| receiver.set_session_state(bytes.as_deref(), wait);
        blocking::run_for(py, receiver.entity().may_wait(), timeout, set)?.or_raise()
    }

    #[pyo3(signature = (*, timeout=None))]
    fn renew_lock<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        convert::check_timeout(timeout)?;
        let until = match self.receiver()? {
            ReceiverTransport::Local(receiver) => {
                let may_wait = receiver.entity().may_wait();
                blocking::run_for(py, may_wait, timeout, |wait| receiver.renew_session(wait))?.or_raise()?
            }
            ReceiverTransport::Remote(remote) => remote.renew_session(py, timeout)?,
        };
        convert::datetime(py, until)
    }

    /// True if the session lock has expired.
    #[getter]
    fn _lock_expired(&self) -> PyResult<bool> {
        let (until, now) = match self.receiver()? {
            ReceiverTransport::Local(receiver) => (receiver.session_locked_until(), receiver.entity().now()),
            ReceiverTransport::Remote(remote) => (remote.session_locked_until(), remote.now()),
        };
        Ok(until.unwrap_or(Timestamp(0)) <= now)
    }

    #[getter]
    fn auto_renew_error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let error = ignore_poison(self.auto_renew_error.lock());
        error.as_ref().map(|error| error.clone_ref(py))
    }

    #[setter]
    fn set_auto_renew_error(&self, value: Option<Py<PyAny>>) {
        *ignore_poison(self.auto_renew_error.lock()) = value;
    }
}
