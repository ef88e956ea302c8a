// SPDX-License-Identifier: Apache-2.0
//! Calls that may wait for a store detach from the interpreter. Calls in memory do not, because detaching costs more
//! than the call.

use oxbus_store::Wait;
use pyo3::prelude::*;

use crate::{convert, waiting};

/// The maximum number of messages that a call handles without detaching from the interpreter: about 25 µs. Reattaching
/// under contention costs at least a thread switch, which takes longer.
pub(crate) const INLINE_MESSAGES_MAX: usize = 256;

/// Runs `work`, detached from the interpreter if it may wait for a store.
#[inline]
pub(crate) fn run<T: Send>(py: Python<'_>, may_wait: bool, work: impl FnOnce(&Wait<'_>) -> T + Send) -> PyResult<T> {
    if may_wait {
        waiting::run_detached(py, work)
    } else {
        Ok(work(&Wait::FOREVER))
    }
}

/// Like [`run`], with a time limit of `timeout` seconds. `None` sets no limit.
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
