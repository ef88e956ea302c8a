// SPDX-License-Identifier: Apache-2.0
//! Sequence numbers: 16 bits of partition above 48 bits of counter.
//!
//! Source: Service Bus, "Message sequencing" (rules B-103 … B-109 of docs/behaviour.md).

use std::fmt;

/// Number of a message in its cell: 1, 2, 3, … 48 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Counter(pub u64);

impl Counter {
    /// Number of the first message of a cell (B-104).
    pub const FIRST: Self = Self(1);
    /// Bits of a counter inside a sequence number (B-106).
    pub const BITS: u32 = 48;
    /// Largest counter.
    pub const MAX: Self = Self((1 << Self::BITS) - 1);

    /// The counter after this one.
    #[must_use]
    #[inline]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A partition of a namespace, and of each partitioned entity in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u16);

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Sequence number, assigned at enqueue. It rises within a partition and is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceNumber(pub u64);

impl SequenceNumber {
    /// The number of `counter` in `partition`. An entity without partitioning uses partition 0 (B-104).
    #[must_use]
    #[inline]
    pub fn new(partition: PartitionId, counter: Counter) -> Self {
        debug_assert!(counter <= Counter::MAX, "a counter has 48 bits");
        Self(u64::from(partition.0) << Counter::BITS | counter.0)
    }

    /// The top 16 bits.
    #[must_use]
    #[inline]
    pub fn partition(self) -> PartitionId {
        PartitionId((self.0 >> Counter::BITS) as u16)
    }

    /// The low 48 bits.
    #[must_use]
    #[inline]
    pub fn counter(self) -> Counter {
        Counter(self.0 & Counter::MAX.0)
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
