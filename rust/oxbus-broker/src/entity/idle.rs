// SPDX-License-Identifier: Apache-2.0
//! When an entity was used last, and whether nobody has used it for too long (B-382 … B-388).

use std::sync::atomic::Ordering;

use oxbus_model::Timestamp;
use oxbus_model::name::SubQueue;

use super::{Entity, Receivable};
use crate::shard::Sessions;

impl Entity {
    /// Notes a send (B-388).
    #[inline]
    pub fn touch(&self, now: Timestamp) {
        // A read first: the line stays shared while nothing changes within the second.
        if self.accessed_at.load(Ordering::Relaxed) / 1000 != now.0 / 1000 {
            self.accessed_at.store(now.0, Ordering::Relaxed);
        }
    }

    /// Notes a use in the past.
    pub(crate) fn used_at(&self, at: Timestamp) {
        self.accessed_at.fetch_max(at.0, Ordering::Relaxed);
    }

    /// Notes the opening of a receiver; on a subscription it is a use of the topic, too (B-388).
    pub fn open_now(&self) {
        let now = self.now();
        self.touch(now);
        if let Some(topic) = self.topic() {
            topic.touch(now);
        }
    }

    /// Notes a receive, a settlement, a browse or a change; on a subscription it is a use of the topic, too (B-384).
    #[inline]
    pub fn use_now(&self) {
        if self.auto_delete_on_idle_ms.load(Ordering::Relaxed) != u64::MAX || self.is_subscription() {
            self.touch(self.now());
            if let Some(topic) = self.topic() {
                topic.touch(topic.now());
            }
        }
    }

    /// Milliseconds without use after which it is deleted; [`u64::MAX`] for never.
    #[inline]
    pub(crate) fn auto_delete_on_idle_ms(&self) -> u64 {
        self.auto_delete_on_idle_ms.load(Ordering::Relaxed)
    }

    /// True when it, or the topic of a subscription, is deleted when nobody uses it.
    pub(crate) fn may_become_idle(&self) -> bool {
        let topic = || self.topic().map_or(u64::MAX, |topic| topic.auto_delete_on_idle_ms());
        self.auto_delete_on_idle_ms() != u64::MAX || topic() != u64::MAX
    }

    /// True while somebody waits for a message or a session.
    pub(super) fn has_waiters(&self) -> bool {
        let waits = |receivable: &Receivable| receivable.doorbell.waiters() > 0;
        let sessions = || self.cells().filter_map(|(_, cell)| cell.sessions());
        waits(&self.main) || waits(&self.dead_letters) || sessions().any(Sessions::has_waiters)
    }

    /// True when nobody has used it for as long as its settings allow (B-382). One that forwards is never idle (B-386),
    /// nor is one with messages that wait for their time.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        let ms = self.auto_delete_on_idle_ms();
        ms != u64::MAX && self.is_unused_for(ms)
    }

    #[cold]
    fn is_unused_for(&self, ms: u64) -> bool {
        let used = self.accessed_at.load(Ordering::Relaxed);
        let used = used.max(self.created_at.0).max(self.updated_at.load(Ordering::Relaxed));
        self.now() >= Timestamp(used).plus_ms(ms)
            && !self.core().is_shared()
            && !self.is_forwarding(SubQueue::Main)
            && !self.has_waiters()
            && !self.cells().any(|(_, cell)| cell.has_schedule())
    }
}
