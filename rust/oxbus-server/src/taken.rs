// SPDX-License-Identifier: Apache-2.0
//! Messages that were taken for a client and are not on their way yet, and waiting for them.
//!
//! Waiting takes no thread. What could not be sent to the end goes back at once, nothing charged: nobody can settle what did
//! not arrive.

use oxbus_store::Wait;
use std::sync::Arc;

use oxbus_broker::Receiver;
use oxbus_broker::client::{Deliveries, SettleKey};
use oxbus_model::Result;
use oxbus_model::options::ReceiveMode;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::accept::until_stopped;
use crate::work::on_thread;

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
    deadline: Instant,
    mut stopped: watch::Receiver<bool>,
) -> Result<Option<Taken>> {
    loop {
        if let Some(taken) = look(receiver, max).await? {
            return Ok(Some(taken));
        }
        if Instant::now() >= deadline || *stopped.borrow() {
            return Ok(None);
        }
        let rung = Arc::new(Notify::new());
        let bell = Arc::clone(&rung);
        let mut ticket = receiver.register(Arc::new(move || bell.notify_one()));
        // Registered first, looked again second: what arrived in between is found here or rings.
        if let Some(taken) = look(receiver, max).await? {
            return Ok(Some(taken));
        }
        let again = receiver
            .look_again_after()
            .map_or(deadline, |wait| Instant::now() + wait);
        tokio::select! {
            () = rung.notified() => {}
            () = tokio::time::sleep_until(again.min(deadline)) => {}
            () = until_stopped(&mut stopped) => {}
        }
        ticket.take_ring();
    }
}

async fn look(receiver: &Arc<Receiver>, max: usize) -> Result<Option<Taken>> {
    let receiver = Arc::clone(receiver);
    on_thread(move |wait| {
        let found = receiver.receive_now(max, wait)?;
        Ok(found.map(|deliveries| Taken::new(&receiver, deliveries)))
    })
    .await
}
