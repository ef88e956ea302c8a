// SPDX-License-Identifier: Apache-2.0
//! Messages of reservations, and the consumers that own the reservations.
//!
//! The lock of a reserved message has no deadline; its reservation has one. The journal has the reservation instead of
//! the lock: the reservation locks its messages again when the directory is opened. The journal also has the counted
//! deliveries.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxbus_model::Ticks;
use oxbus_model::name::SubQueue;
use oxbus_store::{ClaimMode, ClaimedMessage, LockKey, LockLost, Outcome, SettleResult};

use super::journal::ConsumerRecord;
use super::{Cell, ReadyCounts};

/// Lock of messages that are removed once the journal has the removal. The lock is not a delivery, so none is counted
/// if the messages stay.
pub const REMOVAL_LOCK: ClaimMode = ClaimMode::Lock { deadline: Ticks::NEVER };

/// Lock of reserved messages.
pub const RESERVATION_LOCK: ClaimMode = ClaimMode::Lock { deadline: Ticks::NEVER };

/// A message locked by a reservation.
#[derive(Debug, Clone, Copy)]
pub struct ReservedMessage {
    /// The lock.
    pub key: LockKey,
    /// Deliveries counted so far.
    pub delivery_count: u32,
    /// Bytes of its record.
    pub bytes: u32,
}

impl From<&ClaimedMessage> for ReservedMessage {
    fn from(claimed: &ClaimedMessage) -> Self {
        Self {
            key: claimed.key,
            delivery_count: claimed.delivery_count,
            bytes: u32::try_from(claimed.record.len()).unwrap_or(u32::MAX),
        }
    }
}

/// The consumers of a cell, by sub-queue and name.
pub(super) type ConsumerRecords = BTreeMap<(SubQueue, Arc<str>), Arc<ConsumerRecord>>;

impl Cell {
    /// Releases unused locks without counting a delivery. Returns how many messages became ready.
    pub fn release_all<'a>(
        &self,
        sub_queue: SubQueue,
        held: impl Iterator<Item = &'a ReservedMessage>,
        ticks: Ticks,
    ) -> usize {
        let store = self.store(sub_queue);
        held.filter(|it| store.settle(it.key, Outcome::Release, ticks).is_ok())
            .count()
    }

    /// Releases a lock that is not in the journal, without counting a delivery. Returns what became ready.
    pub fn release_lock(&self, sub_queue: SubQueue, key: LockKey, ticks: Ticks) -> Result<ReadyCounts, LockLost> {
        let settled = self.store(sub_queue).settle(key, Outcome::Release, ticks)?;
        let ready = usize::from(matches!(settled, SettleResult::Ready));
        Ok(ReadyCounts::of(sub_queue, ready))
    }

    /// The consumers stored in this cell.
    pub fn consumers(&self) -> BTreeMap<(SubQueue, Arc<str>), Arc<ConsumerRecord>> {
        self.consumers.get_cloned()
    }

    /// True if consumers are persisted.
    pub fn persists_consumers(&self) -> bool {
        self.shard.journal().is_some()
    }

    /// Stores a consumer in memory. The caller serialises calls for one consumer.
    pub(crate) fn store_consumer(&self, consumer: (SubQueue, Arc<str>), record: Arc<ConsumerRecord>) {
        let mut consumers = self.consumers.lock(&self.shard.health);
        consumers.insert(consumer, record);
    }
}
