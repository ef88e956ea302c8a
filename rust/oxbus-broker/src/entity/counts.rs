// SPDX-License-Identifier: Apache-2.0
//! Counts of a queue, per partition and in sum (B-389 … B-395, B-097).

use oxbus_log::event;
use oxbus_model::name::SubQueue;
use oxbus_model::{Error, ErrorKind, PartitionId};
use oxbus_store::Wait;

use super::Entity;
use crate::shard::Cell;

/// Messages of one partition of a queue. Everything counts messages but the last field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartitionCounts {
    /// Ready, cached, locked and deferred messages (B-288, B-390).
    pub active: u64,
    /// Locked messages, deferred ones not included.
    pub locked: u64,
    /// Deferred messages, locked or not.
    pub deferred: u64,
    /// Messages that wait for their time.
    pub scheduled: u64,
    /// Messages of the dead-letter queue.
    pub dead_letter: u64,
    /// Messages on their way to the entity that it forwards to; not counted as active.
    pub transfer: u64,
    /// Bytes of all their records.
    pub size_bytes: u64,
}

/// Counts of a queue.
#[derive(Debug, Clone)]
pub struct EntityCounts {
    /// Sums over the partitions that can be reached.
    pub total: PartitionCounts,
    /// Each partition: its id, whether it was reached, its counts.
    pub partitions: Vec<(PartitionId, bool, PartitionCounts)>,
}

impl Entity {
    /// Counts the queue by walking its stores.
    pub fn counts(&self, wait: &Wait<'_>) -> EntityCounts {
        let core = self.core();
        self.tick(core.clock().moment(), wait);
        let mut total = PartitionCounts::default();
        let partitions = (0..usize::from(self.partitions()))
            .map(|index| {
                let shard = self.shard(index);
                let reached = shard.health().serves();
                let counts = if reached {
                    self.partition_counts(index)
                } else {
                    PartitionCounts::default()
                };
                total.active += counts.active;
                total.locked += counts.locked;
                total.deferred += counts.deferred;
                total.scheduled += counts.scheduled;
                total.dead_letter += counts.dead_letter;
                total.transfer += counts.transfer;
                total.size_bytes += counts.size_bytes;
                (shard.id(), reached, counts)
            })
            .collect();
        EntityCounts { total, partitions }
    }

    /// Active messages, or those of the dead-letter queue, as [`Entity::counts`] counts them, but without a look at each: what
    /// is asked often must not cost more the more messages wait.
    pub fn count_active(&self, sub_queue: SubQueue, wait: &Wait<'_>) -> u64 {
        if sub_queue == SubQueue::Main && self.is_forwarding(sub_queue) {
            return self.counts(wait).total.active;
        }
        self.tick(self.core().clock().moment(), wait);
        let reached = (0..usize::from(self.partitions())).filter(|index| self.shard(*index).health().serves());
        let of_cell = |cell: &Cell| {
            let all = cell.store(sub_queue).approximate_count();
            match sub_queue {
                SubQueue::Main => all.saturating_sub(cell.count_scheduled() as u64),
                SubQueue::DeadLetter => all,
            }
        };
        reached.filter_map(|index| self.cell(index)).map(of_cell).sum()
    }

    /// Bytes that count against the size of the entity in one partition; a topic's with those of its subscriptions (B-037).
    pub(crate) fn counted_bytes(&self, index: usize) -> u64 {
        let own = self.cell(index).map_or(0, Cell::counted_bytes);
        let subscriptions = self.subscribers();
        let theirs = subscriptions.entities.iter().map(|entity| entity.counted_bytes(index));
        own + theirs.sum::<u64>()
    }

    /// The error of an entity that is full in one partition (B-036).
    #[cold]
    pub(crate) fn full_error(&self, index: usize, max: u64) -> Error {
        event!(
            QUOTA_EXCEEDED,
            entity = self.name().as_str(),
            partition = self.shard(index).id().0,
            reason = "entity_size",
            limit = max
        );
        let detail = format!(
            "The maximum entity size has been reached or exceeded for {:?}: '{}'. Receive and complete messages of that partition, \
             the dead-lettered ones too, or raise max_size_in_megabytes. Partition: {}, Max entity size in bytes: {max}.",
            self.kind(),
            self.name().as_str(),
            self.shard(index).id()
        );
        Error::new(ErrorKind::QuotaExceeded, detail)
    }

    fn partition_counts(&self, index: usize) -> PartitionCounts {
        let Some(cell) = self.cell(index) else {
            return PartitionCounts::default();
        };
        let main = cell.store(SubQueue::Main).counts();
        let dead = cell.store(SubQueue::DeadLetter).counts();
        let active = main.ready + main.cached + main.locked + main.deferred;
        // What was deferred, and what a receiver has, stays.
        let (cached, locked) = self.count_blocked(SubQueue::Main, index);
        let ready = if self.is_forwarding(SubQueue::Main) {
            main.ready
        } else {
            0
        };
        let transfer = ready + cached + locked;
        PartitionCounts {
            active: active.saturating_sub(transfer),
            transfer,
            locked: (main.locked + main.deferred_locked).saturating_sub(locked),
            deferred: main.deferred,
            scheduled: main.scheduled,
            dead_letter: dead.ready + dead.cached + dead.locked + dead.deferred,
            size_bytes: main.record_bytes + dead.record_bytes,
        }
    }
}
