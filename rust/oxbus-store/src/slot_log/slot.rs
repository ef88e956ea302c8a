// SPDX-License-Identifier: Apache-2.0
//! The slot of one message: four words, 32 bytes.
//!
//! ```text
//! w0 state   phase 4 | delivery count, low 12 | generation 20 | deadline 28: ticks modulo 2^28, or open end, or never
//! w1 body    pointer of a `StoredRecord`: a record in memory, or its location in the journal
//! w2         enqueued at 48 | delivery count, high 16
//! w3         expires at 48  | 16 spare
//! ```
//!
//! Invariants
//! - only the appender that reserved the slot moves it out of FREE, once;
//! - the thread that cleared the ready bit owns a READY slot and moves it on with plain stores;
//! - one compare-and-swap on `w0` moves a slot out of CACHED, LOCKED, DEFERRED, `DEFERRED_LOCKED` or SCHEDULED;
//! - a slot that is BUSY, or READY without its bit, belongs to the thread that made it so, which may write all words;
//! - DONE, DEAD and MOVED are final and own no body; every other phase except FREE owns one.
//!
//! A deadline of 28 bits spans 74 h. A lock that expired up to 37 h ago compares correctly without a sweep, so only
//! `expire` walks a long jump of the clock in steps.

use oxbus_model::{Ticks, Timestamp};

use crate::message_store::GENERATION_MAX;
use crate::sync::{AtomicU64, Ordering};
use crate::{MessagePhase, StoredRecord};

/// Not published.
pub(super) const FREE: u64 = 0;
/// Waits for a receiver. Its ready bit is set or about to be set.
pub(super) const READY: u64 = 1;
/// In a receive cache.
pub(super) const CACHED: u64 = 2;
/// Locked until the deadline.
pub(super) const LOCKED: u64 = 3;
/// Completed, or taken by receive-and-delete.
pub(super) const DONE: u64 = 4;
/// Deferred and not locked.
pub(super) const DEFERRED: u64 = 5;
/// Deferred and locked.
pub(super) const DEFERRED_LOCKED: u64 = 6;
/// Waits for its due time.
pub(super) const SCHEDULED: u64 = 7;
/// Its message left the log with its body (removed, exhausted or expired), or its number was given up.
pub(super) const DEAD: u64 = 8;
/// Its message, if any, is in the overflow map.
pub(super) const MOVED: u64 = 9;
/// Deferred, owned by one thread for a few instructions.
pub(super) const BUSY: u64 = 10;

/// Decoding is correct for deadlines up to this far from the reference tick, with some hours to spare for long locks.
pub(super) const DECODE_RANGE_MS: u64 = 1 << 26;

const COUNT_BITS: u32 = 12;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const COUNT_SHIFT: u32 = 4;
const GENERATION_SHIFT: u32 = 16;
const GENERATION_MASK: u64 = GENERATION_MAX as u64;
const DEADLINE_SHIFT: u32 = 36;
/// Deadline of a lock that never expires and is not a delivery: all 28 bits are set.
const NO_DEADLINE: u64 = (1 << (64 - DEADLINE_SHIFT)) - 1;
/// Deadline of a delivery whose lock has no separate deadline, [`Ticks::OPEN_END`].
const OPEN_END: u64 = NO_DEADLINE - 1;
const TIME_BITS: u32 = 48;
const TIME_MAX: u64 = (1 << TIME_BITS) - 1;
const HIGH_COUNT_MAX: u64 = (1 << 16) - 1;

/// The first word of a slot: phase, delivery count, generation and deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotState(pub(super) u64);

impl SlotState {
    /// The state of a message that was never claimed.
    pub(super) fn new(phase: u64) -> Self {
        Self(phase)
    }

    /// The state of a restored message whose latest claim had `generation`.
    pub(super) fn restored(phase: u64, generation: u32) -> Self {
        Self(phase | (u64::from(generation) & GENERATION_MASK) << GENERATION_SHIFT)
    }

    pub(super) fn phase(self) -> u64 {
        self.0 & 0xF
    }

    pub(super) fn generation(self) -> u32 {
        (self.0 >> GENERATION_SHIFT & GENERATION_MASK) as u32
    }

    /// Low bits of the delivery count.
    fn low_count(self) -> u64 {
        self.0 >> COUNT_SHIFT & COUNT_MAX
    }

    pub(super) fn is_locked(self) -> bool {
        matches!(self.phase(), LOCKED | DEFERRED_LOCKED)
    }

    /// True if the lock is a delivery.
    pub(super) fn is_delivered(self) -> bool {
        self.is_locked() && self.0 >> DEADLINE_SHIFT != NO_DEADLINE
    }

    /// True if the slot owns a body.
    pub(super) fn has_body(self) -> bool {
        !matches!(self.phase(), FREE | DONE | DEAD | MOVED)
    }

    /// The phase that a browser sees. `None` if the slot has no message.
    pub(super) fn visible_phase(self) -> Option<MessagePhase> {
        Some(match self.phase() {
            READY => MessagePhase::Ready,
            CACHED => MessagePhase::Cached,
            LOCKED => MessagePhase::Locked,
            DEFERRED | BUSY => MessagePhase::Deferred,
            DEFERRED_LOCKED => MessagePhase::DeferredLocked,
            SCHEDULED => MessagePhase::Scheduled,
            _ => return None,
        })
    }

    /// The full deadline: the one within 37 h of `near` that matches the 28 bits.
    #[inline]
    pub(super) fn deadline(self, near: Ticks) -> Ticks {
        let short = self.0 >> DEADLINE_SHIFT;
        if short >= OPEN_END {
            return Ticks(Ticks::NEVER.0 - (NO_DEADLINE - short));
        }
        let distance = short.wrapping_sub(near.0) << DEADLINE_SHIFT;
        let signed = distance as i64 >> DEADLINE_SHIFT;
        Ticks(near.0.saturating_add_signed(signed))
    }

    /// The same state in another phase, without a deadline.
    pub(super) fn into_phase(self, phase: u64) -> Self {
        let kept = self.0 & ((1 << DEADLINE_SHIFT) - 1) & !0xF;
        Self(kept | phase)
    }

    /// The same state after a claim with a new generation.
    pub(super) fn claimed(self, phase: u64, deadline: Ticks) -> Self {
        let generation = (u64::from(self.generation()) + 1) & GENERATION_MASK;
        Self(phase | self.low_count() << COUNT_SHIFT | generation << GENERATION_SHIFT).with_deadline(deadline)
    }

    /// The same state with another generation.
    pub(super) fn with_generation(self, generation: u32) -> Self {
        let cleared = self.0 & !(GENERATION_MASK << GENERATION_SHIFT);
        Self(cleared | (u64::from(generation) & GENERATION_MASK) << GENERATION_SHIFT)
    }

    /// The same state with another deadline.
    #[inline]
    pub(super) fn with_deadline(self, deadline: Ticks) -> Self {
        let mut short = deadline.0 & NO_DEADLINE;
        if short >= OPEN_END && deadline < Ticks::OPEN_END {
            // Two ticks in 74 h have the bits of the special values. Locks with these deadlines last up to two
            // milliseconds longer.
            short = 0;
        }
        Self(self.0 & ((1 << DEADLINE_SHIFT) - 1) | short << DEADLINE_SHIFT)
    }

    /// The same state with the low bits of `delivery_count`.
    pub(super) fn with_delivery_count(self, delivery_count: u32) -> Self {
        let low = u64::from(delivery_count) & COUNT_MAX;
        Self(self.0 & !(COUNT_MAX << COUNT_SHIFT) | low << COUNT_SHIFT)
    }
}

/// The slot of one message in its segment.
#[derive(Debug)]
#[repr(align(32))]
pub(super) struct Slot {
    state: AtomicU64,
    body: AtomicU64,
    enqueued: AtomicU64,
    expires: AtomicU64,
}

impl Slot {
    pub(super) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            state: zero(),
            body: zero(),
            enqueued: zero(),
            expires: zero(),
        }
    }

    /// Writes everything but the state. The caller must have reserved the slot.
    #[inline]
    pub(super) fn fill(&self, record: StoredRecord, enqueued_at: Timestamp, expires_at: Timestamp) {
        self.body.store(record.into_raw(), Ordering::Relaxed);
        self.enqueued.store(enqueued_at.0.min(TIME_MAX), Ordering::Relaxed);
        self.expires.store(expires_at.0.min(TIME_MAX), Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn state(&self) -> SlotState {
        SlotState(self.state.load(Ordering::Acquire))
    }

    /// The state, read in the total order of sequentially consistent operations.
    #[inline]
    pub(super) fn state_seq_cst(&self) -> SlotState {
        SlotState(self.state.load(Ordering::SeqCst))
    }

    /// Sets the state of a slot that the caller owns, and publishes the caller's earlier writes.
    #[inline]
    pub(super) fn publish(&self, state: SlotState) {
        self.state.store(state.0, Ordering::Release);
    }

    /// Replaces the state `from` with `to`. If it returns true, the caller owns what `from` owned.
    #[inline]
    pub(super) fn compare_exchange(&self, from: SlotState, to: SlotState) -> bool {
        self.state
            .compare_exchange(from.0, to.0, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }

    #[inline]
    pub(super) fn body(&self) -> u64 {
        self.body.load(Ordering::Acquire)
    }

    /// Replaces the body and returns the old one. The caller must own the slot.
    pub(super) fn replace_body(&self, record: StoredRecord) -> u64 {
        let old = self.body();
        self.body.store(record.into_raw(), Ordering::Release);
        old
    }

    #[inline]
    pub(super) fn enqueued_at(&self) -> Timestamp {
        Timestamp(self.enqueued.load(Ordering::Relaxed) & TIME_MAX)
    }

    #[inline]
    pub(super) fn expires_at(&self) -> Timestamp {
        Timestamp(self.expires.load(Ordering::Relaxed) & TIME_MAX)
    }

    /// Deliveries counted so far. `state` is the state of this slot.
    #[inline]
    pub(super) fn delivery_count(&self, state: SlotState) -> u32 {
        let high = self.enqueued.load(Ordering::Relaxed) >> TIME_BITS;
        (high << COUNT_BITS | state.low_count()) as u32
    }

    /// Writes the high bits of `delivery_count`. No other thread may write the slot.
    pub(super) fn set_high_count(&self, delivery_count: u32) {
        let high = u64::from(delivery_count) >> COUNT_BITS;
        let enqueued = self.enqueued.load(Ordering::Relaxed) & TIME_MAX;
        self.enqueued.store(high << TIME_BITS | enqueued, Ordering::Relaxed);
    }
}

/// The count after one more delivery, up to the largest count that a slot can store.
pub(super) fn add_delivery(delivery_count: u32) -> u32 {
    let max = (HIGH_COUNT_MAX << COUNT_BITS | COUNT_MAX) as u32;
    (delivery_count + 1).min(max)
}

/// True if the bits above the low ones differ.
pub(super) fn high_bits_differ(before: u32, after: u32) -> bool {
    before >> COUNT_BITS != after >> COUNT_BITS
}
