// SPDX-License-Identifier: Apache-2.0
//! Messages that were taken for a client and are not on their way yet, and waiting for them.
//!
//! Waiting takes no thread. What could not be sent to the end goes back at once, nothing charged: nobody can settle what did
//! not arrive.

use oxbus_store::Wait;
use std::sync::Arc;

use oxbus_broker::Receiver;
use oxbus_broker::client::{Deliveries, SettleKey};
use oxbus_broker::clock::Deadline;
use oxbus_model::Result;
use oxbus_model::options::ReceiveMode;
use tokio::sync::watch;

use crate::wait::until_found;

/// Messages that go back when this is dropped before [`Taken::keep`].
pub(crate) struct Taken {
    receiver: Arc<Receiver>,
    deliveries: Deliveries,
    is_kept: bool,
}

impl Taken {
    pub(crate) fn new(receiver: &Arc<Receiver>, deliveries: Deliveries) -> Self {
        Self {
            receiver: Arc::clone(receiver),
            deliveries,
            is_kept: false,
        }
    }

    /// Takes up to `max` messages without waiting; `None` when there is none.
    pub(crate) fn take(receiver: &Arc<Receiver>, max: usize, store: &Wait<'_>) -> Result<Option<Self>> {
        let found = receiver.receive_now(max, store)?;
        Ok(found.map(|deliveries| Self::new(receiver, deliveries)))
    }

    pub(crate) fn receiver(&self) -> &Arc<Receiver> {
        &self.receiver
    }

    pub(crate) fn deliveries(&self) -> &Deliveries {
        &self.deliveries
    }

    /// Gives them out: they are the caller's to send or to give back.
    pub(crate) fn take_all(&mut self) -> Deliveries {
        std::mem::take(&mut self.deliveries)
    }

    /// They are the client's now.
    pub(crate) fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.is_kept || self.deliveries.is_empty() || self.receiver.mode() != ReceiveMode::PeekLock {
            return;
        }
        let held: Vec<SettleKey> = self
            .deliveries
            .iter()
            .map(|delivery| SettleKey {
                index: delivery.index,
                key: delivery.claimed.key,
            })
            .collect();
        let receiver = Arc::clone(&self.receiver);
        let give_back = move || receiver.release(&held, &Wait::FOREVER);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(give_back)),
            Err(_) => give_back(),
        }
    }
}

/// Takes messages; waits for the first until the deadline, or until the server is to end. `None` when none came.
pub(crate) async fn wait(
    receiver: &Arc<Receiver>,
    max: usize,
    deadline: Deadline,
    stopped: watch::Receiver<bool>,
) -> Result<Option<Taken>> {
    until_found(receiver, deadline, stopped, move |receiver, store| {
        Taken::take(receiver, max, store)
    })
    .await
}
