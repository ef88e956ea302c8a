// SPDX-License-Identifier: Apache-2.0
//! The states of sessions.

use oxbus_store::Wait;
use pyo3::prelude::*;

use super::{deadline_of, local, suspending};
use crate::error::OrRaise;
use crate::pending_call::PendingCall;
use crate::session::{ServiceBusSession, state_bytes};
use crate::transaction;
use crate::transport::ReceiverTransport;

#[pymethods]
impl ServiceBusSession {
    /// Starts `set_state`.
    #[pyo3(signature = (state, *, timeout=None, transaction=None))]
    fn _setting_state(
        &self,
        py: Python<'_>,
        state: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<PendingCall>> {
        if !transaction::is_outside(transaction) {
            return Ok(None);
        }
        match self.shared.get().receiver()? {
            ReceiverTransport::Local(receiver) if receiver.entity().is_in_store() => {}
            _ => return Ok(None),
        }
        let deadline = deadline_of(timeout)?;
        let bytes = state.map(state_bytes).transpose()?;
        let shared = self.shared.clone_ref(py);
        let call = suspending(deadline, async move |wait: &Wait<'_>| {
            let receiver = local(&shared).expect("a forked child has no threads of its parent");
            receiver.set_session_state_async(bytes.as_deref(), wait).await
        });
        PendingCall::in_store(call, |py, set| set.map(|()| py.None()).or_raise()).map(Some)
    }
}
