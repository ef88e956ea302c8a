// SPDX-License-Identifier: Apache-2.0
//! A call that a task of an event loop waits for: to a server, or one that is suspended while a store takes its time.
//! It holds no thread meanwhile.

use std::future::Future;
use std::sync::Mutex;
use std::task::Waker;

use oxbus_model::sync::ignore_poison;
use oxbus_store::suspended::SuspendedCall;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::event_loop::TaskWaiter;
use crate::fork::ProcessLocal;
use crate::remote::RemoteWait;

/// How often a suspended call looks whether its wait is over, in seconds.
const CHECK_SECONDS: f64 = 0.25;

/// Goes on with a call. Returns its result at its end.
type Step = dyn FnMut(Python<'_>, &Waker) -> PyResult<Option<Py<PyAny>>> + Send;

/// Where a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On a server. Dropping it before its end leaves open whether it has an effect.
    Server,
    /// In a store of this process. Once it has begun it ends: dropping it waits for that.
    Store {
        /// True if it begins without a wait.
        begins_at_once: bool,
    },
}

enum CallState {
    /// Between two steps, and before the first.
    Waiting(Box<Step>),
    /// In a step.
    Running,
    /// It has ended or was cancelled.
    Ended,
}

/// A call in progress.
#[pyclass(frozen, name = "_PendingCall", module = "oxbus")]
pub(crate) struct PendingCall {
    place: Place,
    /// A panic leaves it consistent: it is replaced in one step.
    state: ProcessLocal<Mutex<CallState>>,
}

impl PendingCall {
    /// A call to a server, and what to do with its result.
    pub(crate) fn on_server<T: Send + 'static>(
        call: impl Future<Output = oxbus_client::Result<T>> + Send + 'static,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<()> + Send + 'static,
    ) -> Self {
        let mut wait = RemoteWait::new(call);
        let mut finish = Some(finish);
        Self::new(Place::Server, move |py, waker| {
            let Some(result) = wait.poll(py, waker)? else {
                return Ok(None);
            };
            finish.take().map_or(Ok(()), |finish| finish(py, result))?;
            Ok(Some(py.None()))
        })
    }

    /// A call to a store of this process, and what to do with its result.
    pub(crate) fn in_store<T: Send + 'static>(
        begins_at_once: bool,
        call: impl Future<Output = T> + Send + 'static,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        let mut state = Some((SuspendedCall::new(call), finish));
        Self::new(Place::Store { begins_at_once }, move |py, waker| {
            let Some((call, finish)) = state.take() else {
                return Ok(None);
            };
            match py.detach(|| call.go_on(waker)) {
                Ok(done) => finish(py, done).map(Some),
                Err(suspended) => {
                    state = Some((suspended, finish));
                    Ok(None)
                }
            }
        })
    }

    fn new(place: Place, step: impl FnMut(Python<'_>, &Waker) -> PyResult<Option<Py<PyAny>>> + Send + 'static) -> Self {
        Self {
            place,
            state: ProcessLocal::new(Mutex::new(CallState::Waiting(Box::new(step)))),
        }
    }
}

#[pymethods]
impl PendingCall {
    /// True if the first step does not wait.
    #[getter]
    fn begins_at_once(&self) -> bool {
        self.place != Place::Store { begins_at_once: false }
    }

    /// True if a call that has begun goes on when its task is cancelled.
    #[getter]
    fn always_ends(&self) -> bool {
        self.place != Place::Server
    }

    /// Drops the call unless it has ended. Its task may keep this object for longer.
    fn cancel(&self, py: Python<'_>) {
        if let Some(state) = self.state.if_same_process() {
            let dropped = replace(state, CallState::Ended);
            py.detach(|| drop(dropped));
        }
    }

    /// Returns a tuple of the result when the call has ended, or the seconds to sleep.
    fn step<'py>(&self, py: Python<'py>, waiter: &TaskWaiter) -> PyResult<Bound<'py, PyAny>> {
        let state = self.state.get()?;
        let CallState::Waiting(mut step) = replace(state, CallState::Running) else {
            *ignore_poison(state.lock()) = CallState::Ended;
            return (py.None(),).into_bound_py_any(py);
        };
        if let Some(result) = step(py, waiter.waker())? {
            *ignore_poison(state.lock()) = CallState::Ended;
            return (result,).into_bound_py_any(py);
        }
        let mut now = ignore_poison(state.lock());
        if matches!(*now, CallState::Running) {
            *now = CallState::Waiting(step);
        } else {
            drop(now);
            // It was cancelled during the step.
            py.detach(|| drop(step));
        }
        let seconds = if self.always_ends() {
            CHECK_SECONDS
        } else {
            f64::INFINITY
        };
        seconds.into_bound_py_any(py)
    }
}

fn replace(state: &Mutex<CallState>, next: CallState) -> CallState {
    std::mem::replace(&mut *ignore_poison(state.lock()), next)
}
