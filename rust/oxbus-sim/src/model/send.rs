// SPDX-License-Identifier: Apache-2.0
//! Sends: routing, errors, duplicates, schedules (B-061 … B-084, B-184, B-218 … B-243).

use oxbus_model::ErrorKind;

use super::arrival::Arrival;
use super::entity::{Entity, FirstSeen, Kind};
use super::message::{Content, Message, MessagePhase, NEVER};
use super::{Refusals, World};

impl World {
    /// The key that chooses the partition of a message (B-063) in a partitioned entity.
    pub fn key_of(&self, entity: usize, content: &Content) -> Option<String> {
        let settings = &self.entities[entity].settings;
        if !settings.enable_partitioning {
            return None;
        }
        let id = content.id.clone().filter(|_| settings.requires_duplicate_detection);
        content.session.clone().or(content.key.clone()).or(id)
    }

    /// The errors of sending a batch.
    pub fn send_refusals(&self, entity: usize, batch: &[Content]) -> Refusals {
        let target = &self.entities[entity];
        let settings = &target.settings;
        let mut refusals = Refusals::new();
        if !target.alive {
            refusals.push(ErrorKind::EntityNotFound);
        }
        if !settings.status.allows_send() {
            refusals.push(ErrorKind::EntityDisabled);
        }
        if matches!(target.kind, Kind::Subscription(_)) {
            refusals.push(ErrorKind::InvalidOperation);
        }
        let differ = |it: &Content| it.session.is_some() && it.key.is_some() && it.session != it.key;
        if batch.iter().any(differ) {
            refusals.push(ErrorKind::KeyMismatch);
        }
        if settings.requires_session && batch.iter().any(|it| it.session.is_none()) {
            refusals.push(ErrorKind::InvalidOperation);
        }
        if settings.enable_partitioning {
            let keys: Vec<Option<String>> = batch.iter().map(|it| self.key_of(entity, it)).collect();
            let keyless = settings.requires_duplicate_detection && keys.iter().any(Option::is_none);
            if keyless || keys.iter().any(|key| *key != keys[0]) {
                refusals.push(ErrorKind::InvalidOperation);
            }
        }
        refusals
    }

    /// Remembers the id of a message that is not a duplicate. Returns whether it is new (B-219, B-220, B-229).
    pub fn remember_if_new(&mut self, entity: usize, content: &Content) -> bool {
        let Some(identity) = self.identity(entity, content) else {
            return true;
        };
        let window = self.entities[entity].settings.duplicate_window_ms;
        let is_new = self
            .first_seen(entity, content)
            .is_none_or(|first| self.now >= first.since + window);
        if is_new {
            let (since, step, body) = (self.now, self.step, content.body);
            let seen = FirstSeen { since, step, body };
            self.entities[entity].seen.insert(identity, seen);
        }
        is_new
    }

    /// The identity of a message in an entity with duplicate detection.
    fn identity(&self, entity: usize, content: &Content) -> Option<(Option<String>, String)> {
        let drops = self.entities[entity].settings.requires_duplicate_detection;
        let id = content.id.clone().filter(|_| drops)?;
        Some((self.key_of(entity, content), id))
    }

    /// The first message with the same identity.
    pub(super) fn first_seen(&self, entity: usize, content: &Content) -> Option<FirstSeen> {
        let identity = self.identity(entity, content)?;
        self.entities[entity].seen.get(&identity).copied()
    }

    /// Time to live of a message, in milliseconds (B-247).
    pub fn life_of(&self, entity: usize, content: &Content) -> u64 {
        let default = self.entities[entity].settings.default_time_to_live_ms.unwrap_or(NEVER);
        content.ttl_ms.unwrap_or(NEVER).min(default)
    }

    /// Records an accepted batch with the number of each message.
    ///
    /// # Panics
    /// When a number is wrong.
    pub fn sent(&mut self, entity: usize, batch: &[Content], due: Option<u64>, numbers: &[u64]) {
        assert_eq!(batch.len(), numbers.len(), "each message has a number");
        let partition = Entity::partition_of_number(numbers[0]);
        for (content, &number) in batch.iter().zip(numbers) {
            let own = Entity::partition_of_number(number);
            assert_eq!(own, partition, "a batch goes whole to one partition (B-079)");
            if let Some(key) = self.key_of(entity, content) {
                assert_eq!(own, self.partition_of(entity, &key), "the key {key:?} pins (B-071)");
            } else if !self.entities[entity].settings.enable_partitioning {
                assert_eq!(own, 0, "not partitioned");
            }
            if !self.remember_if_new(entity, content) {
                let target = &self.entities[entity];
                let known = target.main.messages.contains_key(&number) || target.dead.messages.contains_key(&number);
                assert!(!known, "the number of a duplicate names no message (B-227)");
                continue;
            }
            self.entities[entity].take_number(number);
            self.accept(entity, content.clone(), due, number);
        }
        self.forward_all();
    }

    /// Stores a message under a number.
    pub(super) fn accept(&mut self, entity: usize, content: Content, due: Option<u64>, number: u64) {
        let due = due.filter(|due| *due > self.now);
        let life = self.life_of(entity, &content);
        if due.is_none() && self.entities[entity].kind == Kind::Topic {
            let partition = Some(Entity::partition_of_number(number));
            self.fan_out(entity, &content, Some(number), partition, self.now, life);
            return;
        }
        let message = Message {
            phase: due.map_or(MessagePhase::Ready, |due| MessagePhase::Scheduled { due }),
            content,
            count: 0,
            enqueued_at: self.now,
            expires_at: self.now.saturating_add(life),
            lock: None,
            delayed_until: None,
            born: self.serial(),
            may_come_late: false,
        };
        self.entities[entity].main.messages.insert(number, message);
    }

    /// Records a message that arrives at a queue or a topic under a number that a later browse shows.
    pub(super) fn arrive(&mut self, entity: usize, content: Content, partition: Option<u64>, at: u64) {
        let life = self.life_of(entity, &content);
        self.arrive_for(entity, content, partition, at, life);
    }

    /// Records an arrival like [`Self::arrive`], with a known time to live.
    pub(super) fn arrive_for(&mut self, entity: usize, content: Content, partition: Option<u64>, at: u64, life: u64) {
        if self.entities[entity].kind == Kind::Topic {
            self.entities[entity].unseen_numbers += 1;
            self.fan_out(entity, &content, None, partition, at, life);
            return;
        }
        // A message that is already expired expires first.
        let is_late = at.saturating_add(life) <= self.now;
        let dead = self.entities[entity].settings.requires_session && content.session.is_none() && !is_late;
        self.entities[entity].arrivals.push(Arrival {
            content: content.dead_lettered_without_session(dead),
            partition,
            enqueued_at: at,
            expires_at: at.saturating_add(life),
            dead,
        });
    }

    /// The errors of cancelling scheduled messages (B-238, B-239).
    pub fn cancel_refusals(&self, entity: usize, numbers: &[u64]) -> Refusals {
        let target = &self.entities[entity];
        let mut refusals = Refusals::new();
        if !target.alive {
            refusals.push(ErrorKind::EntityNotFound);
        }
        if !target.settings.status.allows_send() {
            refusals.push(ErrorKind::EntityDisabled);
        }
        let partition = |number: &u64| Entity::partition_of_number(*number);
        if numbers.iter().any(|it| partition(it) != partition(&numbers[0])) {
            refusals.push(ErrorKind::InvalidOperation);
        }
        let is_waiting = |number: &u64| {
            let message = target.main.messages.get(number);
            message.is_some_and(|it| matches!(it.phase, MessagePhase::Scheduled { .. }))
        };
        if !numbers.iter().all(is_waiting) {
            refusals.push(ErrorKind::MessageNotFound);
        }
        refusals
    }

    /// Records a cancellation.
    pub fn cancelled(&mut self, entity: usize, numbers: &[u64]) {
        for number in numbers {
            self.entities[entity].main.messages.remove(number);
        }
    }
}
