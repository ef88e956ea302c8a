// SPDX-License-Identifier: Apache-2.0
//! Messages on their way to a client: as many as it gives credit for, as soon as they are there.
//!
//! A link looks for messages when it has credit, and waits in the queue of its entity when there are none; nothing polls.
//! What was taken and cannot be sent goes back at once, nothing charged, unless it is gone when it is received.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use oxbus_amqp::engine::{LinkId, Outgoing, SendRefused};
use oxbus_broker::Receiver;
use oxbus_broker::client::{Delivery, SettleKey, Step, WaitOptions, step};
use oxbus_broker::clock::Deadline;
use oxbus_broker::entity::Entity;
use oxbus_model::caps::AMQP_LOOK_MESSAGES;
use oxbus_model::message::Fields;
use oxbus_model::options::ReceiveMode;
use oxbus_model::{ErrorKind, Result};
use oxbus_store::Wait;
use tokio::time::Instant;

use super::connection::Connection;
use super::jobs::Done;
use super::links::Kind;
use super::message::{Seen, State};
use super::{fault, message, token};
use crate::taken::Taken;

impl Connection {
    /// Looks for messages of a link, or for its session.
    pub(super) fn look(&mut self, id: LinkId) {
        match self.links.get(&id).map(|link| &link.kind) {
            Some(Kind::Opening(_)) => self.look_for_session(id),
            Some(Kind::Receives(_)) => self.look_for_messages(id),
            _ => {}
        }
    }

    fn look_for_messages(&mut self, id: LinkId) {
        self.send_unsent(id);
        let wanted = self.engine.sendable(id) as usize;
        let Some(Kind::Receives(receives)) = self.links.get_mut(&id).map(|link| &mut link.kind) else {
            return;
        };
        if receives.is_looking {
            receives.again = true;
            return;
        }
        if wanted == 0 {
            // Dropped, a notification that was not taken goes to the next who waits.
            receives.waiting = None;
            if self.engine.credit(id) > 0 {
                if !self.stalled.contains(&id) {
                    self.stalled.push(id);
                }
            } else if receives.is_draining {
                receives.is_draining = false;
                self.engine.drained(id);
            }
            return;
        }
        if receives.session_lost_at.is_some() || !receives.unsent.is_empty() {
            return;
        }
        receives.is_looking = true;
        receives.again = false;
        let max = wanted.min(AMQP_LOOK_MESSAGES);
        let receiver = Arc::clone(&receives.receiver);
        let earlier = receives.waiting.take();
        // A link that is drained does not wait.
        let drained = Deadline::after(receives.is_draining.then_some(Duration::ZERO));
        let callback = self.notified.callback(id);
        self.jobs.start(move |store| {
            let options = WaitOptions {
                deadline: drained,
                cancellation: &Wait::FOREVER,
                ask_every: None,
            };
            let take = || Taken::take(&receiver, max, store);
            Done::Looked(id, step(&*receiver, earlier, &options, Some(callback), take))
        });
    }

    pub(super) fn looked(&mut self, id: LinkId, stepped: Result<Step<Taken>>) {
        let Some(link) = self.links.get_mut(&id) else {
            // What was taken goes back when the step is dropped.
            return;
        };
        let Kind::Receives(receives) = &mut link.kind else {
            return;
        };
        receives.is_looking = false;
        let again = std::mem::take(&mut receives.again);
        match stepped {
            Ok(Step::Found(mut taken)) => {
                link.used_at = Instant::now();
                receives.unsent.extend(taken.take_all());
                return self.look_for_messages(id);
            }
            Ok(Step::Waiting(waiting)) => receives.waiting = Some(waiting),
            Ok(Step::Over) => {}
            Err(error) if error.kind() == ErrorKind::SessionLockLost => {
                // A client that iterates a session when its lock ends finds the end of the iteration first (B-201).
                receives.session_lost_at = Some(Instant::now());
                return self.set_timer(id);
            }
            Err(error) => return self.detach(id, fault::of(&error)),
        }
        if receives.is_draining {
            receives.is_draining = false;
            receives.waiting = None;
            return self.engine.drained(id);
        }
        if again {
            return self.look_for_messages(id);
        }
        self.set_timer(id);
    }

    /// Sends what was taken; what the client has no credit for any more goes back.
    fn send_unsent(&mut self, id: LinkId) {
        let Some(Kind::Receives(receives)) = self.links.get_mut(&id).map(|link| &mut link.kind) else {
            return;
        };
        let mut refused = None;
        while let Some(delivery) = receives.unsent.front() {
            match send(&mut self.engine, &mut self.head, id, &receives.receiver, delivery) {
                Ok(()) => {
                    receives.unsent.pop_front();
                }
                Err(reason) => {
                    refused = Some(reason);
                    break;
                }
            }
        }
        let is_locked = receives.receiver.mode() == ReceiveMode::PeekLock;
        if is_locked && matches!(refused, Some(SendRefused::NoCredit | SendRefused::Gone)) {
            let keys: Vec<SettleKey> = receives.unsent.drain(..).map(|it| key(&it)).collect();
            let receiver = Arc::clone(&receives.receiver);
            self.jobs.start(move |wait| {
                receiver.release(&keys, wait);
                Done::Nothing
            });
        }
    }
}

fn key(delivery: &Delivery) -> SettleKey {
    SettleKey {
        index: delivery.index,
        key: delivery.claimed.key,
    }
}

/// Writes one message into the output.
fn send(
    engine: &mut oxbus_amqp::engine::Engine,
    head: &mut BytesMut,
    id: LinkId,
    receiver: &Receiver,
    delivery: &Delivery,
) -> std::result::Result<(), SendRefused> {
    if engine.sendable(id) == 0 {
        return Err(if engine.credit(id) == 0 {
            SendRefused::NoCredit
        } else {
            SendRefused::NoWindow
        });
    }
    let claimed = &delivery.claimed;
    let lock_token = (receiver.mode() == ReceiveMode::PeekLock).then(|| receiver.token(key(delivery)));
    let seen = Seen {
        number: Entity::sequence_number(delivery.index, claimed.key.counter),
        enqueued_at: claimed.enqueued_at,
        expires_at: claimed.expires_at,
        delivery_count: claimed.delivery_count,
        // A message of a session is under the session's lock.
        locked_until: delivery.locked_until.filter(|_| lock_token.is_some()),
        lock_token,
        state: State::Active,
    };
    let record = claimed.record.in_memory().expect("what is handed out is in memory");
    let fields = Fields::decode(record).expect("a record was checked when it was stored");
    head.clear();
    let rest = message::write_head(head, &fields, &seen);
    // Some clients refuse a transfer without a tag; one that is settled already needs none, so it is empty.
    let tag = lock_token.map_or(oxbus_amqp::codec::Tag::EMPTY, token::tag);
    let outgoing = Outgoing {
        tag: Some(&tag),
        message_format: 0,
        settled: lock_token.is_none(),
        parts: &[head, rest],
    };
    engine.send(id, &outgoing).map(drop)
}
