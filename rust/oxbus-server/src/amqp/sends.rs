// SPDX-License-Identifier: Apache-2.0
//! Messages of a client on their way into the broker.
//!
//! Each is answered when it is as durable as its entity wants it, and not before. Those of one link are stored in their order.

use std::sync::Arc;

use oxbus_amqp::engine::{Incoming, IncomingId, LinkId};
use oxbus_amqp::performative::DeliveryState;
use oxbus_broker::Sender;

use super::connection::Connection;
use super::jobs::Done;
use super::links::Kind;
use super::{runs, stores};

impl Connection {
    /// Stores what a link has queued; false when it has nothing, or a call is under way.
    pub(super) fn start_sends(&mut self, id: LinkId) -> bool {
        let Some(Kind::Sends(sends)) = self.links.get_mut(&id).map(|link| &mut link.kind) else {
            return false;
        };
        if sends.is_busy || sends.queued.is_empty() {
            return false;
        }
        sends.is_busy = true;
        let queued = std::mem::take(&mut sends.queued);
        let sender = Arc::clone(&sends.sender);
        self.store_all(id, sender, queued);
        true
    }

    /// Stores messages of a link, which may be gone by then.
    pub(super) fn store_all(&mut self, id: LinkId, sender: Arc<Sender>, queued: Vec<Incoming>) {
        let coordinator = Arc::clone(&self.coordinator);
        self.jobs.start(move |wait| {
            let bytes = queued.iter().map(|it| it.message.len()).sum();
            let answers = if sender.queue().may_wait() {
                runs::store(&sender, &coordinator, queued, wait)
            } else {
                let answer = |it: Incoming| {
                    let state = stores::store(&sender, &coordinator, &it, wait);
                    it.id.map(|id| (id, state))
                };
                queued.into_iter().filter_map(answer).collect()
            };
            Done::Sent(id, answers, bytes)
        });
    }

    /// Tells the client what became of its messages.
    pub(super) fn sent(&mut self, id: LinkId, answers: Vec<(IncomingId, DeliveryState)>, bytes: usize) {
        self.queued_bytes -= bytes;
        for (incoming, state) in answers {
            self.engine.answer(incoming, state);
        }
        if let Some(Kind::Sends(sends)) = self.links.get_mut(&id).map(|link| &mut link.kind) {
            sends.is_busy = false;
            if !sends.queued.is_empty() {
                self.dirty.push(id);
            } else if sends.is_detaching {
                self.remove(id);
                self.engine.detach(id, None);
            }
        }
    }
}
