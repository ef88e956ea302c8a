// SPDX-License-Identifier: Apache-2.0
//! Calls that event loops start and then wait for without a thread: to a server, or to a store of this process.
//!
//! Each returns `None` where the call has to be made in the longer way: in a transaction, in memory and in a directory,
//! and for the first call of a handle in a store, which looks up its entity and so may wait for the catalog.

mod receives;
mod sends;
mod session_states;
mod settlements;
mod transactions;

use oxbus_broker::Receiver;
use oxbus_broker::clock::Deadline;
use oxbus_store::Wait;
use pyo3::prelude::*;

pub(crate) use self::sends::start_sending;
use crate::convert;
use crate::receiver::ServiceBusReceiver;
use crate::shared_receiver::SharedReceiver;
use crate::transport::{NamespaceTransport, ReceiverTransport};

/// Makes a call that is suspended while it waits, at most until `deadline`.
async fn suspending<T>(deadline: Deadline, call: impl AsyncFnOnce(&Wait<'_>) -> T) -> T {
    let is_over = || deadline.is_over();
    call(&Wait::until(&is_over).suspending()).await
}

/// The end of a call with a timeout in seconds.
fn deadline_of(timeout: Option<f64>) -> PyResult<Deadline> {
    convert::check_timeout(timeout)?;
    convert::deadline("timeout", timeout)
}

/// The receiver of this process.
fn local(shared: &Py<SharedReceiver>) -> Option<&Receiver> {
    match shared.get().if_same_process()? {
        ReceiverTransport::Local(receiver) => Some(receiver),
        ReceiverTransport::Remote(_) => None,
    }
}

impl ServiceBusReceiver {
    /// The receiver, if it is one of this process in a store, and its first call was made.
    fn in_store(&self, py: Python<'_>) -> PyResult<Option<&Py<SharedReceiver>>> {
        match self.namespace.get()? {
            NamespaceTransport::Local(namespace) if namespace.is_in_store() && self.shared.get().is_some() => {
                self.open(py).map(Some)
            }
            _ => Ok(None),
        }
    }
}
