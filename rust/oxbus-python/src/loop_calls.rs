// SPDX-License-Identifier: Apache-2.0
//! Calls that event loops start and then wait for without a thread: to a server, or to a store of this process.
//!
//! Each returns `None` where the call has to be made in the longer way: in a transaction, in memory and in a directory,
//! and for the first call of a handle in a store, which looks up its entity and so may wait for the catalog.

use std::time::Duration;

use oxbus_broker::Receiver;
use oxbus_broker::client::{
    Deliveries, Looks, SettleKey, SettleListError, Settlement, WaitOptions, WaitRegistration, WaitStep,
};
use oxbus_broker::clock::Deadline;
use oxbus_model::Result;
use oxbus_model::caps::CALL_MS_DEFAULT;
use oxbus_model::options::ReceiveMode;
use oxbus_store::Wait;
use oxbus_store::wait_queue::NotifyCallback;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::arrow::{_Columns, _ReceivedRows};
use crate::error::{OrRaise, raise};
use crate::event_loop::TaskWaiter;
use crate::pending_call::PendingCall;
use crate::receiver::ServiceBusReceiver;
use crate::sender::{ServiceBusSender, durability_of, refuse_durability, remote_batch};
use crate::settle_call::{finish_list, message};
use crate::settle_remote::{finish_remote, settle_handles};
use crate::shared_receiver::SharedReceiver;
use crate::transport::{NamespaceTransport, ReceiverTransport, SenderTransport};
use crate::{convert, transaction};

/// Makes a call that is suspended while it waits, at most until `deadline`.
async fn suspending<T>(deadline: Deadline, call: impl AsyncFnOnce(&Wait<'_>) -> T) -> T {
    let is_over = || deadline.is_over();
    call(&Wait::until(&is_over).suspending()).await
}

/// Starts a send.
pub(crate) fn start_sending(
    sender: &Bound<'_, ServiceBusSender>,
    messages: &Bound<'_, PyAny>,
    timeout: Option<f64>,
    durability: Option<&str>,
    transaction: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<PendingCall>> {
    if !transaction::is_outside(transaction) {
        return Ok(None);
    }
    match sender.get().namespace.get()? {
        NamespaceTransport::Local(namespace) if namespace.is_in_store() => {
            start_sending_to_store(sender, messages, timeout, durability)
        }
        NamespaceTransport::Local(_) => Ok(None),
        NamespaceTransport::Remote(_) => {
            let SenderTransport::Remote(remote) = sender.get().open()? else {
                return Ok(None);
            };
            convert::check_timeout(timeout)?;
            refuse_durability(durability)?;
            let call = remote.sending(remote_batch(messages, None)?, None, timeout)?;
            Ok(Some(PendingCall::on_server(call, |_, ()| Ok(()))))
        }
    }
}

fn start_sending_to_store(
    sender: &Bound<'_, ServiceBusSender>,
    messages: &Bound<'_, PyAny>,
    timeout: Option<f64>,
    durability: Option<&str>,
) -> PyResult<Option<PendingCall>> {
    let this = sender.get();
    let Some(local) = this.opened()? else { return Ok(None) };
    let deadline = convert::deadline("timeout", timeout)?;
    let durability = durability_of(local, durability)?;
    let batch = ServiceBusSender::collect_any(messages)?;
    let sender = sender.clone().unbind();
    let call = suspending(deadline, async move |wait: &Wait<'_>| {
        let local = sender.get().opened_in_same_process();
        let local = local.expect("a forked child has no threads of its parent");
        local.send_batch_async(batch, durability, wait).await
    });
    PendingCall::in_store(call, |py, sent| sent.map(|_| py.None()).or_raise()).map(Some)
}

/// Messages that were received and not handed out. Dropping it releases them.
struct Unclaimed {
    shared: Py<SharedReceiver>,
    deliveries: Deliveries,
}

impl Unclaimed {
    fn take(mut self) -> Deliveries {
        std::mem::take(&mut self.deliveries)
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(receiver) = local(&self.shared).filter(|receiver| receiver.mode() == ReceiveMode::PeekLock) {
            let keys = self.deliveries.iter().map(|delivery| SettleKey {
                index: delivery.index,
                key: delivery.claimed.key,
            });
            receiver.release(&keys.collect::<Vec<_>>(), &Wait::FOREVER);
        }
    }
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

    /// Starts to complete messages.
    pub(crate) fn start_completing(
        &self,
        py: Python<'_>,
        messages: &[Bound<'_, PyAny>],
        is_list: bool,
        transaction: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<PendingCall>> {
        if messages.is_empty() || !transaction::is_outside(transaction) {
            return Ok(None);
        }
        if !self.namespace.get()?.is_remote() {
            return self.start_completing_in_store(py, messages, is_list);
        }
        if self.acceptor()?.is_some() {
            return Ok(None);
        }
        let ReceiverTransport::Remote(remote) = self.open(py)?.get().receiver()? else {
            return Ok(None);
        };
        let call = remote.settling(settle_handles(remote, messages)?, Settlement::Complete, None)?;
        let messages: Vec<Py<PyAny>> = messages.iter().map(|message| message.clone().unbind()).collect();
        Ok(Some(PendingCall::on_server(call, move |py, settled| {
            let messages: Vec<_> = messages.into_iter().map(|message| message.into_bound(py)).collect();
            finish_remote(&messages, settled)
        })))
    }

    fn start_completing_in_store(
        &self,
        py: Python<'_>,
        messages: &[Bound<'_, PyAny>],
        is_list: bool,
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
        let deadline = Deadline::after(Some(Duration::from_millis(CALL_MS_DEFAULT)));
        let shared = shared.clone_ref(py);
        let call = suspending(deadline, async move |wait: &Wait<'_>| {
            let receiver = local(&shared).expect("a forked child has no threads of its parent");
            match (&keys[..], is_list) {
                ([key], false) => {
                    let settled = receiver.settle_async(*key, Settlement::Complete, wait).await;
                    settled.map(|()| Vec::new()).map_err(|error| SettleListError {
                        error,
                        positions: vec![0],
                        lost: Vec::new(),
                    })
                }
                _ => receiver.complete_many_async(&keys, wait).await,
            }
        });
        let messages: Vec<Py<PyAny>> = messages.iter().map(|message| message.clone().unbind()).collect();
        let finish = move |py: Python<'_>, settled: std::result::Result<Vec<usize>, SettleListError>| {
            let messages: Vec<_> = messages.into_iter().map(|message| message.into_bound(py)).collect();
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

#[pymethods]
impl ServiceBusReceiver {
    /// A step of a wait for messages, like `_receive_or_wait`, or `_receive_rows_or_wait` if there are columns.
    #[pyo3(signature = (max_message_count, waiter, columns=None))]
    fn _receiving(
        slf: &Bound<'_, Self>,
        max_message_count: i64,
        waiter: &Bound<'_, TaskWaiter>,
        columns: Option<Py<_Columns>>,
    ) -> PyResult<Option<PendingCall>> {
        let (this, py) = (slf.get(), slf.py());
        let max = this.max_count(Some(max_message_count))?;
        let Some(shared) = this.in_store(py)? else {
            return Ok(None);
        };
        let (earlier, deadline, callback) = waiter.get().begin_step()?;
        let call = receive(shared.clone_ref(py), max, earlier, deadline, callback);
        let (slf, shared, waiter) = (slf.clone().unbind(), shared.clone_ref(py), waiter.clone().unbind());
        let finish = move |py: Python<'_>, stepped: Result<WaitStep<Unclaimed>>| {
            let found = match stepped.or_raise()? {
                WaitStep::Found(unclaimed) => unclaimed.take(),
                WaitStep::Over => Deliveries::new(),
                WaitStep::Waiting(registration) => return waiter.get().end_step(registration)?.into_py_any(py),
            };
            match columns {
                Some(columns) => _ReceivedRows::new(&shared, found, columns.get(), py)?.into_py_any(py),
                None => Self::to_messages(slf.bind(py), &shared, &mut { found })?.into_py_any(py),
            }
        };
        PendingCall::in_store(call, finish).map(Some)
    }
}

/// A step of a wait for messages.
async fn receive(
    shared: Py<SharedReceiver>,
    max: usize,
    earlier: Option<WaitRegistration>,
    deadline: Deadline,
    callback: NotifyCallback,
) -> Result<WaitStep<Unclaimed>> {
    let receiver = local(&shared).expect("a forked child has no threads of its parent");
    let options = WaitOptions {
        deadline,
        cancellation: &Wait::FOREVER,
        poll_interval: None,
    };
    let mut looks = Looks::begin(receiver, earlier, &options, Some(callback));
    let deliveries = loop {
        if let Some(found) = receiver.receive_now_async(max, &Wait::FOREVER.suspending()).await? {
            break found;
        }
        if let Some(result) = looks.found_nothing() {
            return Ok(result);
        }
    };
    Ok(WaitStep::Found(Unclaimed { shared, deliveries }))
}
