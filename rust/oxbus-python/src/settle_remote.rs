// SPDX-License-Identifier: Apache-2.0
//! Settlements of messages that a server has.

use oxbus_client::SettleHandle;
use pyo3::prelude::*;

use crate::remote::{RemoteReceiver, SettledList};
use crate::settle_call::{SettleCall, finish_list, message};
use crate::transaction;

/// Settles messages of a server: all that can be settled. The error names the others.
pub(crate) fn settle_remote(
    remote: &RemoteReceiver,
    messages: &[Bound<'_, PyAny>],
    call: &SettleCall,
    transaction: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let handles = settle_handles(remote, messages)?;
    let Some(first) = messages.first() else {
        return Ok(());
    };
    let py = first.py();
    let changes = call.changes();
    let settlement = call.settlement(&changes);
    if let Some(transaction) = transaction::of_call(py, transaction)? {
        let transaction = transaction.get();
        let inner = Some(transaction.remote()?);
        remote.settle(py, handles, settlement, inner)?.into_result()?;
        for value in messages {
            transaction.settle_on_commit(message(value)?);
        }
        return Ok(());
    }
    finish_remote(messages, remote.settle(py, handles, settlement, None)?)
}

/// What settles the messages. All arguments are checked before the first message is settled.
pub(crate) fn settle_handles(remote: &RemoteReceiver, messages: &[Bound<'_, PyAny>]) -> PyResult<Vec<SettleHandle>> {
    let handle = |value| message(value)?.get().settle_handle(remote);
    messages.iter().map(handle).collect()
}

/// Marks the messages as settled that a server has settled.
pub(crate) fn finish_remote(messages: &[Bound<'_, PyAny>], settled: SettledList) -> PyResult<()> {
    if let [one] = messages {
        settled.into_result()?;
        message(one)?.get().set_settled();
        return Ok(());
    }
    let (unsettled, other) = settled.unsettled();
    finish_list(messages, &unsettled, other)
}
