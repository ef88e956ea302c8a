// SPDX-License-Identifier: Apache-2.0
//! Settlements.

use std::sync::Arc;

use oxbus_broker::client::{SettleKey, SettleListError};
use oxbus_store::Wait;
use pyo3::prelude::*;

use super::{local, suspending};
use crate::error::raise;
use crate::pending_call::PendingCall;
use crate::receiver::ServiceBusReceiver;
use crate::settle_call::{SettleCall, finish_list, message};
use crate::settle_remote::{finish_remote, settle_handles};
use crate::settle_rows::{finish_rows, settle_rows, settlement_of_rows};
use crate::transport::ReceiverTransport;
use crate::waiting::default_deadline;
use crate::{arrow, transaction};

impl ServiceBusReceiver {
    /// Starts to settle messages.
    pub(crate) fn start_settling(
        &self,
        py: Python<'_>,
        (messages, is_list): (&[Bound<'_, PyAny>], bool),
        settlement: &Arc<SettleCall>,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<PendingCall>> {
        if messages.is_empty() || !transaction::is_outside(transaction) {
            return Ok(None);
        }
        if !self.namespace.get()?.is_remote() {
            return self.start_settling_in_store(py, (messages, is_list), settlement);
        }
        if self.acceptor()?.is_some() {
            return Ok(None);
        }
        let ReceiverTransport::Remote(remote) = self.open(py)?.get().receiver()? else {
            return Ok(None);
        };
        let handles = settle_handles(remote, messages)?;
        let call = remote.settling(handles, settlement.settlement(&settlement.changes()), None)?;
        let messages = unbound(messages);
        Ok(Some(PendingCall::on_server(call, move |py, settled| {
            finish_remote(&bound(py, messages), settled)
        })))
    }

    fn start_settling_in_store(
        &self,
        py: Python<'_>,
        (messages, is_list): (&[Bound<'_, PyAny>], bool),
        settlement: &Arc<SettleCall>,
    ) -> PyResult<Option<PendingCall>> {
        let Some(shared) = self.in_store(py)? else {
            return Ok(None);
        };
        let ReceiverTransport::Local(receiver) = shared.get().receiver()? else {
            return Ok(None);
        };
        // All arguments are checked before the first message is settled.
        let keys = messages.iter().map(|value| message(value)?.get().settle_key(receiver));
        let keys: Vec<SettleKey> = keys.collect::<PyResult<_>>()?;
        let (shared, settlement) = (shared.clone_ref(py), Arc::clone(settlement));
        let call = suspending(default_deadline(), async move |wait: &Wait<'_>| {
            let receiver = local(&shared).expect("a forked child has no threads of its parent");
            let changes = settlement.changes();
            let settlement = settlement.settlement(&changes);
            match (&keys[..], is_list) {
                ([key], false) => {
                    let settled = receiver.settle_async(*key, settlement, wait).await;
                    settled.map(|()| Vec::new()).map_err(|error| SettleListError {
                        error,
                        positions: vec![0],
                        lost: Vec::new(),
                    })
                }
                _ => receiver.settle_many_async(&keys, settlement, wait).await,
            }
        });
        let messages = unbound(messages);
        let finish = move |py: Python<'_>, settled: std::result::Result<Vec<usize>, SettleListError>| {
            let messages = bound(py, messages);
            match settled {
                Ok(lost) => finish_list(&messages, &lost, None),
                Err(SettleListError { error, positions, .. }) => {
                    finish_list(&messages, &positions, Some(raise(&error)))
                }
            }
            .map(|()| py.None())
        };
        PendingCall::in_store(call, finish).map(Some)
    }
}

fn unbound(messages: &[Bound<'_, PyAny>]) -> Vec<Py<PyAny>> {
    messages.iter().map(|message| message.clone().unbind()).collect()
}

fn bound(py: Python<'_>, messages: Vec<Py<PyAny>>) -> Vec<Bound<'_, PyAny>> {
    messages.into_iter().map(|message| message.into_bound(py)).collect()
}

#[pymethods]
impl ServiceBusReceiver {
    /// Starts `settle_arrow`.
    fn _settling_rows(&self, py: Python<'_>, batch: &Bound<'_, PyAny>, outcome: &str) -> PyResult<Option<PendingCall>> {
        let settlement = settlement_of_rows(outcome)?;
        let Some(shared) = self.in_store(py)? else {
            return Ok(None);
        };
        let tokens = arrow::lock_tokens(batch)?;
        let total = tokens.tokens.len();
        let shared = shared.clone_ref(py);
        let call = suspending(default_deadline(), async move |wait: &Wait<'_>| {
            let receiver = local(&shared).expect("a forked child has no threads of its parent");
            settle_rows(receiver, &tokens, settlement, wait).await
        });
        PendingCall::in_store(call, move |py, settled| finish_rows(settled, total).map(|()| py.None())).map(Some)
    }
}
