// SPDX-License-Identifier: Apache-2.0
//! Receives, also of deferred messages.

use oxbus_broker::client::{Deliveries, Looks, SettleKey, WaitOptions, WaitRegistration, WaitStep};
use oxbus_broker::clock::Deadline;
use oxbus_model::Result;
use oxbus_model::options::ReceiveMode;
use oxbus_store::Wait;
use oxbus_store::wait_queue::NotifyCallback;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use super::{deadline_of, local, suspending};
use crate::arrow::{_Columns, _ReceivedRows};
use crate::convert;
use crate::error::OrRaise;
use crate::event_loop::TaskWaiter;
use crate::pending_call::PendingCall;
use crate::receiver::ServiceBusReceiver;
use crate::shared_receiver::SharedReceiver;

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

    /// Starts `receive_deferred_messages`.
    #[pyo3(signature = (sequence_numbers, *, timeout=60.0))]
    fn _receiving_deferred(
        slf: &Bound<'_, Self>,
        sequence_numbers: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Option<PendingCall>> {
        let py = slf.py();
        let Some(shared) = slf.get().in_store(py)? else {
            return Ok(None);
        };
        let deadline = deadline_of(timeout)?;
        let numbers = convert::sequence_numbers(sequence_numbers)?;
        let call = {
            let shared = shared.clone_ref(py);
            suspending(deadline, async move |wait: &Wait<'_>| {
                let receiver = local(&shared).expect("a forked child has no threads of its parent");
                let deliveries = receiver.receive_deferred_async(&numbers, wait).await?;
                Ok(Unclaimed { shared, deliveries })
            })
        };
        let (slf, shared) = (slf.clone().unbind(), shared.clone_ref(py));
        let finish = move |py: Python<'_>, found: Result<Unclaimed>| {
            let mut found = found.or_raise()?.take();
            Self::to_messages(slf.bind(py), &shared, &mut found)?.into_py_any(py)
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
