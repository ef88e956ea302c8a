// SPDX-License-Identifier: Apache-2.0
//! Calls that wait for a disk leave the interpreter; calls in memory do not, because leaving costs more than they do.

use pyo3::prelude::*;

use crate::waiting;

/// Runs `work`; outside the interpreter when it may wait for a disk.
#[inline]
pub(crate) fn run<T: Send>(py: Python<'_>, may_wait: bool, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    if may_wait {
        waiting::outside(py, work)
    } else {
        Ok(work())
    }
}
