// SPDX-License-Identifier: Apache-2.0
//! Message counts of an entity, by partition and in total (B-389 … B-395, B-097).

use oxbus_log::event;
use oxbus_model::name::SubQueue;
use oxbus_model::{Error, ErrorKind, PartitionId};
use oxbus_store::Wait;

use super::Entity;
use crate::shard::Cell;

/// Counts of one partition of an entity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartitionCounts {
    /// Ready, cached, locked and deferred messages (B-288, B-390).
    pub active: u64,
    /// Locked messages, without deferred ones.
    pub locked: u64,
    /// Deferred messages, locked or not.
    pub deferred: u64,
    /// Scheduled messages that are not yet due, and messages that were abandoned with a delay.
    pub scheduled: u64,
    /// Messages of the dead-letter queue.
    pub dead_letter: u64,
    /// Messages that wait to be forwarded to another entity. They are not counted as active.
    pub transfer: u64,
    /// Bytes of the records of all these messages.
    pub size_bytes: u64,
}

/// Counts of an entity.
#[derive(Debug, Clone)]
pub struct EntityCounts {
    /// Sums over the partitions that were reached.
    pub total: PartitionCounts,
    /// For each partition: its id, whether it was reached, and its counts.
    pub partitions: Vec<(PartitionId, bool, PartitionCounts)>,
}

impl Entity {
    /// Counts the messages of the entity by walking its stores.
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

    /// Number of active or dead-lettered messages, as [`Entity::counts`] counts them. Callers poll it, so it does not
    /// visit each message, except in an entity that forwards.
    pub fn count_active(&self, sub_queue: SubQueue, wait: &Wait<'_>) -> u64 {
        if sub_queue == SubQueue::Main && self.is_forwarding(sub_queue) {
            return self.counts(wait).total.active;
        }
        self.tick(self.core().clock().moment(), wait);
        let reached = (0..usize::from(self.partitions())).filter(|index| self.shard(*index).health().serves());
        let count_of = |cell: &Cell| {
            let all = cell.store(sub_queue).approximate_count();
            match sub_queue {
                SubQueue::Main => all.saturating_sub(cell.count_scheduled() as u64 + cell.count_delayed(sub_queue).0),
                SubQueue::DeadLetter => all,
            }
        };
        reached.filter_map(|index| self.cell(index)).map(count_of).sum()
    }

    /// Bytes of one partition that count towards the size of the entity; a topic includes its subscriptions (B-037).
    pub(crate) fn counted_bytes(&self, index: usize) -> u64 {
        let own = self.cell(index).map_or(0, Cell::counted_bytes);
        let subscriptions = self.subscribers();
        let copies = subscriptions.entities.iter().map(|entity| entity.counted_bytes(index));
        own + copies.sum::<u64>()
    }

    /// The error of an entity with a full partition (B-036).
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
        // Delayed messages are locked in their store, and wait for a time, as scheduled ones do.
        let (delayed, delayed_deferred) = cell.count_delayed(SubQueue::Main);
        let active = (main.ready + main.cached + main.locked + main.deferred).saturating_sub(delayed);
        // Deferred messages, and those that a receiver has locked, are not forwarded.
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
            locked: (main.locked + main.deferred_locked).saturating_sub(locked + delayed + delayed_deferred),
            deferred: main.deferred,
            scheduled: main.scheduled + delayed,
            dead_letter: dead.ready + dead.cached + dead.locked + dead.deferred,
            size_bytes: main.record_bytes + dead.record_bytes,
        }
    }
}
