// SPDX-License-Identifier: Apache-2.0
//! Calls that may wait for a store leave the interpreter; calls in memory do not, because leaving costs more than they do.

use oxbus_store::Wait;
use pyo3::prelude::*;

use crate::{convert, waiting};

/// Messages of one call that are handled without leaving the interpreter: some 25 µs of work. A thread that leaves it while
/// others want it gets it back after a switch of threads at best, which takes longer.
pub(crate) const INLINE_MESSAGES_MAX: usize = 256;

/// Runs `work`; outside the interpreter when it may wait for a store.
#[inline]
pub(crate) fn run<T: Send>(py: Python<'_>, may_wait: bool, work: impl FnOnce(&Wait<'_>) -> T + Send) -> PyResult<T> {
    if may_wait {
        waiting::run_detached(py, work)
    } else {
        Ok(work(&Wait::FOREVER))
    }
}

/// The same for a call that has `timeout` seconds; `None` is no bound.
#[inline]
pub(crate) fn run_for<T: Send>(
    py: Python<'_>,
    may_wait: bool,
    timeout: Option<f64>,
    work: impl FnOnce(&Wait<'_>) -> T + Send,
) -> PyResult<T> {
    if may_wait {
        waiting::run_detached_until(py, convert::deadline("timeout", timeout)?, work)
    } else {
        Ok(work(&Wait::FOREVER))
    }
}
