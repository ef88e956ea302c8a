// SPDX-License-Identifier: Apache-2.0
//! A transaction of a server.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use oxbus_client::{Client, Deadline, Transaction};
use oxbus_model::{Error, ErrorKind};
use pyo3::prelude::*;

use super::call;
use crate::error::OrRaise;

/// A transaction of a server.
pub(crate) struct RemoteTransaction {
    inner: Transaction,
    is_open: AtomicBool,
    /// The path of its entity, once known. Servers allow several; a transaction over one says so here (B-306).
    entity: Option<OnceLock<String>>,
}

impl RemoteTransaction {
    pub(super) fn begin(py: Python<'_>, client: &Client, cross_entity: bool) -> PyResult<Self> {
        let inner = call::run(py, client.transaction(Deadline::NEVER))?;
        Ok(Self {
            inner,
            is_open: AtomicBool::new(true),
            entity: (!cross_entity).then(OnceLock::new),
        })
    }

    /// The transaction for a call on an entity or its sub-queues. Fails if it is over another one.
    pub(super) fn on(&self, path: &str) -> PyResult<&Transaction> {
        let path = path.split("/$").next().unwrap_or(path);
        let first = self
            .entity
            .as_ref()
            .map(|entity| entity.get_or_init(|| path.to_owned()));
        if first.is_none_or(|first| first.eq_ignore_ascii_case(path)) {
            return Ok(&self.inner);
        }
        let detail = "Local transactions cannot span multiple entities or partitions. Use one entity and one key, or \
                      transaction(cross_entity=True) for several entities with the same key.";
        Err(Error::new(ErrorKind::InvalidOperation, detail)).or_raise()
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
