// SPDX-License-Identifier: Apache-2.0
//! Sends messages to a client, as many as it gave credit for, as soon as they are ready.
//!
//! A link with credit tries to receive, and registers in the wait queue of its entity if there is no message. There
//! is no polling. Messages that cannot be sent are released at once without counting a delivery, except in
//! receive-and-delete mode, where they are already removed.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use oxbus_amqp::engine::{LinkId, OutgoingDelivery, SendError};
use oxbus_broker::Receiver;
use oxbus_broker::client::{Delivery, SettleKey, WaitOptions, WaitStep};
use oxbus_broker::clock::Deadline;
use oxbus_broker::entity::Entity;
use oxbus_model::caps::AMQP_TAKE_MESSAGES;
use oxbus_model::message::Fields;
use oxbus_model::options::ReceiveMode;
use oxbus_model::{ErrorKind, Result};
use oxbus_store::Wait;
use tokio::time::Instant;

use super::connection::AmqpConnection;
use super::fault;
use super::jobs::JobResult;
use super::links::LinkKind;
use super::spans;
use crate::blocking::call_with_timeout;
use crate::pending::{PendingDeliveries, receive_step};
use oxbus_amqp::record::{self, AmqpMessageMetadata, MessageStateAnnotation, token};

impl AmqpConnection {
    /// Tries to receive for a link, or to accept its session.
    pub(super) fn resume(&mut self, id: LinkId) {
        match self.links.get(&id).map(|link| &link.kind) {
            Some(LinkKind::Attaching(_)) => self.try_accept_session(id),
            Some(LinkKind::Receive(_)) => self.try_receive(id),
            _ => {}
        }
    }

    fn try_receive(&mut self, id: LinkId) {
        self.send_unsent(id);
        let credit = self.engine.sendable(id) as usize;
        let Some(LinkKind::Receive(receive_link)) = self.links.get_mut(&id).map(|link| &mut link.kind) else {
            return;
        };
        if receive_link.is_attempting {
            receive_link.retry = true;
            return;
        }
        if credit == 0 {
            // Dropping the registration passes an unused notification to the next waiter.
            receive_link.waiting = None;
            if self.engine.credit(id) > 0 {
                if !self.stalled.contains(&id) {
                    self.stalled.push(id);
                }
            } else if receive_link.is_draining {
                receive_link.is_draining = false;
                self.engine.drained(id);
            }
            return;
        }
        if receive_link.session_lost_at.is_some() || !receive_link.unsent.is_empty() {
            return;
        }
        if self.is_draining {
            // Dropping the registration passes an unused notification to the next waiter.
            receive_link.waiting = None;
            return;
        }
        receive_link.is_attempting = true;
        receive_link.retry = false;
        let max = credit.min(AMQP_TAKE_MESSAGES);
        let receiver = Arc::clone(&receive_link.receiver);
        let registration = receive_link.waiting.take();
        // A draining link does not wait.
        let deadline = Deadline::after(receive_link.is_draining.then_some(Duration::ZERO));
        let callback = self.notified.callback(id);
        let context = self.context.clone();
        self.jobs.start_call(call_with_timeout(async move |store: &Wait<'_>| {
            let options = WaitOptions {
                deadline,
                cancellation: &Wait::FOREVER,
                poll_interval: None,
            };
            let record = |found: &PendingDeliveries, began| {
                if context.spans().is_on() {
                    spans::record_receive(found, began, context.spans());
                }
            };
            let stepped = receive_step((&receiver, max), registration, &options, callback, record, store).await;
            JobResult::ReceiveStep(id, stepped)
        }));
    }

    pub(super) fn on_receive_step(&mut self, id: LinkId, stepped: Result<WaitStep<PendingDeliveries>>) {
        let Some(link) = self.links.get_mut(&id) else {
            // Dropping the step releases the messages.
            return;
        };
        let LinkKind::Receive(receive_link) = &mut link.kind else {
            return;
        };
        receive_link.is_attempting = false;
        let retry = std::mem::take(&mut receive_link.retry);
        match stepped {
            // Dropping the step releases the messages.
            Ok(WaitStep::Found(_)) if self.is_draining && receive_link.receiver.mode() == ReceiveMode::PeekLock => {}
            Ok(WaitStep::Found(mut pending)) => {
                link.used_at = Instant::now();
                receive_link.unsent.extend(pending.take_deliveries());
                return self.try_receive(id);
            }
            Ok(WaitStep::Waiting(waiting)) => receive_link.waiting = Some(waiting),
            Ok(WaitStep::Over) => {}
            Err(error) if error.kind() == ErrorKind::SessionLockLost => {
                // A client that iterates over a session when its lock ends sees the end of the iteration first
                // (B-201).
                receive_link.session_lost_at = Some(Instant::now());
                return self.set_timer(id);
            }
            Err(error) => return self.detach(id, fault::of(&error)),
        }
        if receive_link.is_draining {
            receive_link.is_draining = false;
            receive_link.waiting = None;
            return self.engine.drained(id);
        }
        if retry {
            return self.try_receive(id);
        }
        self.set_timer(id);
    }

    /// Sends the received messages. Releases those for which the client no longer has credit.
    fn send_unsent(&mut self, id: LinkId) {
        let Some(LinkKind::Receive(receive_link)) = self.links.get_mut(&id).map(|link| &mut link.kind) else {
            return;
        };
        let is_locked = receive_link.receiver.mode() == ReceiveMode::PeekLock;
        // Only locked messages are settled, which removes their contexts.
        let notes_contexts = is_locked && self.context.spans().is_on();
        let mut send_error = None;
        let mut sent = 0;
        while let Some(delivery) = receive_link.unsent.front() {
            match send(&mut self.engine, &mut self.head, id, &receive_link.receiver, delivery) {
                Ok(()) => {
                    self.message_counts.1 += 1;
                    sent += 1;
                    if let Some(delivery) = receive_link.unsent.pop_front()
                        && notes_contexts
                    {
                        receive_link.contexts.note(&receive_link.receiver, &delivery);
                    }
                }
                Err(reason) => {
                    send_error = Some(reason);
                    break;
                }
            }
        }
        if is_locked && matches!(send_error, Some(SendError::NoCredit | SendError::LinkNotFound)) {
            let keys: Vec<SettleKey> = receive_link.unsent.drain(..).map(|it| settle_key(&it)).collect();
            let receiver = Arc::clone(&receive_link.receiver);
            self.jobs.start(move |wait| {
                receiver.release(&keys, wait);
                JobResult::Nothing
            });
        }
        if let Some(link) = self.links.get_mut(&id) {
            link.messages += sent;
        }
    }
}

fn settle_key(delivery: &Delivery) -> SettleKey {
    SettleKey {
        index: delivery.index,
        key: delivery.claimed.key,
    }
}

/// Writes one message to the output buffer.
fn send(
    engine: &mut oxbus_amqp::engine::Engine,
    head: &mut BytesMut,
    id: LinkId,
    receiver: &Receiver,
    delivery: &Delivery,
) -> std::result::Result<(), SendError> {
    if engine.sendable(id) == 0 {
        return Err(if engine.credit(id) == 0 {
            SendError::NoCredit
        } else {
            SendError::NoWindow
        });
    }
    let claimed = &delivery.claimed;
    let lock_token = (receiver.mode() == ReceiveMode::PeekLock).then(|| receiver.token(settle_key(delivery)));
    let metadata = AmqpMessageMetadata {
        number: Entity::sequence_number(delivery.index, claimed.key.counter),
        enqueued_at: claimed.enqueued_at,
        expires_at: claimed.expires_at,
        delivery_count: claimed.delivery_count,
        // A message of a session is locked by the session's lock.
        locked_until: delivery.locked_until.filter(|_| lock_token.is_some()),
        lock_token,
        state: MessageStateAnnotation::Active,
        partition: receiver
            .entity()
            .visible_partition(delivery.index)
            .map(|partition| partition.0),
    };
    let record = claimed.record.in_memory().expect("a delivered record is in memory");
    let fields = Fields::decode(record).expect("a record was checked when it was stored");
    head.clear();
    let rest = record::write_head(head, &fields, &metadata);
    // Some clients reject a transfer without a tag. A settled transfer has no lock token, so its tag is empty.
    let tag = lock_token.map_or(oxbus_amqp::codec::Tag::EMPTY, token::tag);
    let outgoing = OutgoingDelivery {
        tag: Some(&tag),
        message_format: 0,
        settled: lock_token.is_none(),
        parts: &[head, rest],
    };
    engine.send(id, &outgoing).map(drop)
}
