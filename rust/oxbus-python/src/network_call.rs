// SPDX-License-Identifier: Apache-2.0
//! A call to a server that a task of an event loop waits for.

use std::future::Future;
use std::sync::Mutex;

use oxbus_model::sync::ignore_poison;
use oxbus_store::wait_queue::NotifyCallback;
use pyo3::prelude::*;

use crate::event_loop::TaskWaiter;
use crate::fork::ProcessLocal;
use crate::remote::RemoteWait;

type Step = dyn FnMut(Python<'_>, &NotifyCallback) -> PyResult<Option<()>> + Send;

/// A call to a server. Dropping it before its end leaves open whether it has an effect.
#[pyclass(frozen, name = "_NetworkCall", module = "oxbus")]
pub(crate) struct NetworkCall {
    /// `None` once it has ended. A panic leaves it consistent: it is replaced in one step.
    step: ProcessLocal<Mutex<Option<Box<Step>>>>,
}

impl NetworkCall {
    /// A call, and what to do with its result.
    pub(crate) fn new<T: Send + 'static>(
        call: impl Future<Output = oxbus_client::Result<T>> + Send + 'static,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<()> + Send + 'static,
    ) -> Self {
        let mut wait = RemoteWait::new(call);
        let mut finish = Some(finish);
        let step = move |py: Python<'_>, callback: &NotifyCallback| {
            let Some(result) = wait.poll(py, callback)? else {
                return Ok(None);
            };
            finish.take().map_or(Ok(()), |finish| finish(py, result)).map(Some)
        };
        Self {
            step: ProcessLocal::new(Mutex::new(Some(Box::new(step)))),
        }
    }
}

#[pymethods]
impl NetworkCall {
    /// Drops the call unless it has ended. Its task may keep this object for longer.
    fn cancel(&self) {
        if let Some(cell) = self.step.if_same_process() {
            let dropped = ignore_poison(cell.lock()).take();
            drop(dropped);
        }
    }

    /// Returns `None` when the call has ended, or the seconds to sleep.
    fn step(&self, py: Python<'_>, waiter: &TaskWaiter) -> PyResult<Option<f64>> {
        let cell = self.step.get()?;
        let Some(mut step) = ignore_poison(cell.lock()).take() else {
            return Ok(None);
        };
        if step(py, waiter.callback())?.is_some() {
            return Ok(None);
        }
        *ignore_poison(cell.lock()) = Some(step);
        Ok(Some(f64::INFINITY))
    }
}
