// SPDX-License-Identifier: Apache-2.0
//! `ServiceBusSession`: the accepted session of a receiver.

use std::sync::Mutex;

use oxbus_broker::Receiver;
use oxbus_model::Timestamp;
use oxbus_model::sync::ignore_poison;
use oxbus_store::Wait;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyString};

use crate::error::OrRaise;
use crate::shared_receiver::SharedReceiver;
use crate::{blocking, convert, transaction};

/// The session of a receiver.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct ServiceBusSession {
    shared: Py<SharedReceiver>,
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

    fn receiver(&self) -> PyResult<&Receiver> {
        self.shared.get().receiver()
    }
}

/// Converts a session state to bytes. Text is encoded as UTF-8.
fn state_bytes(state: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
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
        Ok(self.receiver()?.session_id().map(ToOwned::to_owned))
    }

    #[getter]
    fn locked_until_utc<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let until = self.receiver()?.session_locked_until();
        until.map(|until| convert::datetime(py, until)).transpose()
    }

    #[pyo3(signature = (*, timeout=None))]
    fn get_state<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        convert::check_timeout(timeout)?;
        let receiver = self.receiver()?;
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
        let receiver = self.receiver()?;
        if let Some(transaction) = transaction::of_call(py, transaction)? {
            let inner = transaction.get().inner()?;
            let set = |wait: &Wait<'_>| inner.set_session_state(receiver, bytes.as_deref(), wait);
            return blocking::run_for(py, receiver.entity().may_wait(), timeout, set)?.or_raise();
        }
        let set = |wait: &Wait<'_>| receiver.set_session_state(bytes.as_deref(), wait);
        blocking::run_for(py, receiver.entity().may_wait(), timeout, set)?.or_raise()
    }

    #[pyo3(signature = (*, timeout=None))]
    fn renew_lock<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        convert::check_timeout(timeout)?;
        let receiver = self.receiver()?;
        let may_wait = receiver.entity().may_wait();
        let until = blocking::run_for(py, may_wait, timeout, |wait| receiver.renew_session(wait))?.or_raise()?;
        convert::datetime(py, until)
    }

    /// True if the session lock has expired.
    #[getter]
    fn _lock_expired(&self) -> PyResult<bool> {
        let receiver = self.receiver()?;
        let until = receiver.session_locked_until().unwrap_or(Timestamp(0));
        Ok(until <= receiver.entity().now())
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
