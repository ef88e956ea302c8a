// SPDX-License-Identifier: Apache-2.0
//! Message → partition: the key's, or the next in turn among those that can take it.
//!
//! Rules B-061 … B-074 of docs/behaviour.md: session id, else partition key, else (no duplicate detection yet)
//! none; a keyed message is never re-routed; a keyless one skips what is unavailable, full or busy.

use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_model::PartitionId;
use oxbus_model::hash::partition_of;

/// Where a message may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionRoute {
    /// To this partition or nowhere.
    Keyed(PartitionId),
    /// To any partition.
    Keyless,
}

impl PartitionRoute {
    /// The partition of the key; `None` without a key.
    pub fn partition(self) -> Option<PartitionId> {
        match self {
            Self::Keyed(partition) => Some(partition),
            Self::Keyless => None,
        }
    }
}

/// The route of a message with this key in an entity of `partitions` parts.
pub fn route(key: Option<&str>, partitions: u16) -> PartitionRoute {
    match key {
        Some(key) => PartitionRoute::Keyed(PartitionId(partition_of(key.as_bytes(), partitions.into()) as u16)),
        None => PartitionRoute::Keyless,
    }
}

/// Whose turn it is.
#[derive(Debug)]
pub struct RoundRobin(AtomicU64);

impl RoundRobin {
    /// Turns that begin at partition `first`.
    pub fn starting_at(first: u64) -> Self {
        Self(AtomicU64::new(first))
    }

    /// The partitions in the order in which to try them, beginning with the one whose turn it is.
    pub fn turn(&self, partitions: u16) -> impl Iterator<Item = PartitionId> + use<> {
        let partitions = u64::from(partitions);
        // Not one atomic addition: threads that share a sender may take the same turn, and no harm is done.
        let turn = self.0.load(Ordering::Relaxed);
        self.0.store(turn.wrapping_add(1), Ordering::Relaxed);
        let first = turn % partitions;
        (first..partitions).chain(0..first).map(|it| PartitionId(it as u16))
    }
}
