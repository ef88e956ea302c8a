// SPDX-License-Identifier: Apache-2.0
//! Auto-forwarding: moves ready messages of an entity, or of its dead-letter queue, to another entity (B-331 … B-342,
//! B-269).
//!
//! One thread at a time moves the messages of an entity (`worker`). It moves, dead-letters or blocks each message
//! (`outcome`), and tries blocked messages again once their obstacle may be gone (`blocked`). Within a shard, one
//! journal entry moves a message. A move to another shard stores the message with its origin, removes it at the
//! source, then forgets the origin (`transfer`, `shard::arrived`).

mod blocked;
mod outcome;
mod transfer;
mod worker;

use oxbus_store::Wait;
use std::collections::HashSet;
use std::sync::{Arc, Weak};

use oxbus_model::caps::HOPS_MAX;
use oxbus_model::name::SubQueue;
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Error, ErrorKind, Moment, Result, Ticks, Timestamp};

pub(crate) use self::transfer::forget_origins;
pub(super) use self::worker::Forwarding;
use super::Entity;
use crate::shard::journal::EntityId;

pub(super) const SUB_QUEUES: [SubQueue; 2] = [SubQueue::Main, SubQueue::DeadLetter];

impl Entity {
    /// Path of the entity to which the messages of a sub-queue are forwarded.
    pub(crate) fn forwards_to(&self, sub_queue: SubQueue) -> Option<String> {
        let settings = self.settings();
        match sub_queue {
            SubQueue::Main => settings.forward_to.clone(),
            SubQueue::DeadLetter => settings.forward_dead_letters_to.clone(),
        }
    }

    /// True if ready messages of a sub-queue are forwarded.
    #[inline]
    pub(crate) fn is_forwarding(&self, sub_queue: SubQueue) -> bool {
        let settings = self.settings();
        match sub_queue {
            SubQueue::Main => settings.forward_to.is_some(),
            SubQueue::DeadLetter => settings.forward_dead_letters_to.is_some(),
        }
    }

    /// Fails if the messages of a sub-queue are forwarded, because they cannot be received (B-137).
    pub(crate) fn check_not_forwarding(&self, sub_queue: SubQueue) -> Result<()> {
        if !self.is_forwarding(sub_queue) {
            return Ok(());
        }
        let detail = format!(
            "Cannot create a message receiver on an entity with auto-forwarding enabled. Receive from the entity that it forwards to: \
             `{}` forwards to `{}`",
            self.name().as_str(),
            self.forwards_to(sub_queue).unwrap_or_default()
        );
        Err(Error::new(ErrorKind::InvalidOperation, detail))
    }

    /// Adds an entity that forwards here. A tick of this entity ticks it too.
    pub(crate) fn add_source(&self, source: &Arc<Self>) {
        let mut sources = ignore_poison(self.forwarding.sources.write());
        sources.insert(source.id(), Arc::downgrade(source));
    }

    /// Removes an entity that no longer forwards here.
    pub(crate) fn remove_source(&self, source: &Self) {
        ignore_poison(self.forwarding.sources.write()).remove(&source.id());
    }

    /// The entities that forward here directly.
    fn known_sources(&self) -> Vec<Arc<Self>> {
        let known = ignore_poison(self.forwarding.sources.read());
        known.values().filter_map(Weak::upgrade).collect()
    }

    /// Ticks the entities whose messages may be forwarded here, the farthest first.
    pub(super) fn tick_sources(&self, moment: Moment, wait: &Wait<'_>) {
        for source in self.all_sources().iter().rev() {
            source.tick_cells(moment, wait);
        }
    }

    /// The entities whose messages may be forwarded here, the nearest first: those within the maximum number of hops,
    /// and the topics of subscriptions among them.
    fn all_sources(&self) -> Vec<Arc<Self>> {
        let mut sources = self.known_sources();
        if sources.is_empty() {
            return sources;
        }
        let mut known: HashSet<EntityId> = sources.iter().map(|source| source.id()).chain([self.id()]).collect();
        let (mut begin, mut hops) = (0, 1);
        while begin < sources.len() && hops <= HOPS_MAX {
            let end = sources.len();
            for position in begin..end {
                let topic = sources[position].topic();
                let farther = sources[position].known_sources();
                let of_topic = topic.iter().flat_map(|topic| topic.known_sources());
                let farther: Vec<_> = of_topic.chain(farther).chain(topic.clone()).collect();
                sources.extend(farther.into_iter().filter(|source| known.insert(source.id())));
            }
            (begin, hops) = (end, hops + 1);
        }
        sources
    }

    /// The earliest tick and the earliest wall time at which a message may become ready here without a send.
    pub(crate) fn next_event(&self) -> (Ticks, Timestamp) {
        let mut next = (Ticks::NEVER, Timestamp::NEVER);
        let mut include = |entity: &Self| {
            next.0 = next.0.min(entity.consumers.earliest());
            for (_, cell) in entity.cells() {
                let (lock_end, due) = cell.next_event();
                next = (next.0.min(lock_end), next.1.min(due));
            }
        };
        include(self);
        self.all_sources().iter().for_each(|source| include(source));
        if let Some(topic) = self.topic() {
            include(&topic);
            topic.all_sources().iter().for_each(|source| include(source));
        }
        next
    }
}
