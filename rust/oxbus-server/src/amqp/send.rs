// SPDX-License-Identifier: Apache-2.0
//! Stores messages of a client.
//!
//! A message is accepted only after it is as durable as its entity requires. The messages of one link are stored in
//! order.

use std::sync::Arc;

use oxbus_amqp::engine::{IncomingDelivery, IncomingId, LinkId};
use oxbus_amqp::performative::DeliveryState;
use oxbus_broker::Sender;
use oxbus_store::Wait;

use super::connection::AmqpConnection;
use super::jobs::JobResult;
use super::links::LinkKind;
use super::spans::SendSpans;
use super::{send_groups, transfer};
use crate::blocking::call_with_timeout;

impl AmqpConnection {
    /// Stores the queued messages of a link. Returns false if there are none, or if a call is in progress.
    pub(super) fn start_sends(&mut self, id: LinkId) -> bool {
        let Some(LinkKind::Send(send_link)) = self.links.get_mut(&id).map(|link| &mut link.kind) else {
            return false;
        };
        if send_link.is_busy || send_link.queued.is_empty() {
            return false;
        }
        send_link.is_busy = true;
        let queued = std::mem::take(&mut send_link.queued);
        let sender = Arc::clone(&send_link.sender);
        self.store_all(id, sender, queued);
        true
    }

    /// Stores messages of a link, which may be detached before the call finishes.
    pub(super) fn store_all(&mut self, id: LinkId, sender: Arc<Sender>, queued: Vec<IncomingDelivery>) {
        let coordinator = Arc::clone(&self.coordinator);
        let context = self.context.clone();
        self.jobs.start_call(call_with_timeout(async move |wait: &Wait<'_>| {
            let spans = context.spans();
            let traced = spans.is_on().then(|| SendSpans::begin(sender.entity(), &queued));
            let bytes = queued.iter().map(|it| it.message.len()).sum();
            let answers: Vec<_> = if sender.entity().may_wait() {
                send_groups::store(&sender, &coordinator, queued, wait).await
            } else {
                let mut answers = Vec::with_capacity(queued.len());
                for it in queued {
                    let state = transfer::store(&sender, &coordinator, &it, wait).await;
                    answers.extend(it.id.map(|id| (id, state)));
                }
                answers
            };
            if let Some(traced) = traced {
                traced.end(&answers, spans);
            }
            JobResult::Sent(id, answers, bytes)
        }));
    }

    /// Sends the outcomes to the client.
    pub(super) fn sent(&mut self, id: LinkId, answers: Vec<(IncomingId, DeliveryState)>, bytes: usize) {
        self.queued_bytes -= bytes;
        for (incoming, state) in answers {
            self.engine.answer(incoming, state);
        }
        if let Some(LinkKind::Send(send_link)) = self.links.get_mut(&id).map(|link| &mut link.kind) {
            send_link.is_busy = false;
            if !send_link.queued.is_empty() {
                self.dirty.push(id);
            } else if send_link.is_detaching {
                self.remove(id);
                self.engine.detach(id, None);
            }
        }
    }
}
