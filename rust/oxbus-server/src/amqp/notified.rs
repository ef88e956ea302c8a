// SPDX-License-Identifier: Apache-2.0
//! The links of a connection that other threads have notified of ready messages.

use std::sync::{Arc, Mutex};

use oxbus_amqp::engine::LinkId;
use oxbus_model::sync::ignore_poison;
use oxbus_store::wait_queue::NotifyCallback;
use tokio::sync::Notify;

/// The notified links. A link has one registration in a wait queue, so there are never more notifications than links.
#[derive(Default)]
pub(super) struct NotifiedLinks {
    /// A panic leaves it consistent: a link is either in the list or not, and it retries without a new notification.
    links: Mutex<Vec<LinkId>>,
    any: Notify,
}

impl NotifiedLinks {
    /// The callback that notifies a link.
    pub(super) fn callback(self: &Arc<Self>, link: LinkId) -> NotifyCallback {
        let notified = Arc::clone(self);
        Arc::new(move || {
            ignore_poison(notified.links.lock()).push(link);
            notified.any.notify_one();
        })
    }

    /// Waits until a link is notified.
    pub(super) async fn wait(&self) {
        self.any.notified().await;
    }

    /// Takes all notified links.
    pub(super) fn take(&self) -> Vec<LinkId> {
        std::mem::take(&mut *ignore_poison(self.links.lock()))
    }
}
