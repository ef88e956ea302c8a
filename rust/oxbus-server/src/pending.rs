// SPDX-License-Identifier: Apache-2.0
//! Messages that were received for a client and not sent to it yet, and waiting for such messages.
//!
//! Waiting does not occupy a thread. Messages that could not be sent completely are released without counting a
//! delivery: a client cannot settle a message that it did not get.

use std::sync::Arc;
use std::time::Instant;

use oxbus_broker::Receiver;
use oxbus_broker::client::{Deliveries, Looks, SettleKey, WaitOptions, WaitRegistration, WaitStep};
use oxbus_broker::clock::Deadline;
use oxbus_model::Result;
use oxbus_model::options::ReceiveMode;
use oxbus_store::Wait;
use oxbus_store::wait_queue::NotifyCallback;
use tokio::sync::watch;

use crate::blocking::{call_with_timeout, run_suspending};
use crate::wait::wait_until_found;

/// Messages that are released if this is dropped before [`PendingDeliveries::mark_sent`].
pub(crate) struct PendingDeliveries {
    receiver: Arc<Receiver>,
    deliveries: Deliveries,
    is_sent: bool,
}

impl PendingDeliveries {
    pub(crate) fn new(receiver: &Arc<Receiver>, deliveries: Deliveries) -> Self {
        Self {
            receiver: Arc::clone(receiver),
            deliveries,
            is_sent: false,
        }
    }

    pub(crate) fn receiver(&self) -> &Arc<Receiver> {
        &self.receiver
    }

    pub(crate) fn deliveries(&self) -> &Deliveries {
        &self.deliveries
    }

    /// Moves the deliveries to the caller, which must send or release them.
    pub(crate) fn take_deliveries(&mut self) -> Deliveries {
        std::mem::take(&mut self.deliveries)
    }

    /// Marks all messages as sent: dropping this no longer releases them.
    pub(crate) fn mark_sent(&mut self) {
        self.is_sent = true;
    }
}

impl Drop for PendingDeliveries {
    fn drop(&mut self) {
        if self.is_sent || self.deliveries.is_empty() || self.receiver.mode() != ReceiveMode::PeekLock {
            return;
        }
        let keys: Vec<SettleKey> = self
            .deliveries
            .iter()
            .map(|delivery| SettleKey {
                index: delivery.index,
                key: delivery.claimed.key,
            })
            .collect();
        let receiver = Arc::clone(&self.receiver);
        let release = move || receiver.release(&keys, &Wait::FOREVER);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(release)),
            Err(_) => release(),
        }
    }
}

/// One step of a wait for up to `max` messages. `found` sees them, and when the look began that found them.
pub(crate) async fn receive_step(
    (receiver, max): (&Arc<Receiver>, usize),
    earlier: Option<WaitRegistration>,
    options: &WaitOptions<'_>,
    callback: NotifyCallback,
    found: impl FnOnce(&PendingDeliveries, Instant),
    store: &Wait<'_>,
) -> Result<WaitStep<PendingDeliveries>> {
    let mut looks = Looks::begin(&**receiver, earlier, options, Some(callback));
    loop {
        let began = oxbus_system::instant();
        if let Some(deliveries) = receiver.receive_now_async(max, store).await? {
            let pending = PendingDeliveries::new(receiver, deliveries);
            found(&pending, began);
            return Ok(WaitStep::Found(pending));
        }
        if let Some(result) = looks.found_nothing() {
            return Ok(result);
        }
    }
}

/// Receives messages. Waits for the first one until the deadline or until the server stops. Returns `None` if none
/// arrived.
pub(crate) async fn receive(
    receiver: &Arc<Receiver>,
    max: usize,
    deadline: Deadline,
    stopped: watch::Receiver<bool>,
) -> Result<Option<PendingDeliveries>> {
    wait_until_found(stopped.clone(), |earlier, callback| {
        let (receiver, is_stopped) = (Arc::clone(receiver), stopped.clone());
        run_suspending(call_with_timeout(async move |store: &Wait<'_>| {
            let is_over = || *is_stopped.borrow();
            let options = WaitOptions {
                deadline,
                cancellation: &Wait::until(&is_over),
                poll_interval: None,
            };
            receive_step((&receiver, max), earlier, &options, callback, |_, _| (), store).await
        }))
    })
    .await
}
