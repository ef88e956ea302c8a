// SPDX-License-Identifier: Apache-2.0
//! Announces ready messages to receivers after locks end, scheduled messages become due, settlements and healing.

use oxbus_store::Wait;
use std::sync::atomic::Ordering;

use oxbus_model::name::SubQueue;
use oxbus_model::{Moment, PartitionId};

use super::Entity;
use super::receive_cache::return_cached;
use crate::shard::{Cell, ReadyCounts, Sessions};

impl Entity {
    /// Ends expired locks, activates due messages and announces messages that became ready. Runs once per tick.
    pub fn tick(&self, moment: Moment, wait: &Wait<'_>) {
        // Handles keep a deleted entity in memory, but its messages are no longer delivered.
        if self.is_removed.load(Ordering::Acquire) {
            return;
        }
        if let Some(topic) = self.topic() {
            topic.tick(moment, wait);
        }
        // Forwarding a message may tick its destination, and thereby this entity again.
        if !self.forwarding.is_ticking.swap(true, Ordering::SeqCst) {
            self.tick_sources(moment, wait);
            self.forwarding.is_ticking.store(false, Ordering::SeqCst);
        }
        self.expire_reservations(moment, wait);
        self.tick_cells(moment, wait);
    }

    /// [`Entity::tick`] without the entities that forward here.
    pub(super) fn tick_cells(&self, moment: Moment, wait: &Wait<'_>) {
        for (index, cell) in self.cells() {
            if !self.shard(index).health().serves() {
                continue;
            }
            if cell.has_due(moment.now) {
                // Messages that are due count as sent now (B-235).
                self.touch(moment.now);
            }
            self.activate(index, cell, moment.now, wait);
            let ended = cell.tick(moment, self.delivery_policy(), wait);
            self.announce(index, ended, wait);
        }
        self.forward_ready(wait);
    }

    /// Announces messages that became ready in a cell. Cached messages return to the cell, so that they do not overtake
    /// earlier ones.
    #[inline]
    pub fn announce(&self, index: usize, ended: ReadyCounts, wait: &Wait<'_>) {
        for (sub_queue, ready) in [(SubQueue::Main, ended.main), (SubQueue::DeadLetter, ended.dead_letters)] {
            if ready > 0 {
                self.notify(sub_queue, index, ready, wait);
                self.recall(sub_queue, index, wait);
            }
        }
        if ended.sessions > 0 {
            self.notify_sessions(index, ended.sessions, wait);
        }
    }

    /// Makes waiting receivers recalculate when to look again, because a delay has begun in a cell.
    #[cold]
    pub fn announce_delay(&self, sub_queue: SubQueue, index: usize) {
        self.receivable(sub_queue).wait_queue.notify_all();
        if let Some(sessions) = self.cell(index).and_then(Cell::sessions) {
            sessions.wake_holders();
        }
    }

    /// Announces `ready` messages in a cell: forwards them, moves them into their sessions or notifies receivers.
    #[inline]
    pub fn notify(&self, sub_queue: SubQueue, index: usize, ready: usize, wait: &Wait<'_>) {
        if self.is_forwarding(sub_queue) {
            if self.features.requires_session && sub_queue == SubQueue::Main {
                self.dead_letter_without_session(index, wait);
            }
            self.forward(sub_queue, index, wait);
        } else if self.features.requires_session && sub_queue == SubQueue::Main {
            self.fill_sessions(index, wait);
        } else {
            self.receivable(sub_queue).notify(index, ready);
        }
    }

    /// Announces one message of the main queue after a fence.
    #[inline]
    pub(crate) fn notify_after_fence(&self, index: usize, wait: &Wait<'_>) {
        if self.requires_session() || self.is_forwarding(SubQueue::Main) {
            self.notify(SubQueue::Main, index, 1, wait);
        } else {
            self.receivable(SubQueue::Main).notify_after_fence(index, 1);
        }
    }

    /// Announces sessions that can be accepted in a cell. An entity that forwards empties them instead and forwards
    /// their messages. A call that began before the entity was set to forward, or that has since released a session,
    /// may have filled them.
    #[inline]
    fn notify_sessions(&self, index: usize, available: usize, wait: &Wait<'_>) {
        if self.is_forwarding(SubQueue::Main) {
            self.empty_sessions(index);
            self.forward(SubQueue::Main, index, wait);
        } else {
            self.main.notify(index, available);
        }
    }

    #[cold]
    fn recall(&self, sub_queue: SubQueue, index: usize, wait: &Wait<'_>) {
        for cache in self.receivable(sub_queue).caches() {
            return_cached(self, sub_queue, cache.recall_cell(index), wait);
        }
    }

    /// Returns all messages in the caches of receivers, prefetched or not, to their cells.
    pub(super) fn recall_all(&self, sub_queue: SubQueue, wait: &Wait<'_>) {
        for cache in self.receivable(sub_queue).caches() {
            return_cached(self, sub_queue, cache.recall(usize::MAX), wait);
        }
    }

    /// Announces all ready messages of the entity, after recovery or when it stops forwarding.
    pub(crate) fn announce_ready(&self, wait: &Wait<'_>) {
        for (index, cell) in self.cells() {
            self.notify_ready(index, cell, wait);
        }
    }

    /// Announces all ready messages of a cell.
    fn notify_ready(&self, index: usize, cell: &Cell, wait: &Wait<'_>) {
        for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
            if cell.store(sub_queue).has_ready() {
                self.notify(sub_queue, index, usize::from(u16::MAX), wait);
            }
        }
    }

    /// Announces the messages and sessions of a partition whose shard was healed.
    pub(crate) fn resume_partition(&self, partition: PartitionId, wait: &Wait<'_>) {
        // Locks may have expired and scheduled messages may have become due there at a tick that was swept without
        // this partition.
        for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
            self.receivable(sub_queue).force_sweep();
        }
        for (index, cell) in self.cells().filter(|(_, cell)| cell.partition() == partition) {
            self.notify_ready(index, cell, wait);
            if cell.sessions().is_some_and(Sessions::has_available) {
                self.main.notify(index, usize::from(u16::MAX));
            }
        }
        self.restart_forwarding(wait);
        self.wake_all();
    }
}
