// SPDX-License-Identifier: Apache-2.0
//! Who rings for a connection: threads that made messages ready for one of its links.

use std::sync::{Arc, Mutex};

use oxbus_amqp::engine::LinkId;
use oxbus_model::sync::whole;
use tokio::sync::Notify;

/// Links that were rung for. Each has one place among those who wait, so that there are no more rings than links.
#[derive(Default)]
pub(super) struct Bell {
    /// Whole after a panic: a link is in it or not, and looks again by itself.
    rung: Mutex<Vec<LinkId>>,
    notify: Notify,
}

impl Bell {
    /// What a ringer calls.
    pub(super) fn callback(self: &Arc<Self>, link: LinkId) -> Arc<dyn Fn() + Send + Sync> {
        let bell = Arc::clone(self);
        Arc::new(move || {
            whole(bell.rung.lock()).push(link);
            bell.notify.notify_one();
        })
    }

    /// Returns when somebody has rung.
    pub(super) async fn wait(&self) {
        self.notify.notified().await;
    }

    /// The links that were rung for.
    pub(super) fn take(&self) -> Vec<LinkId> {
        std::mem::take(&mut *whole(self.rung.lock()))
    }
}
