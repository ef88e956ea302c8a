// SPDX-License-Identifier: Apache-2.0
//! Create, update, delete, purge and resubmit (B-008 … B-033, B-332, B-345, B-396 … B-405).

use oxbus_model::hash::partition_of;
use oxbus_model::name::SubQueue;
use oxbus_model::options::{EntityStatus, QueueSettings};

use super::entity::{Entity, Kind};
use super::message::FirstNumber;
use super::topic::Rule;
use super::{ErrorKind, Refusals, World};

impl World {
    /// The errors of creating an entity.
    pub fn create_refusals(&self, name: &str, kind: Kind, settings: &QueueSettings) -> Refusals {
        // A queue may forward to itself (B-033).
        let made = (kind == Kind::Queue).then_some(name);
        let mut refusals = self.settings_refusals(made, settings);
        if self.find(name).is_some() {
            refusals.push(ErrorKind::EntityAlreadyExists);
        }
        if let Kind::Subscription(topic) = kind
            && !self.entities[topic].alive
        {
            refusals.push(ErrorKind::EntityNotFound);
        }
        refusals
    }

    fn settings_refusals(&self, made: Option<&str>, settings: &QueueSettings) -> Refusals {
        let mut refusals = Refusals::new();
        for path in [&settings.forward_to, &settings.forward_dead_letters_to]
            .into_iter()
            .flatten()
        {
            let to = self
                .find(path)
                .filter(|to| !matches!(self.entities[*to].kind, Kind::Subscription(_)));
            if to.is_none() && !made.is_some_and(|made| path.eq_ignore_ascii_case(made)) {
                refusals.push(ErrorKind::InvalidOperation);
            }
        }
        refusals
    }

    /// Records a new entity and returns its index.
    pub fn created(&mut self, name: &str, kind: Kind, mut settings: QueueSettings, rules: Vec<Rule>) -> usize {
        let home = if let Kind::Subscription(topic) = kind {
            settings.enable_partitioning = self.entities[topic].settings.enable_partitioning;
            self.entities[topic].home
        } else {
            partition_of(name.to_ascii_lowercase().as_bytes(), self.partitions.into()) as u16
        };
        let mut entity = Entity::new(name, kind, settings, home);
        entity.rules = rules;
        self.entities.push(entity);
        self.forward_all();
        self.entities.len() - 1
    }

    /// The errors of an update of settings (B-008, B-031, B-332).
    pub fn update_refusals(&self, entity: usize, next: &QueueSettings) -> Refusals {
        let it = &self.entities[entity];
        let held = &it.settings;
        let mut refusals = self.settings_refusals(None, next);
        let changes = held.enable_partitioning != next.enable_partitioning
            || held.requires_session != next.requires_session
            || held.requires_duplicate_detection != next.requires_duplicate_detection;
        // The status disables an operation that the kind does not have (B-396).
        let is_odd = matches!(
            (it.kind, next.status),
            (Kind::Topic, EntityStatus::ReceiveDisabled) | (Kind::Subscription(_), EntityStatus::SendDisabled)
        );
        if changes || is_odd {
            refusals.push(ErrorKind::InvalidOperation);
        }
        refusals
    }

    /// Records an update of settings.
    pub fn updated(&mut self, entity: usize, next: QueueSettings) {
        self.entities[entity].settings = next;
        self.forward_all();
    }

    /// Records the deletion of an entity with its messages, and of a topic's subscriptions.
    pub fn deleted(&mut self, entity: usize) {
        let mut gone = self.subscriptions(entity);
        gone.push(entity);
        for entity in gone {
            let it = &mut self.entities[entity];
            it.alive = false;
            it.main.messages.clear();
            it.dead.messages.clear();
            it.arrivals.clear();
        }
        self.forward_all();
    }

    /// The errors of a purge: those of a receive, without the session.
    pub fn purge_refusals(&self, entity: usize, sub_queue: SubQueue) -> Refusals {
        let mut refusals = self.receive_refusals((entity, sub_queue), true);
        if self.entities[entity].kind == Kind::Topic {
            refusals.push(ErrorKind::InvalidOperation);
        }
        refusals
    }

    /// The errors of resubmitting dead letters: those of a purge and of a send.
    pub fn resubmit_refusals(&self, entity: usize) -> Refusals {
        let mut refusals = self.purge_refusals(entity, SubQueue::DeadLetter);
        if !self.entities[entity].settings.status.allows_send() {
            refusals.push(ErrorKind::EntityDisabled);
        }
        refusals
    }

    /// Records a purge of up to `limit` unlocked messages. `left` are the remaining ones (B-402).
    ///
    /// # Panics
    /// When the number of messages is wrong.
    pub fn purged(&mut self, entity: usize, sub_queue: SubQueue, limit: usize, removed: usize, left: &[u64]) {
        let ready = self.entities[entity].ready(sub_queue, self.now);
        assert_eq!(
            removed,
            ready.len().min(limit),
            "a purge removes unlocked messages (B-402)"
        );
        self.remove_ready(entity, sub_queue, &ready, removed, left);
    }

    fn remove_ready(
        &mut self,
        entity: usize,
        sub_queue: SubQueue,
        ready: &[u64],
        count: usize,
        left: &[u64],
    ) -> Vec<(u64, super::message::Message)> {
        let gone: Vec<u64> = ready.iter().copied().filter(|number| !left.contains(number)).collect();
        assert_eq!(gone.len(), count, "the removed messages match the count");
        let born = self.serial();
        let stream = self.entities[entity].stream_mut(sub_queue);
        stream.unordered_until = born;
        gone.iter()
            .map(|number| {
                (
                    *number,
                    stream.messages.remove(number).expect("the list above has the message"),
                )
            })
            .collect()
    }

    /// Records resubmitted dead letters: they become new messages without a reason (B-270). `left` are the
    /// remaining ones. If sessions are required, messages without a session id stay (B-272). None is dropped as a
    /// duplicate, but their later duplicates are.
    ///
    /// # Panics
    /// When the number of messages is wrong.
    pub fn resubmitted(&mut self, entity: usize, limit: usize, count: usize, left: &[u64]) {
        let mut ready = self.entities[entity].ready(SubQueue::DeadLetter, self.now);
        let it = &self.entities[entity];
        let is_queue = it.kind == Kind::Queue;
        if it.settings.requires_session {
            ready.retain(|number| it.dead.messages[number].content.session.is_some());
        }
        assert_eq!(count, ready.len().min(limit), "all unlocked ones are resubmitted");
        for (number, message) in self.remove_ready(entity, SubQueue::DeadLetter, &ready, count, left) {
            let mut content = message.content;
            content.reason = None;
            content.hops = 0;
            if is_queue {
                content.first_number = FirstNumber::None;
            }
            self.remember_if_new(entity, &content);
            let partition = Some(Entity::partition_of_number(number));
            self.arrive(entity, content, partition, self.now);
        }
        self.forward_all();
    }
}
