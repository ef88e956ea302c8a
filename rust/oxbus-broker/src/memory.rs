// SPDX-License-Identifier: Apache-2.0
//! How much memory the messages of a namespace may take, and what happens beyond.
//!
//! In memory, sends are refused. In a directory, what comes in then stays on disk, in the journal, and is read back when
//! somebody wants it; sends are refused when even the slots take too much.
//!
//! Bytes are added up only now and then: in between, what comes in counts towards the next time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use oxbus_log::event;
use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::{count_record_memory, record_memory};

/// Looks per limit's worth of bytes that come in.
const RECOUNTS_PER_LIMIT: u64 = 64;
/// A shorter message is kept in memory always: its place on disk takes about as much.
pub const SPILL_BYTES_MIN: usize = 24;

/// Bytes that the journals' buffers, the messages being sent and received, and what the allocator keeps of them take:
/// 25 MiB where it was measured, with lists of a MiB and 16 partitions.
const BUFFER_BYTES: u64 = 24 << 20;

/// Bytes up to which messages that come in are kept in memory. The other half is for the slots of those that are not.
fn body_limit(limit: u64) -> u64 {
    limit / 2 - BUFFER_BYTES.min(limit / 3)
}

/// The limit of a namespace in memory.
#[derive(Debug)]
pub struct MemoryQuota {
    limit: u64,
    /// Bytes that came in since the last exact count, plus that count: never less than what is stored.
    bound: AtomicU64,
}

impl MemoryQuota {
    /// A limit in bytes.
    pub fn new(limit: u64) -> Self {
        let bound = AtomicU64::new(0);
        Self { limit, bound }
    }

    /// Counts what comes in; refuses it when it does not fit. `stored` counts exactly, and is called only near the limit.
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

/// The limit of a durable namespace.
#[derive(Debug, Default)]
pub struct MemoryBudget {
    limit: Option<u64>,
    /// Bytes that came in since the last look.
    uncounted: AtomicU64,
    /// What comes in stays on disk.
    spills: AtomicBool,
    /// Slots alone take the limit.
    is_full: AtomicBool,
    /// What is found when the directory is opened stays on disk, whatever the limit.
    keep_bodies_on_disk: bool,
}

impl MemoryBudget {
    /// A limit in bytes; `None` for none.
    pub fn new(limit: Option<u64>) -> Self {
        if limit.is_some() {
            count_record_memory();
        }
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Has messages that are found when the directory is opened stay on disk, if they are to: for who reads each once, or
    /// none.
    #[must_use]
    pub fn with_bodies_on_disk(self, keep_bodies_on_disk: bool) -> Self {
        Self {
            keep_bodies_on_disk,
            ..self
        }
    }

    /// True when a message of so many bytes that is found when the directory is opened stays on disk.
    pub fn spills_at_open(&self, bytes: usize) -> bool {
        bytes >= SPILL_BYTES_MIN && (self.keep_bodies_on_disk || !self.has_room())
    }

    /// True when messages that come in stay on disk.
    #[inline]
    pub fn spills(&self) -> bool {
        self.spills.load(Ordering::Relaxed)
    }

    /// True while a message that is read from disk may be kept in memory.
    fn has_room(&self) -> bool {
        self.limit.is_none_or(|limit| record_memory() <= body_limit(limit))
    }

    /// True when messages that need not be in memory are to leave it.
    pub fn is_tight(&self) -> bool {
        self.spills() || !self.has_room()
    }

    /// Counts what comes in; refuses it when slots alone take the limit. `slots` adds up what they take.
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
        // A message on disk has a slot of 32 bytes and a place of 16.
        let least = slots + slots / 2;
        self.is_full.store(least > limit, Ordering::Relaxed);
        self.spills
            .store(record_memory() + slots + bytes > body_limit(limit), Ordering::Relaxed);
        if least > limit {
            event!(QUOTA_EXCEEDED, reason = "memory", limit, taken = least);
            let detail = format!(
                "the namespace is full: even without their bodies its messages take the memory; receive and complete \
                 messages, or open it with a larger memory_limit_bytes: taken={least} bytes, limit={limit} bytes"
            );
            return Err(Error::new(ErrorKind::QuotaExceeded, detail));
        }
        Ok(())
    }
}
