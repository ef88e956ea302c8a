// SPDX-License-Identifier: Apache-2.0
//! Messages that were received for a client and not sent to it yet, and waiting for such messages.
//!
//! Waiting does not occupy a thread. Messages that could not be sent completely are released without counting a
//! delivery: a client cannot settle a message that it did not get.

use oxbus_store::Wait;
use oxbus_store::suspended::run_now;
use std::sync::Arc;

use oxbus_broker::Receiver;
use oxbus_broker::client::{Deliveries, SettleKey};
use oxbus_broker::clock::Deadline;
use oxbus_model::Result;
use oxbus_model::options::ReceiveMode;
use tokio::sync::watch;

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

    /// Receives up to `max` messages without waiting. Returns `None` if there is none.
    pub(crate) async fn receive_now(receiver: &Arc<Receiver>, max: usize, store: &Wait<'_>) -> Result<Option<Self>> {
        let found = receiver.receive_now_async(max, store).await?;
        Ok(found.map(|deliveries| Self::new(receiver, deliveries)))
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

/// Receives messages. Waits for the first one until the deadline or until the server stops. Returns `None` if none
/// arrived.
pub(crate) async fn receive(
    receiver: &Arc<Receiver>,
    max: usize,
    deadline: Deadline,
    stopped: watch::Receiver<bool>,
) -> Result<Option<PendingDeliveries>> {
    wait_until_found(receiver, deadline, stopped, move |receiver, store| {
        run_now(PendingDeliveries::receive_now(receiver, max, store))
    })
    .await
}
