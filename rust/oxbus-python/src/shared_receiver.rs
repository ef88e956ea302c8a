// SPDX-License-Identifier: Apache-2.0
//! What a handle of a receiver, its session and the messages it received share.

use oxbus_broker::Receiver;
use pyo3::prelude::*;

use crate::fork::ProcessLocal;

/// The receiver behind them. An object of Python's: its references are counted under the interpreter's lock, at half the price
/// of an `Arc`.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct SharedReceiver(ProcessLocal<Receiver>);

impl SharedReceiver {
    pub(crate) fn new(receiver: ProcessLocal<Receiver>) -> Self {
        Self(receiver)
    }

    /// The receiver, or `ForkedProcessError` in a forked child.
    #[inline]
    pub(crate) fn receiver(&self) -> PyResult<&Receiver> {
        self.0.get()
    }

    /// The receiver, unless this is a forked child.
    pub(crate) fn if_same_process(&self) -> Option<&Receiver> {
        self.0.if_same_process()
    }
}
