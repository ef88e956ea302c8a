// SPDX-License-Identifier: Apache-2.0
//! The receiver that a `ServiceBusReceiver`, its session and its messages share.

use pyo3::prelude::*;

use crate::fork::ProcessLocal;
use crate::transport::ReceiverTransport;

/// The shared receiver. It is a Python object because its reference count, which the interpreter protects with its
/// lock, costs half as much as that of an `Arc`.
#[pyclass(frozen, module = "oxbus")]
pub(crate) struct SharedReceiver(ProcessLocal<ReceiverTransport>);

impl SharedReceiver {
    pub(crate) fn new(receiver: ProcessLocal<ReceiverTransport>) -> Self {
        Self(receiver)
    }

    /// The receiver, or `ForkedProcessError` in a forked child.
    #[inline]
    pub(crate) fn receiver(&self) -> PyResult<&ReceiverTransport> {
        self.0.get()
    }

    /// The receiver, unless this is a forked child.
    pub(crate) fn if_same_process(&self) -> Option<&ReceiverTransport> {
        self.0.if_same_process()
    }
}
