// SPDX-License-Identifier: Apache-2.0
//! The broker receiver that a `ServiceBusReceiver`, its session and its messages share.

use oxbus_broker::Receiver;
use pyo3::prelude::*;

use crate::fork::ProcessLocal;

/// The shared receiver. It is a Python object because its reference count, which the interpreter protects with its
/// lock, costs half as much as that of an `Arc`.
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
