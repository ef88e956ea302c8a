// SPDX-License-Identifier: Apache-2.0
//! Ending expired locks.
//!
//! Each segment has an earliest deadline, before which none of its locks expires, and so does the log. A claim stores
//! its slots, then lowers both. A sweep sets the log's value to never, then that of each due segment, reads the slots,
//! and lowers both values to the minimum of the remaining deadlines. So either the sweep sees the slot of a concurrent
//! claim, or the claim lowers the values after the sweep has set them to never. There is no third case: a fence
//! separates a claim's stores to its slots from its reads, and both sides lower the segment's value before the log's.
//!
//! A deadline decodes as the one nearest to a reference tick (`slot`), so `expire` walks a long jump of the clock in
//! steps.

use oxbus_model::{Counter, Ticks};

use super::epoch::{self, EpochGuard};
use super::segment::SlotSegment;
use super::settle::RequeueResult;
use super::slot::DECODE_RANGE_MS;
use super::{RemovedMessage, SlotLog};
use crate::sync::{Ordering, fence, fence_after_rmw};

impl SlotLog {
    /// Lowers the earliest deadlines of the segment and the log to `deadline`. The caller must have stored the slots
    /// before.
    #[inline]
    pub(super) fn lower_earliest(&self, segment: &SlotSegment, deadline: Ticks) {
        // Orders the stores to the slots before the reads below.
        fence(Ordering::SeqCst);
        self.lower_earliest_after_cas(segment, deadline);
    }

    /// Does what `lower_earliest` does, after a sequentially consistent compare-and-swap of the slot, which needs no
    /// fence.
    #[inline]
    pub(super) fn lower_earliest_after_cas(&self, segment: &SlotSegment, deadline: Ticks) {
        if self.locked_up_to.load(Ordering::SeqCst) < segment.number {
            self.locked_up_to.fetch_max(segment.number, Ordering::SeqCst);
        }
        fence_after_rmw();
        if segment.earliest_deadline.load(Ordering::SeqCst) > deadline.0 {
            segment.earliest_deadline.fetch_min(deadline.0, Ordering::SeqCst);
            fence_after_rmw();
        }
        if self.earliest_deadline.load(Ordering::SeqCst) > deadline.0 {
            self.earliest_deadline.fetch_min(deadline.0, Ordering::SeqCst);
        }
    }

    pub(super) fn expire_locks(
        &self,
        ticks: Ticks,
        max_delivery_count: u32,
        exhausted: &mut Vec<RemovedMessage>,
    ) -> usize {
        let mut ready = 0;
        let mut due = self.earliest_deadline.load(Ordering::Acquire);
        if due <= ticks.0 {
            let guard = epoch::pin();
            while due.saturating_add(DECODE_RANGE_MS) < ticks.0 {
                ready += self.sweep(Ticks(due + DECODE_RANGE_MS), max_delivery_count, exhausted, &guard);
                due = self
                    .earliest_deadline
                    .load(Ordering::Acquire)
                    .max(due + DECODE_RANGE_MS);
            }
            ready += self.sweep(ticks, max_delivery_count, exhausted, &guard);
        }
        ready + self.overflow.expire(ticks, max_delivery_count, exhausted)
    }

    fn sweep(
        &self,
        ticks: Ticks,
        max_delivery_count: u32,
        exhausted: &mut Vec<RemovedMessage>,
        guard: &EpochGuard,
    ) -> usize {
        self.sweeps_begun.fetch_add(1, Ordering::SeqCst);
        self.earliest_deadline.swap(Ticks::NEVER.0, Ordering::SeqCst);
        fence_after_rmw();
        let mut ready = 0;
        let mut earliest = Ticks::NEVER.0;
        for number in self.directory.head()..=self.locked_up_to.load(Ordering::SeqCst) {
            let Some(segment) = self.directory.get(number, guard) else {
                continue;
            };
            let due = segment.earliest_deadline.load(Ordering::SeqCst);
            if due > ticks.0 {
                earliest = earliest.min(due);
                continue;
            }
            segment.earliest_deadline.swap(Ticks::NEVER.0, Ordering::SeqCst);
            fence_after_rmw();
            let remaining = self.sweep_segment(segment, ticks, max_delivery_count, exhausted, guard, &mut ready);
            if remaining < Ticks::OPEN_END {
                segment.earliest_deadline.fetch_min(remaining.0, Ordering::SeqCst);
                earliest = earliest.min(remaining.0);
            }
        }
        if earliest < Ticks::OPEN_END.0 {
            self.earliest_deadline.fetch_min(earliest, Ordering::SeqCst);
        }
        self.sweeps_ended.fetch_add(1, Ordering::SeqCst);
        ready
    }

    /// A tick before which no lock in a slot expires, or 0 during a sweep.
    pub(super) fn earliest_deadline(&self) -> Ticks {
        let ended = self.sweeps_ended.load(Ordering::SeqCst);
        let earliest = self.earliest_deadline.load(Ordering::SeqCst);
        // Differs from `ended` when a sweep began before `earliest` was read and had not ended when `ended` was read.
        let begun = self.sweeps_begun.load(Ordering::SeqCst);
        Ticks(if begun == ended { earliest } else { 0 })
    }

    /// Ends the expired locks of one segment and returns the earliest deadline of the others.
    fn sweep_segment(
        &self,
        segment: &SlotSegment,
        ticks: Ticks,
        max_delivery_count: u32,
        exhausted: &mut Vec<RemovedMessage>,
        guard: &EpochGuard,
        ready: &mut usize,
    ) -> Ticks {
        let mut earliest = Ticks::NEVER;
        let mut requeued = 0;
        for (word, slots) in segment.slots.chunks(64).enumerate() {
            let mut bits = 0;
            for (bit, slot) in slots.iter().enumerate() {
                loop {
                    let state = slot.state_seq_cst();
                    if !state.is_locked() {
                        break;
                    }
                    let deadline = state.deadline(ticks);
                    if deadline > ticks {
                        earliest = earliest.min(deadline);
                        break;
                    }
                    let counter = Counter(segment.first + (word * 64 + bit) as u64 + 1);
                    match self.requeue(segment, slot, counter, state, max_delivery_count, None, guard) {
                        RequeueResult::LostRace => continue,
                        RequeueResult::Ready => bits |= 1 << bit,
                        RequeueResult::Exhausted(removed) => exhausted.push(removed),
                        RequeueResult::Deferred => {}
                    }
                    break;
                }
            }
            if bits != 0 {
                segment.ready()[word].fetch_or(bits, Ordering::AcqRel);
                requeued += bits.count_ones() as usize;
            }
        }
        if requeued > 0 {
            self.lower_hint(segment.number);
        }
        *ready += requeued;
        earliest
    }
}
