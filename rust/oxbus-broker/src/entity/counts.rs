// SPDX-License-Identifier: Apache-2.0
//! Message counts of an entity, by partition and in total (B-389 … B-395, B-097).

use oxbus_log::event;
use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Error, ErrorKind, PartitionId, Result, Timestamp};
use oxbus_store::{MessagePhase, PeekedMessage, Wait};

use super::Entity;
use crate::shard::{Cell, METERS, MeterCounts};

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

impl PartitionCounts {
    /// Adds the counts of another partition or entity.
    pub(crate) fn add(&mut self, other: &Self) {
        self.active += other.active;
        self.locked += other.locked;
        self.deferred += other.deferred;
        self.scheduled += other.scheduled;
        self.dead_letter += other.dead_letter;
        self.transfer += other.transfer;
        self.size_bytes += other.size_bytes;
    }
}

/// Messages of one partition that wait for a receiver, or are being processed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Their number.
    pub messages: u64,
    /// Enqueued time of the one with the lowest number; `None` without messages.
    pub oldest: Option<Timestamp>,
}

/// Messages that are read to find the oldest that is not scheduled.
const OLDEST_PEEKED: usize = 16;

fn backlog_of(cell: &Cell, sub_queue: SubQueue) -> Backlog {
    let store = cell.store(sub_queue);
    let all = store.approximate_count();
    let messages = match sub_queue {
        SubQueue::Main => all.saturating_sub(cell.count_scheduled() as u64 + cell.count_delayed(sub_queue).0),
        SubQueue::DeadLetter => all,
    };
    let mut first = Vec::new();
    store.peek(Counter::FIRST, OLDEST_PEEKED, &mut first);
    let is_sent = |message: &&PeekedMessage| message.phase != MessagePhase::Scheduled;
    Backlog {
        messages,
        oldest: first.iter().find(is_sent).map(|message| message.enqueued_at),
    }
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
    pub fn counts(&self, wait: &Wait<'_>) -> Result<EntityCounts> {
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
                total.add(&counts);
                (shard.id(), reached, counts)
            })
            .collect();
        self.check_owned(wait)?;
        Ok(EntityCounts { total, partitions })
    }

    /// For each partition, the active or dead-lettered messages, as [`Entity::counts`] counts them. Callers poll it, so
    /// it does not visit each message, except in an entity that forwards.
    pub fn backlog(&self, sub_queue: SubQueue, wait: &Wait<'_>) -> Result<Vec<Backlog>> {
        if sub_queue == SubQueue::Main && self.is_forwarding(sub_queue) {
            let partitions = self.counts(wait)?.partitions;
            let of = |(_, _, counts): (PartitionId, bool, PartitionCounts)| Backlog {
                messages: counts.active,
                oldest: None,
            };
            return Ok(partitions.into_iter().map(of).collect());
        }
        self.tick(self.core().clock().moment(), wait);
        let of = |index: usize| {
            let serves = self.shard(index).health().serves();
            let cell = self.cell(index).filter(|_| serves);
            cell.map(|cell| backlog_of(cell, sub_queue)).unwrap_or_default()
        };
        let backlog = (0..usize::from(self.partitions())).map(of).collect();
        self.check_owned(wait)?;
        Ok(backlog)
    }

    /// What has been counted of its messages since the metrics were switched on, in all its cells.
    pub fn meter_counts(&self) -> MeterCounts {
        let mut meters = [0; METERS];
        for (_, cell) in self.cells() {
            for (sum, count) in meters.iter_mut().zip(cell.meter_counts()) {
                *sum += count;
            }
        }
        meters
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
