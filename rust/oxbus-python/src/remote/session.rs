// SPDX-License-Identifier: Apache-2.0
//! The session of a receiver: its lock and its state.

use bytes::Bytes;
use oxbus_model::Timestamp;
use pyo3::prelude::*;

use super::RemoteTransaction;
use super::call;
use super::receiver::RemoteReceiver;

impl RemoteReceiver {
    /// The end of the session's lock, if the server told it.
    pub(crate) fn session_locked_until(&self) -> Option<Timestamp> {
        self.inner.session().and_then(oxbus_client::Session::locked_until)
    }

    pub(crate) fn session_state(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Bytes>> {
        let deadline = call::deadline("timeout", timeout)?;
        call::run(py, async {
            self.inner.management().await?.session_state(deadline).await
        })
    }

    pub(crate) fn set_session_state(
        &self,
        py: Python<'_>,
        state: Option<Vec<u8>>,
        transaction: Option<&RemoteTransaction>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let deadline = call::deadline("timeout", timeout)?;
        let transaction = transaction.map(|it| it.on(self.inner.path())).transpose()?;
        call::run(py, async {
            let management = self.inner.management().await?;
            management
                .set_session_state(state.map(Bytes::from), transaction, deadline)
                .await
        })
    }

    pub(crate) fn renew_session(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Timestamp> {
        let deadline = call::deadline("timeout", timeout)?;
        call::run(py, self.inner.renew_session_lock(deadline))
    }
}
