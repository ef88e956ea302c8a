// SPDX-License-Identifier: Apache-2.0
//! Commits of transactions.

use oxbus_model::Result;
use oxbus_store::Wait;
use pyo3::prelude::*;

use super::suspending;
use crate::error::OrRaise;
use crate::pending_call::PendingCall;
use crate::transaction::Transaction;
use crate::transport::TransactionTransport;
use crate::waiting::default_deadline;

#[pymethods]
impl Transaction {
    /// Starts `commit`.
    fn _committing(slf: &Bound<'_, Self>) -> PyResult<Option<PendingCall>> {
        match slf.get().inner.get()? {
            TransactionTransport::Local(inner) if inner.is_in_store() => {}
            _ => return Ok(None),
        }
        let committing = slf.get().begin_commit();
        let transaction = slf.clone().unbind();
        let call = suspending(default_deadline(), async move |wait: &Wait<'_>| {
            let inner = transaction.get().if_same_process();
            inner
                .expect("a forked child has no threads of its parent")
                .commit_async(wait)
                .await
        });
        let slf = slf.clone().unbind();
        let finish = move |py: Python<'_>, committed: Result<()>| {
            slf.get().end_commit(py, committing, committed.or_raise())?;
            Ok(py.None())
        };
        PendingCall::in_store(call, finish).map(Some)
    }
}
