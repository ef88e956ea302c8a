// SPDX-License-Identifier: Apache-2.0
//! The memory limit of a namespace.
//!
//! Beyond the limit a namespace in memory rejects sends. A durable namespace spills: new messages stay on disk, in the
//! journal, and are read back on delivery. It rejects sends once the slots alone exceed the limit.
//!
//! An exact count is expensive, so it is rare. Between two counts the bytes of new messages are added up.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use oxbus_log::event;
use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::{count_record_memory, record_memory};

/// Number of exact counts per `limit` bytes of new messages.
const RECOUNTS_PER_LIMIT: u64 = 64;
/// Shorter messages never spill: their location on disk would take about as much memory.
pub const SPILL_BYTES_MIN: usize = 24;

/// Memory of journal buffers, of messages in transit and of the allocator's caches: 25 MiB as measured with lists of 1
/// MiB and 16 partitions.
const BUFFER_BYTES: u64 = 24 << 20;

/// Bytes up to which messages stay in memory. The other half of the limit is for the slots of spilled messages.
fn body_limit(limit: u64) -> u64 {
    limit / 2 - BUFFER_BYTES.min(limit / 3)
}

/// The limit of a namespace in memory.
#[derive(Debug)]
pub struct MemoryQuota {
    limit: u64,
    /// The last exact count plus the bytes of new messages since: an upper bound of the stored bytes.
    bound: AtomicU64,
}

impl MemoryQuota {
    /// A quota of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        let bound = AtomicU64::new(0);
        Self { limit, bound }
    }

    /// Adds new bytes. Fails if the total exceeds the limit. `stored` counts exactly and is called only near the
    /// limit.
    #[inline]
    pub fn check(&self, bytes: u64, stored: impl FnOnce() -> u64) -> Result<()> {
        if self.bound.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.limit {
            return Ok(());
        }
        self.count(bytes, stored())
    }

    fn count(&self, bytes: u64, stored: u64) -> Result<()> {
        let limit = self.limit;
        let fits = stored + bytes <= limit;
        self.bound
            .store(stored + if fits { bytes } else { 0 }, Ordering::Relaxed);
        if fits {
            return Ok(());
        }
        event!(QUOTA_EXCEEDED, reason = "memory", limit, taken = stored);
        let detail = format!(
            "the namespace is full; receive and complete messages, or open it with a larger memory_limit_bytes: \
             stored={stored} bytes, limit={limit} bytes"
        );
        Err(Error::new(ErrorKind::QuotaExceeded, detail))
    }
}

/// The memory limit of a durable namespace.
#[derive(Debug, Default)]
pub struct MemoryBudget {
    limit: Option<u64>,
    /// Bytes of new messages since the last exact count.
    uncounted: AtomicU64,
    /// True if new messages stay on disk.
    spills: AtomicBool,
    /// True if the slots alone exceed the limit.
    is_full: AtomicBool,
    /// True if messages found at open stay on disk, whatever the limit.
    keep_bodies_on_disk: bool,
}

impl MemoryBudget {
    /// A budget of `limit` bytes; `None` for no limit.
    pub fn new(limit: Option<u64>) -> Self {
        if limit.is_some() {
            count_record_memory();
        }
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Sets whether messages found at open stay on disk. Suits a process that reads each message once or never.
    #[must_use]
    pub fn with_bodies_on_disk(self, keep_bodies_on_disk: bool) -> Self {
        Self {
            keep_bodies_on_disk,
            ..self
        }
    }

    /// True if a message of `bytes` that is found at open stays on disk.
    pub fn spills_at_open(&self, bytes: usize) -> bool {
        bytes >= SPILL_BYTES_MIN && (self.keep_bodies_on_disk || !self.has_room())
    }

    /// True if new messages stay on disk.
    #[inline]
    pub fn spills(&self) -> bool {
        self.spills.load(Ordering::Relaxed)
    }

    /// True if messages that are read from disk may stay in memory.
    fn has_room(&self) -> bool {
        self.limit.is_none_or(|limit| record_memory() <= body_limit(limit))
    }

    /// True if messages that can be read back should be dropped from memory.
    pub fn is_under_pressure(&self) -> bool {
        self.spills() || !self.has_room()
    }

    /// Adds new bytes. Fails if the slots alone exceed the limit. `slots` counts the memory of the slots.
    #[inline]
    pub fn check(&self, bytes: u64, slots: impl FnOnce() -> u64) -> Result<()> {
        let Some(limit) = self.limit else { return Ok(()) };
        let uncounted = self.uncounted.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if uncounted < limit / RECOUNTS_PER_LIMIT && !self.is_full.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.recount(limit, bytes, slots())
    }

    fn recount(&self, limit: u64, bytes: u64, slots: u64) -> Result<()> {
        self.uncounted.store(0, Ordering::Relaxed);
        // A spilled message takes a slot of 32 bytes and a location of 16.
        let least = slots + slots / 2;
        self.is_full.store(least > limit, Ordering::Relaxed);
        self.spills
            .store(record_memory() + slots + bytes > body_limit(limit), Ordering::Relaxed);
        if least > limit {
            event!(QUOTA_EXCEEDED, reason = "memory", limit, taken = least);
            let detail = format!(
                "the namespace is full: the metadata of its messages alone exceeds the memory limit; receive and complete \
                 messages, or open it with a larger memory_limit_bytes: taken={least} bytes, limit={limit} bytes"
            );
            return Err(Error::new(ErrorKind::QuotaExceeded, detail));
        }
        Ok(())
    }
}
