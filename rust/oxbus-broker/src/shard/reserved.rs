// SPDX-License-Identifier: Apache-2.0
//! Messages in the hands of a reservation, and what is kept of the consumers whose reservations they are.
//!
//! The hold of a reservation on a message has no end of its own: the reservation has. It is not in the journal, because the
//! reservation is, and takes its messages again when the directory is opened. What it charges is.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxbus_model::Ticks;
use oxbus_model::name::SubQueue;
use oxbus_store::{ClaimMode, ClaimedMessage, LockKey, LockLost, Outcome, SettleResult};

use super::journal::ConsumerRecord;
use super::{Cell, ReadyCounts};

/// How messages are held that leave for good once the journal says so: no delivery, nothing charged if they stay.
pub const REMOVAL_LOCK: ClaimMode = ClaimMode::Lock { deadline: Ticks::NEVER };

/// How a reservation holds its messages.
pub const RESERVATION_LOCK: ClaimMode = ClaimMode::Lock { deadline: Ticks::NEVER };

/// A message in the hands of a reservation.
#[derive(Debug, Clone, Copy)]
pub struct ReservedMessage {
    /// The hold.
    pub key: LockKey,
    /// Deliveries charged so far.
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
    /// Ends holds that were never used, nothing charged; how many messages are ready by it.
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

    /// Ends a hold of which the journal says nothing, nothing charged; what is ready by it. An error when it is over.
    pub fn release_lock(&self, sub_queue: SubQueue, key: LockKey, ticks: Ticks) -> Result<ReadyCounts, LockLost> {
        let settled = self.store(sub_queue).settle(key, Outcome::Release, ticks)?;
        let ready = usize::from(matches!(settled, SettleResult::Ready));
        Ok(ReadyCounts::of(sub_queue, ready))
    }

    /// What is kept of the consumers that have their place here.
    pub fn consumers(&self) -> BTreeMap<(SubQueue, Arc<str>), Arc<ConsumerRecord>> {
        self.consumers.get_cloned()
    }

    /// True when consumers are to be kept.
    pub fn persists_consumers(&self) -> bool {
        self.shard.journal().is_some()
    }

    /// Keeps a consumer in memory. Calls for one consumer follow each other.
    pub(crate) fn store_consumer(&self, consumer: (SubQueue, Arc<str>), record: Arc<ConsumerRecord>) {
        let mut consumers = self.consumers.lock(&self.shard.health);
        consumers.insert(consumer, record);
    }
}
