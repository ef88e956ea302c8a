// SPDX-License-Identifier: Apache-2.0
//! Fork: a child process rejects the handles of its parent instead of hanging on their locks.
//!
//! A handle records the fork count at its creation. Only the fork handler in the child increments that count. The
//! child never drops a handle of its parent: dropping takes locks that a thread of the parent may have held at the
//! fork. The child closes the files that lock the parent's directories, so that the locks end with the parent.

#![expect(unsafe_code, reason = "a value of the parent is never dropped")]

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_model::{Error, ErrorKind};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::error::raise;
use crate::ids;

static FORKS: AtomicU64 = AtomicU64::new(0);

/// The number of forks from the process that loaded the library to this one.
pub(crate) fn count() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

extern "C" fn forked_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    ids::change_prefix_in_child();
}

/// Registers the fork handler, once per process.
pub(crate) fn register_handler() -> PyResult<()> {
    // The handler adds to an atomic and asks the kernel for random bytes, which is async-signal-safe.
    oxbus_system::on_fork(forked_in_child).map_err(|error| {
        PyRuntimeError::new_err(format!(
            "the fork handler could not be registered; free memory and import again: {error}"
        ))
    })
}

/// A value that only the process that created it uses and drops. A forked child does neither.
pub(crate) struct ProcessLocal<T> {
    value: ManuallyDrop<T>,
    forks_at_creation: u64,
}

impl<T> ProcessLocal<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            forks_at_creation: FORKS.load(Ordering::Relaxed),
        }
    }

    fn is_forked(&self) -> bool {
        FORKS.load(Ordering::Relaxed) != self.forks_at_creation
    }

    /// The value, or `ForkedProcessError` in a forked child.
    #[inline]
    pub(crate) fn get(&self) -> PyResult<&T> {
        if self.is_forked() {
            Err(forked())
        } else {
            Ok(&self.value)
        }
    }

    /// The value, unless this is a forked child.
    pub(crate) fn if_same_process(&self) -> Option<&T> {
        (!self.is_forked()).then_some(&*self.value)
    }

    /// Wraps a value that belongs to the same process as this one.
    pub(crate) fn sibling<U>(&self, value: U) -> ProcessLocal<U> {
        ProcessLocal {
            value: ManuallyDrop::new(value),
            forks_at_creation: self.forks_at_creation,
        }
    }
}

#[cold]
fn forked() -> PyErr {
    let detail = "this handle was made before the process forked; open the namespace in the child process";
    raise(&Error::new(ErrorKind::Forked, detail))
}

impl<T> Drop for ProcessLocal<T> {
    fn drop(&mut self) {
        if !self.is_forked() {
            // SAFETY: `value` is dropped here only, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
