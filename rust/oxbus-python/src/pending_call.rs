// SPDX-License-Identifier: Apache-2.0
//! A call that a task of an event loop waits for without a thread: to a server, or to a store of this process.

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use oxbus_model::sync::ignore_poison;
use oxbus_model::{Effect, Error, ErrorKind};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::error::raise;
use crate::event_loop::TaskWaiter;
use crate::fork::ProcessLocal;
use crate::remote::RemoteWait;
use crate::store_threads;

/// Polls a call. Returns its result at its end.
type Step = dyn FnMut(Python<'_>, &Waker) -> PyResult<Option<Py<PyAny>>> + Send;

/// A call in progress. If it is dropped before its end, one to a server may have an effect, and one to a store has it.
#[pyclass(frozen, name = "_PendingCall", module = "oxbus")]
pub(crate) struct PendingCall {
    /// `None` once it has ended. A panic leaves it consistent: it is replaced in one step.
    step: ProcessLocal<Mutex<Option<Box<Step>>>>,
}

impl PendingCall {
    /// A call to a server, and what to do with its result.
    pub(crate) fn on_server<T: Send + 'static>(
        call: impl Future<Output = oxbus_client::Result<T>> + Send + 'static,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<()> + Send + 'static,
    ) -> Self {
        let mut wait = RemoteWait::new(call);
        let mut finish = Some(finish);
        Self::new(move |py, waker| {
            let Some(result) = wait.poll(py, waker)? else {
                return Ok(None);
            };
            finish.take().map_or(Ok(()), |finish| finish(py, result))?;
            Ok(Some(py.None()))
        })
    }

    /// A call to a store of this process, which begins at once on another thread, and what to do with its result.
    pub(crate) fn in_store<T: Send + 'static>(
        call: impl Future<Output = T> + Send + 'static,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Self> {
        let mut started = store_threads::start(call)?;
        let mut finish = Some(finish);
        Ok(Self::new(move |py, waker| {
            let Poll::Ready(ended) = Pin::new(&mut started).poll(&mut Context::from_waker(waker)) else {
                return Ok(None);
            };
            let result = ended.flatten().map_err(|_| {
                let detail = "the call panicked; see the error output of the process";
                raise(&Error::new(ErrorKind::Storage, detail).with_effect(Effect::Unknown))
            })?;
            finish.take().map(|finish| finish(py, result)).transpose()
        }))
    }

    fn new(step: impl FnMut(Python<'_>, &Waker) -> PyResult<Option<Py<PyAny>>> + Send + 'static) -> Self {
        Self {
            step: ProcessLocal::new(Mutex::new(Some(Box::new(step)))),
        }
    }
}

#[pymethods]
impl PendingCall {
    /// Drops the call unless it has ended. Its task may keep this object for longer.
    fn cancel(&self) {
        if let Some(cell) = self.step.if_same_process() {
            let dropped = ignore_poison(cell.lock()).take();
            drop(dropped);
        }
    }

    /// Returns a tuple of the result when the call has ended, or the seconds to sleep.
    fn step<'py>(&self, py: Python<'py>, waiter: &TaskWaiter) -> PyResult<Bound<'py, PyAny>> {
        let cell = self.step.get()?;
        let Some(mut step) = ignore_poison(cell.lock()).take() else {
            return (py.None(),).into_bound_py_any(py);
        };
        if let Some(result) = step(py, waiter.waker())? {
            return (result,).into_bound_py_any(py);
        }
        *ignore_poison(cell.lock()) = Some(step);
        f64::INFINITY.into_bound_py_any(py)
    }
}
