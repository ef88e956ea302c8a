// SPDX-License-Identifier: Apache-2.0
//! Receiving and settling (B-120, B-146 … B-180, B-275 … B-287).

use std::collections::BTreeMap;

use oxbus_model::name::SubQueue;

use super::arrival::{EXHAUSTED, EXPIRED};
use super::entity::Entity;
use super::message::{MessageLock, MessagePhase, NEVER};
use super::{ErrorKind, Refusals, World};

/// An entity and one of its sub-queues.
pub type StreamAt = (usize, SubQueue);

/// How the holder settles a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettleAction {
    /// Remove the message.
    Complete,
    /// Return the message and count the delivery.
    Abandon,
    /// The same after a delay in milliseconds (B-468).
    AbandonFor(u64),
    /// Defer the message.
    Defer,
    /// Move the message to the dead-letter queue.
    DeadLetter,
}

/// A message as it was delivered.
#[derive(Debug, Clone)]
pub struct DeliveredMessage {
    /// Its number.
    pub number: u64,
    /// Its body.
    pub body: u64,
    /// Its delivery count.
    pub count: u32,
    /// When it was accepted.
    pub enqueued_at: u64,
    /// End of its lock.
    pub locked_until: Option<u64>,
}

impl World {
    /// True if the sub-queue requires sessions (B-187, B-190).
    pub fn needs_session(&self, (entity, sub_queue): StreamAt) -> bool {
        self.entities[entity].settings.requires_session && sub_queue == SubQueue::Main
    }

    /// The errors of a receive.
    pub fn receive_refusals(&self, (entity, sub_queue): StreamAt, has_session: bool) -> Refusals {
        let it = &self.entities[entity];
        let mut refusals = Refusals::new();
        if !it.alive {
            refusals.push(ErrorKind::EntityNotFound);
        }
        if !it.settings.status.allows_receive() {
            refusals.push(ErrorKind::EntityDisabled);
        }
        let forwards = match sub_queue {
            SubQueue::Main => it.settings.forward_to.is_some(),
            SubQueue::DeadLetter => it.settings.forward_dead_letters_to.is_some(),
        };
        let needs_session = self.needs_session((entity, sub_queue)) && !has_session;
        if forwards || needs_session {
            refusals.push(ErrorKind::InvalidOperation);
        }
        refusals
    }

    /// Records a delivery to a receiver without a session. Returns the lock of each message, or `None` in
    /// receive-and-delete mode.
    ///
    /// # Panics
    /// When the delivery is not allowed, or is empty although messages are ready.
    pub fn received(
        &mut self,
        at: StreamAt,
        delivered: &[DeliveredMessage],
        max: usize,
        locks: bool,
    ) -> Vec<Option<u64>> {
        let (entity, sub_queue) = at;
        let ready = self.entities[entity].ready(sub_queue, self.now);
        let name = self.entities[entity].name.clone();
        assert!(delivered.len() <= max, "{name}: more messages than requested");
        assert!(
            !delivered.is_empty() || ready.is_empty(),
            "{name}: {ready:?} are ready and none was delivered"
        );
        let mut highest: BTreeMap<u64, u64> = BTreeMap::new();
        for each in delivered {
            assert!(ready.contains(&each.number), "{name}: {} is not ready", each.number);
            let before = highest.insert(Entity::partition_of_number(each.number), each.number);
            assert!(before < Some(each.number), "{name}: {each:?} out of order (B-120)");
        }
        let stream = self.entities[entity].stream(sub_queue);
        for number in &ready {
            let ready_message = &stream.messages[number];
            let overtaken = highest
                .get(&Entity::partition_of_number(*number))
                .is_some_and(|highest| highest > number);
            let is_delivered = delivered.iter().any(|each| each.number == *number);
            assert!(
                is_delivered
                    || !overtaken
                    || ready_message.may_come_late
                    || ready_message.born <= stream.unordered_until,
                "{name}: {number} was overtaken by {highest:?} (B-120)"
            );
        }
        let until = self.now + self.entities[entity].settings.lock_duration_ms;
        let expected_until = locks.then_some(until);
        delivered
            .iter()
            .map(|each| {
                assert_eq!(
                    each.locked_until, expected_until,
                    "{name}: the lock ends after its duration (B-151)"
                );
                self.deliver(at, each, locks, until, None)
            })
            .collect()
    }

    /// Records the delivery of a message and returns its lock. Without locks the message is removed.
    pub(super) fn deliver(
        &mut self,
        (entity, sub_queue): StreamAt,
        each: &DeliveredMessage,
        locks: bool,
        until: u64,
        session: Option<u64>,
    ) -> Option<u64> {
        let id = self.serial();
        let stream = self.entities[entity].stream_mut(sub_queue);
        let message = stream
            .messages
            .get_mut(&each.number)
            .expect("the message was checked above");
        assert_eq!(
            (each.body, each.count, each.enqueued_at),
            (message.content.body, message.count, message.enqueued_at),
            "a message is delivered as it is stored (B-118, B-176)"
        );
        if !locks {
            stream.messages.remove(&each.number);
            return None;
        }
        message.lock = Some(MessageLock { id, until, session });
        Some(id)
    }

    /// True if the message is still under this lock.
    pub fn is_locked_by(&self, (entity, sub_queue): StreamAt, number: u64, id: u64) -> bool {
        let message = self.entities[entity].stream(sub_queue).messages.get(&number);
        message.is_some_and(|message| message.lock.is_some_and(|lock| lock.id == id))
    }

    /// The errors of a settlement, apart from those of its session and its receiver.
    pub fn settle_refusals(&self, at: StreamAt, number: u64, id: u64, action: Option<SettleAction>) -> Refusals {
        let mut refusals = Refusals::new();
        if !self.entities[at.0].alive {
            refusals.push(ErrorKind::EntityNotFound);
        }
        if !self.is_locked_by(at, number, id) {
            refusals.push(ErrorKind::MessageLockLost);
        }
        if action == Some(SettleAction::DeadLetter) && at.1 == SubQueue::DeadLetter {
            refusals.push(ErrorKind::InvalidOperation);
        }
        refusals
    }

    /// Records a settlement (B-162 … B-165).
    pub fn settled(&mut self, at: StreamAt, number: u64, action: SettleAction) {
        self.apply_settlement(at, number, (action, self.now));
        self.forward_all();
    }

    /// Applies a settlement that was called for at `since`.
    pub(super) fn apply_settlement(&mut self, at: StreamAt, number: u64, (action, since): (SettleAction, u64)) {
        let (entity, sub_queue) = at;
        match action {
            SettleAction::Complete => {
                self.entities[entity].stream_mut(sub_queue).messages.remove(&number);
            }
            SettleAction::Abandon => self.end_delivery(at, number, true),
            SettleAction::AbandonFor(ms) => {
                let now = self.now;
                self.end_delivery(at, number, true);
                let messages = &mut self.entities[entity].stream_mut(sub_queue).messages;
                if let Some(message) = messages.get_mut(&number) {
                    // Dead letters do not expire (B-254).
                    let expires_at = match sub_queue {
                        SubQueue::Main => message.expires_at,
                        SubQueue::DeadLetter => NEVER,
                    };
                    message.delayed_until = Some((since + ms).min(expires_at)).filter(|until| *until > now);
                }
            }
            SettleAction::Defer => {
                let messages = &mut self.entities[entity].stream_mut(sub_queue).messages;
                let message = messages.get_mut(&number).expect("a receiver holds the message");
                message.phase = MessagePhase::Deferred;
                message.lock = None;
            }
            SettleAction::DeadLetter => self.dead_letter(entity, number, "tested"),
        }
    }

    /// Returns a message to its entity and counts the delivery if `counted`. A deferred message was counted when it was
    /// fetched (B-281, B-282).
    pub(super) fn end_delivery(&mut self, at: StreamAt, number: u64, counted: bool) {
        let (entity, sub_queue) = at;
        let max = self.entities[entity].settings.max_delivery_count;
        let messages = &mut self.entities[entity].stream_mut(sub_queue).messages;
        let message = messages.get_mut(&number).expect("a receiver holds the message");
        message.lock = None;
        message.may_come_late = true;
        if message.phase == MessagePhase::Ready && counted {
            message.count += 1;
        }
        // At the maximum, an expired lock or an abandon dead-letters the message. A release does not (B-178, B-205).
        if counted && message.count >= max && sub_queue == SubQueue::Main {
            self.dead_letter(entity, number, EXHAUSTED);
        }
    }

    /// Moves a message to the dead-letter queue. It keeps its number and its count (B-111).
    pub(super) fn dead_letter(&mut self, entity: usize, number: u64, reason: &str) {
        let born = self.serial();
        let it = &mut self.entities[entity];
        let mut message = it.main.messages.remove(&number).expect("the message exists");
        message.content.reason = Some(reason.to_owned());
        message.phase = MessagePhase::Ready;
        message.lock = None;
        message.born = born;
        // Dead letters are appended in the order of dead-lettering, but received by number (B-265).
        message.may_come_late = true;
        it.dead.messages.insert(number, message);
    }

    /// Records a renewal and returns the new end (B-154).
    pub fn renewed(&mut self, (entity, sub_queue): StreamAt, number: u64) -> u64 {
        let until = self.now + self.entities[entity].settings.lock_duration_ms;
        let messages = &mut self.entities[entity].stream_mut(sub_queue).messages;
        let lock = messages.get_mut(&number).and_then(|message| message.lock.as_mut());
        lock.expect("a receiver holds the message").until = until;
        until
    }

    /// The errors of a fetch of deferred messages (B-278, B-279).
    pub fn fetch_refusals(&self, at: StreamAt, numbers: &[u64], session: Option<&str>) -> Refusals {
        let mut refusals = self.receive_refusals(at, session.is_some());
        let it = &self.entities[at.0];
        let partition = |number: &u64| Entity::partition_of_number(*number);
        if numbers.iter().any(|number| partition(number) != partition(&numbers[0])) {
            refusals.push(ErrorKind::InvalidOperation);
        }
        let is_fetchable = |number: &u64| {
            let message = it.stream(at.1).messages.get(number);
            message.is_some_and(|message| {
                let expires = at.1 == SubQueue::Main && message.expires_at <= self.now;
                let is_of_session = session.is_none_or(|session| message.content.session.as_deref() == Some(session));
                message.is_fetchable() && !expires && is_of_session
            })
        };
        let mut distinct = numbers.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() < numbers.len() || !numbers.iter().all(is_fetchable) {
            refusals.push(ErrorKind::MessageNotFound);
        }
        refusals
    }

    /// Records a fetch that did not find all its messages: the expired ones are removed now (B-255).
    pub fn missed(&mut self, (entity, sub_queue): StreamAt, numbers: &[u64], session: Option<&str>) {
        if sub_queue == SubQueue::DeadLetter {
            return;
        }
        let now = self.now;
        for number in numbers {
            let it = &mut self.entities[entity];
            let is_over = it.main.messages.get(number).is_some_and(|message| {
                let is_of_session = session.is_none_or(|session| message.content.session.as_deref() == Some(session));
                message.is_fetchable() && message.expires_at <= now && is_of_session
            });
            if is_over && it.settings.dead_lettering_on_message_expiration {
                self.dead_letter(entity, *number, EXPIRED);
            } else if is_over {
                it.main.messages.remove(number);
            }
        }
        self.forward_all();
    }

    /// Records a fetch of deferred messages. Each counts as a delivery (B-281).
    ///
    /// # Panics
    /// When they are not the requested messages.
    pub fn fetched(
        &mut self,
        at: StreamAt,
        numbers: &[u64],
        delivered: &[DeliveredMessage],
        locks: bool,
        session: Option<u64>,
    ) -> Vec<Option<u64>> {
        let mut got: Vec<u64> = delivered.iter().map(|each| each.number).collect();
        let mut asked = numbers.to_vec();
        got.sort_unstable();
        asked.sort_unstable();
        assert_eq!(got, asked, "all or none (B-278)");
        let until = match session {
            Some(_) => NEVER,
            None => self.now + self.entities[at.0].settings.lock_duration_ms,
        };
        let mut lock_ids = Vec::new();
        for each in delivered {
            let messages = &mut self.entities[at.0].stream_mut(at.1).messages;
            if locks {
                messages
                    .get_mut(&each.number)
                    .expect("the message was checked above")
                    .count += 1;
            }
            lock_ids.push(self.deliver(at, each, locks, until, session));
        }
        lock_ids
    }
}
