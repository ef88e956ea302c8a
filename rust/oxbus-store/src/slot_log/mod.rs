// SPDX-License-Identifier: Apache-2.0
//! The messages of one cell, without a mutex around them.
//!
//! A segment is an array of slots with one message each. A directory finds a segment by number. Segment and offset
//! follow from the counter, so a key finds its message without a table. Read in this order: `slot`, `segment`,
//! `directory`, `publish` (append), `restore`, `ready` (hint), `claim`, `settle`, `expiry`, `deferred`, `browse`,
//! `peek`, `reclaim`, `overflow`.
//!
//! Invariants
//! - counters have no gaps: every check that can reject a message comes before its reservation;
//! - every slot below `visible` is published, and a claim takes only slots below `visible`;
//! - a message in phase ready has its bit set, or one thread is about to set it and then lower the hint;
//! - every set bit below `visible` is in the hint's segment or a later one, or one thread is about to lower the hint;
//! - the thread that takes a slot out of its phase frees the body, but not while a browser may read it (`browse`);
//! - no lock expires before `earliest_deadline`, except while a sweep has set it to never (`expiry`).
//!
//! A call waits for another thread only at three mutexes: the directory's (once per 256 messages), the overflow map's
//! (messages that are deferred or scheduled for long), and the one around the bodies retained for browsers.
//!
//! There is no queue of deadlines: a claim lowers its segment's earliest deadline, and a sweep reads only the segments
//! where a lock is due. So a claim writes no list, and a lock needs no memory.
//!
//! Lock deadlines are within 37 h of the clock, and `expire` runs at least that often while there are locks.

#![allow(
    unsafe_code,
    reason = "slots own bodies by pointer, and segments are freed by epoch; each block names its invariant"
)]

mod browse;
mod claim;
mod deferred;
mod directory;
mod epoch;
mod expiry;
#[cfg(all(test, loom))]
pub(crate) mod loom_tests;
mod overflow;
mod peek;
mod publish;
mod ready;
mod reclaim;
pub(crate) mod record;
mod restore;
mod segment;
mod settle;
mod slot;
#[cfg(all(test, not(loom)))]
mod tests;

use oxbus_model::{Counter, Ticks, Timestamp};

use crate::message_store::{
    ClaimMode, ClaimedMessage, LockKey, LockLost, MessageStore, NewMessage, NumberedStore, Outcome, PeekedMessage,
    PhaseCounts, RemovedMessage, RestoredMessage, SettleResult,
};
use crate::sync::{AtomicU64, Ordering};

use browse::Browsers;
use directory::Directory;
use epoch::EpochGuard;
use overflow::OverflowMap;
use segment::SlotSegment;
use slot::Slot;

/// Positions of appends and claims. An append moves the first two, and a claim reads the last two. They have their own
/// cache line, which a thread fetches once for both operations.
#[derive(Debug)]
#[repr(align(64))]
struct Cursors {
    /// Index that the next message gets.
    tail: AtomicU64,
    /// Index below which every slot is published.
    visible: AtomicU64,
    /// Segment at which a claim starts, with a version (see `ready`).
    hint: AtomicU64,
}

/// A lock-free store of the messages of one cell.
#[derive(Debug)]
pub struct SlotLog {
    cursors: Cursors,
    /// No lock expires before this tick.
    earliest_deadline: AtomicU64,
    /// Number of sweeps begun. While it differs from `sweeps_ended`, `earliest_deadline` is not valid.
    sweeps_begun: AtomicU64,
    sweeps_ended: AtomicU64,
    /// Highest number of a segment that ever contained a lock.
    locked_up_to: AtomicU64,
    directory: Directory,
    browsers: Browsers,
    overflow: OverflowMap,
}

impl SlotLog {
    /// An empty log without segments. The first message gets counter 1.
    pub fn new() -> Self {
        Self {
            cursors: Cursors {
                tail: AtomicU64::new(0),
                visible: AtomicU64::new(0),
                hint: AtomicU64::new(0),
            },
            earliest_deadline: AtomicU64::new(Ticks::NEVER.0),
            sweeps_begun: AtomicU64::new(0),
            sweeps_ended: AtomicU64::new(0),
            locked_up_to: AtomicU64::new(0),
            directory: Directory::new(),
            browsers: Browsers::new(),
            overflow: OverflowMap::new(),
        }
    }

    /// The segment, slot and offset of a counter, unless its segment has been unlinked or was never added.
    #[inline]
    fn find<'g>(&self, counter: Counter, guard: &'g EpochGuard) -> Option<(&'g SlotSegment, &'g Slot, usize)> {
        let index = counter.0.checked_sub(1)?;
        let (number, offset) = segment::locate(index);
        let segment = self.directory.get(number, guard)?;
        Some((segment, &segment.slots[offset], offset))
    }

    #[inline]
    fn visible(&self) -> u64 {
        self.cursors.visible.load(Ordering::Acquire)
    }
}

impl Default for SlotLog {
    fn default() -> Self {
        Self::new()
    }
}

impl MessageStore for SlotLog {
    fn append(&self, batch: &mut Vec<NewMessage>, enqueued_at: Timestamp) -> Counter {
        self.append_batch(batch, enqueued_at)
    }

    #[inline]
    fn append_one(&self, message: NewMessage, enqueued_at: Timestamp) -> Counter {
        self.append_single(message, enqueued_at, slot::READY)
    }

    fn append_scheduled(&self, message: NewMessage, enqueued_at: Timestamp) -> Counter {
        self.append_single(message, enqueued_at, slot::SCHEDULED)
    }

    fn take_scheduled(&self, counter: Counter) -> Option<RemovedMessage> {
        self.remove_scheduled(counter)
    }

    fn claim(
        &self,
        max: usize,
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> usize {
        self.claim_ready(max, mode, now, out, expired)
    }

    fn claim_these(
        &self,
        counters: &[Counter],
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> usize {
        self.claim_numbers(counters, mode, now, out, expired)
    }

    fn has_ready(&self) -> bool {
        self.any_ready()
    }

    fn deliver_cached(&self, key: LockKey, mode: ClaimMode) -> Option<LockKey> {
        self.claim_cached(key, mode)
    }

    fn release_cached(&self, keys: &[LockKey]) -> usize {
        self.release_cached_slots(keys)
    }

    fn settle(&self, key: LockKey, outcome: Outcome, ticks: Ticks) -> Result<SettleResult, LockLost> {
        self.settle_slot(key, outcome, ticks)
    }

    fn complete(&self, keys: &[LockKey], ticks: Ticks, lost: &mut Vec<usize>) {
        self.complete_all(keys, ticks, lost);
    }

    fn renew(&self, key: LockKey, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost> {
        self.renew_lock(key, deadline, ticks)
    }

    fn count_delivery(&self, key: LockKey, ticks: Ticks) -> Result<(), LockLost> {
        self.count_lock_delivery(key, ticks)
    }

    fn rekey(&self, key: LockKey, generation: u32, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost> {
        self.rekey_lock(key, generation, deadline, ticks)
    }

    fn is_claimed_by(&self, key: LockKey, ticks: Ticks) -> bool {
        self.has_claim(key, ticks)
    }

    fn lock_deferred(
        &self,
        counters: &[Counter],
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
    ) -> Result<(), Counter> {
        self.lock_or_take_deferred(counters, mode, now, out)
    }

    fn take_expired(&self, counters: &[Counter], now: Timestamp, expired: &mut Vec<RemovedMessage>) {
        self.take_expired_deferred(counters, now, expired);
    }

    fn expire(&self, ticks: Ticks, max_delivery_count: u32, exhausted: &mut Vec<RemovedMessage>) -> usize {
        self.expire_locks(ticks, max_delivery_count, exhausted)
    }

    fn next_expiry(&self) -> Ticks {
        self.earliest_deadline().min(self.overflow.earliest())
    }

    fn peek(&self, from: Counter, max: usize, out: &mut Vec<PeekedMessage>) {
        self.browse_from(from, max, out);
    }

    fn counts(&self) -> PhaseCounts {
        self.count_all()
    }

    fn approximate_count(&self) -> u64 {
        SlotLog::approximate_count(self)
    }

    fn overhead_bytes(&self) -> usize {
        self.directory.bytes() + self.overflow.bytes()
    }
}

impl NumberedStore for SlotLog {
    fn restore(next: Counter, messages: impl Iterator<Item = RestoredMessage>) -> Self {
        Self::restore_from(next, messages)
    }

    fn next(&self) -> Counter {
        Counter(self.cursors.tail.load(Ordering::SeqCst) + 1)
    }

    fn is_decided(&self, before: Counter) -> bool {
        self.visible() + 1 >= before.0
    }

    fn reserve(&self, count: usize) -> Counter {
        Counter(self.reserve_indexes(count as u64) + 1)
    }

    fn publish(&self, first: Counter, batch: &mut Vec<NewMessage>, enqueued_at: Timestamp) {
        self.publish_batch(first.0 - 1, batch, enqueued_at);
    }

    fn publish_scheduled(&self, counter: Counter, message: NewMessage, enqueued_at: Timestamp) {
        self.publish_single(counter.0 - 1, message, enqueued_at, slot::SCHEDULED);
    }

    fn give_up(&self, first: Counter, count: usize) {
        self.publish_empty(first.0 - 1, count as u64);
    }
}
