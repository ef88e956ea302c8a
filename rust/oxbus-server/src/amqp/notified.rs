// SPDX-License-Identifier: Apache-2.0
//! Links of a connection that were notified, by threads that made messages ready for them.

use std::sync::{Arc, Mutex};

use oxbus_amqp::engine::LinkId;
use oxbus_model::sync::whole;
use oxbus_store::wait_queue::Callback;
use tokio::sync::Notify;

/// The links to look at. Each has one place in a wait queue, so that there are no more notifications than links.
#[derive(Default)]
pub(super) struct NotifiedLinks {
    /// Whole after a panic: a link is in it or not, and looks again by itself.
    links: Mutex<Vec<LinkId>>,
    any: Notify,
}

impl NotifiedLinks {
    /// What the thread that notifies a link calls.
    pub(super) fn callback(self: &Arc<Self>, link: LinkId) -> Callback {
        let notified = Arc::clone(self);
        Arc::new(move || {
            whole(notified.links.lock()).push(link);
            notified.any.notify_one();
        })
    }

    /// Returns when a link was notified.
    pub(super) async fn wait(&self) {
        self.any.notified().await;
    }

    /// The links that were notified.
    pub(super) fn take(&self) -> Vec<LinkId> {
        std::mem::take(&mut *whole(self.links.lock()))
    }
}
