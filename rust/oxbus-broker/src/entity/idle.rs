// SPDX-License-Identifier: Apache-2.0
//! Last use of an entity, and whether it has been idle long enough to be deleted (B-382 … B-388).

use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_model::Timestamp;
use oxbus_model::name::SubQueue;

use super::{Entity, Receivable};
use crate::shard::Sessions;

/// Times at which an entity was created, updated and used.
#[derive(Debug)]
pub(super) struct EntityTimes {
    created: Timestamp,
    updated: AtomicU64,
    /// 0 before the first use.
    accessed: AtomicU64,
}

impl EntityTimes {
    pub(super) fn new(created_at: Timestamp, updated_at: Timestamp) -> Self {
        Self {
            created: created_at,
            updated: AtomicU64::new(updated_at.0),
            accessed: AtomicU64::new(0),
        }
    }
}

impl Entity {
    /// Times of creation, last update and last use. The time of last use is `None` before the first use.
    pub fn times(&self) -> (Timestamp, Timestamp, Option<Timestamp>) {
        let accessed = self.times.accessed.load(Ordering::Relaxed);
        (
            self.times.created,
            Timestamp(self.times.updated.load(Ordering::Relaxed)),
            (accessed > 0).then_some(Timestamp(accessed)),
        )
    }

    /// Sets the time at which the settings or the rules last changed.
    pub(crate) fn set_updated_at(&self, updated_at: Timestamp) {
        self.times.updated.store(updated_at.0, Ordering::Relaxed);
    }

    /// Notes a send (B-388).
    #[inline]
    pub fn touch(&self, now: Timestamp) {
        // Reading first keeps the cache line shared while the second stays the same.
        if self.times.accessed.load(Ordering::Relaxed) / 1000 != now.0 / 1000 {
            self.times.accessed.store(now.0, Ordering::Relaxed);
        }
    }

    /// Notes a use in the past.
    pub(crate) fn note_use_at(&self, at: Timestamp) {
        self.times.accessed.fetch_max(at.0, Ordering::Relaxed);
    }

    /// Notes the opening of a receiver. On a subscription this is also a use of the topic (B-388).
    pub fn note_open(&self) {
        let now = self.now();
        self.touch(now);
        if let Some(topic) = self.topic() {
            topic.touch(now);
        }
    }

    /// Notes a receive, a settlement, a browse or a change. On a subscription this is also a use of the topic (B-384).
    #[inline]
    pub fn note_use(&self) {
        let topic = self.topic();
        if topic.is_some() || self.settings().auto_delete_on_idle_ms.is_some() {
            self.touch(self.now());
        }
        if let Some(topic) = topic {
            topic.touch(topic.now());
        }
    }

    /// Milliseconds without use after which the entity, or the topic of a subscription, is deleted; `None` if never.
    pub(crate) fn idle_ms(&self) -> Option<u64> {
        let topic = self.topic().and_then(|topic| topic.settings().auto_delete_on_idle_ms);
        let own = self.settings().auto_delete_on_idle_ms;
        own.into_iter().chain(topic).min()
    }

    /// True if a call waits for a message or a session.
    pub(super) fn has_waiters(&self) -> bool {
        let has_waiters = |receivable: &Receivable| receivable.wait_queue.waiters() > 0;
        let sessions = || self.cells().filter_map(|(_, cell)| cell.sessions());
        has_waiters(&self.main) || has_waiters(&self.dead_letters) || sessions().any(Sessions::has_waiters)
    }

    /// The earliest time at which it may be idle; `None` if it is never deleted when idle.
    pub(super) fn idle_at(&self) -> Option<Timestamp> {
        let ms = self.settings().auto_delete_on_idle_ms?;
        let used = self.times.accessed.load(Ordering::Relaxed);
        let used = used
            .max(self.times.created.0)
            .max(self.times.updated.load(Ordering::Relaxed));
        Some(Timestamp(used).plus_ms(ms))
    }

    /// True if the entity has been unused for as long as its settings allow (B-382). An entity that forwards is never
    /// idle (B-386), nor is one with scheduled or delayed messages.
    pub(crate) fn is_idle(&self) -> bool {
        self.idle_at().is_some_and(|at| self.now() >= at)
            && !self.core().is_shared()
            && !self.is_forwarding(SubQueue::Main)
            && !self.has_waiters()
            && !self.cells().any(|(_, cell)| cell.has_schedule() || cell.has_delays())
    }
}
