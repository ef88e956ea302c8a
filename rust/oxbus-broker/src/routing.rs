// SPDX-License-Identifier: Apache-2.0
//! Selects the partition of a message: by its key, else round robin over the partitions that accept it.
//!
//! Rules B-061 … B-074 of docs/behaviour.md. A keyed message is never routed to another partition. A keyless message
//! skips partitions that are unavailable, full or busy.

use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_model::PartitionId;
use oxbus_model::hash::partition_of;

/// The partitions to which a message may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionRoute {
    /// Only this partition.
    Keyed(PartitionId),
    /// Any partition.
    Keyless,
}

impl PartitionRoute {
    /// Returns the partition of the key, or `None` without a key.
    pub fn partition(self) -> Option<PartitionId> {
        match self {
            Self::Keyed(partition) => Some(partition),
            Self::Keyless => None,
        }
    }
}

/// The route of a message with this key in an entity of `partitions` partitions.
pub fn route(key: Option<&str>, partitions: u16) -> PartitionRoute {
    match key {
        Some(key) => PartitionRoute::Keyed(PartitionId(partition_of(key.as_bytes(), partitions.into()) as u16)),
        None => PartitionRoute::Keyless,
    }
}

/// A round-robin counter over the partitions.
#[derive(Debug)]
pub struct RoundRobin(AtomicU64);

impl RoundRobin {
    /// A counter that begins at partition `first`.
    pub fn starting_at(first: u64) -> Self {
        Self(AtomicU64::new(first))
    }

    /// All partitions in the order in which to try them, beginning with the next one.
    pub fn next_order(&self, partitions: u16) -> impl Iterator<Item = PartitionId> + use<> {
        let partitions = u64::from(partitions);
        // A load and a store replace one atomic addition. Threads that share a sender may get the same order, which is
        // harmless.
        let next = self.0.load(Ordering::Relaxed);
        self.0.store(next.wrapping_add(1), Ordering::Relaxed);
        let first = next % partitions;
        (first..partitions).chain(0..first).map(|it| PartitionId(it as u16))
    }
}
