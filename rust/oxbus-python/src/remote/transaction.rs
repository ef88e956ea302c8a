// SPDX-License-Identifier: Apache-2.0
//! A transaction of a server.

use std::sync::atomic::{AtomicBool, Ordering};

use oxbus_client::{Client, Deadline, Transaction};
use pyo3::prelude::*;

use super::call;

/// A transaction of a server.
pub(crate) struct RemoteTransaction {
    inner: Transaction,
    is_open: AtomicBool,
}

impl RemoteTransaction {
    pub(super) fn begin(py: Python<'_>, client: &Client) -> PyResult<Self> {
        let inner = call::run(py, client.transaction(Deadline::NEVER))?;
        Ok(Self {
            inner,
            is_open: AtomicBool::new(true),
        })
    }

    pub(super) fn inner(&self) -> &Transaction {
        &self.inner
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    pub(crate) fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.is_open.store(false, Ordering::Release);
        call::run(py, self.inner.commit(Deadline::NEVER))
    }

    pub(crate) fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.is_open.store(false, Ordering::Release);
        call::run(py, self.inner.rollback(Deadline::NEVER))
    }
}
