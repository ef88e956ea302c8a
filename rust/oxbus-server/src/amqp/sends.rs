// SPDX-License-Identifier: Apache-2.0
//! Messages of a client on their way into the broker.
//!
//! Each is answered when it is as durable as its entity wants it, and not before. Those of one link are stored in their order.

use oxbus_store::Wait;
use std::sync::Arc;

use oxbus_amqp::engine::{Incoming, IncomingId, LinkId};
use oxbus_amqp::message::MESSAGE_FORMAT_BATCH;
use oxbus_amqp::performative::DeliveryState;
use oxbus_broker::Sender;
use oxbus_broker::client::Batch;
use oxbus_model::Result;
use oxbus_model::caps::MESSAGE_SIZE_BYTES_MAX;
use oxbus_model::message::NewId;

use super::connection::Connection;
use super::jobs::Done;
use super::links::Kind;
use super::transactions::Coordinator;
use super::{fault, message, runs};

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
                    let state = store(&sender, &coordinator, &it, wait);
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

/// Stores one message, or one batch; the outcome for the client.
pub(super) fn store(sender: &Sender, coordinator: &Coordinator, incoming: &Incoming, wait: &Wait<'_>) -> DeliveryState {
    if let Some(DeliveryState::Transactional { transaction_id, .. }) = &incoming.state {
        let transaction = match coordinator.transaction(transaction_id, incoming.link.session()) {
            Ok(transaction) => transaction,
            Err(fault) => return fault.into(),
        };
        let sent = batch(incoming, coordinator.new_id()).and_then(|batch| transaction.send(sender, batch, None));
        return match sent {
            Ok(_) => DeliveryState::Transactional {
                transaction_id: transaction_id.clone(),
                outcome: Some(Box::new(DeliveryState::Accepted)),
            },
            Err(error) => fault::of(&error).into(),
        };
    }
    let sent = if incoming.message_format == MESSAGE_FORMAT_BATCH {
        batch(incoming, coordinator.new_id()).and_then(|batch| sender.send_batch(batch, None, wait).map(drop))
    } else {
        message::read_new(&incoming.message, coordinator.new_id(), |fields| {
            sender.send(fields, None, wait).map(drop)
        })
    };
    match sent {
        Ok(()) => DeliveryState::Accepted,
        Err(error) => fault::of(&error).into(),
    }
}

/// The messages of a transfer, be they one or many.
fn batch(incoming: &Incoming, new_id: NewId) -> Result<Batch> {
    let mut batch = Batch::new(MESSAGE_SIZE_BYTES_MAX);
    if incoming.message_format == MESSAGE_FORMAT_BATCH {
        message::each_of_batch(&incoming.message, |one| {
            message::read_new(one, new_id, |fields| batch.push(fields))
        })?;
    } else {
        message::read_new(&incoming.message, new_id, |fields| batch.push(fields))?;
    }
    Ok(batch)
}
