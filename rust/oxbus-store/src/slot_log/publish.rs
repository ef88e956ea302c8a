// SPDX-License-Identifier: Apache-2.0
//! Append: reserve slots, fill them, advance `visible`.
//!
//! One fetch-and-add reserves a range of indexes. The appender fills its slots, sets their ready bits and stores their
//! states last. A state other than free marks the slot and its bit as complete. `visible` then moves over the complete
//! slots. The thread that closes a gap also moves it over the complete slots after the gap. So a slow appender delays
//! only the messages with higher numbers, and no thread waits for it.
//!
//! The bits must come before the states. If the state came first, another appender could move `visible` over a slot
//! without its bit, and a claim could raise the hint past the slot. No claim would then read the bit that is set
//! later.

use oxbus_model::{Counter, Timestamp};

use super::epoch::{self, EpochGuard};
use super::segment::locate;
use super::slot::{DEAD, FREE, READY, SlotState};
use super::{SlotLog, SlotSegment};
use crate::message_store::NewMessage;
use crate::sync::{Ordering, fence, fence_after_rmw};

impl SlotLog {
    /// Reserves `count` consecutive indexes and returns the first.
    #[inline]
    pub(super) fn reserve_indexes(&self, count: u64) -> u64 {
        self.cursors.tail.fetch_add(count, Ordering::SeqCst)
    }

    #[inline]
    pub(super) fn append_single(&self, message: NewMessage, enqueued_at: Timestamp, phase: u64) -> Counter {
        let index = self.reserve_indexes(1);
        self.publish_single(index, message, enqueued_at, phase);
        Counter(index + 1)
    }

    #[inline]
    pub(super) fn publish_single(&self, index: u64, message: NewMessage, enqueued_at: Timestamp, phase: u64) {
        let guard = epoch::pin();
        let (number, offset) = locate(index);
        let segment = self.directory.get_or_add(number, &guard);
        let slot = &segment.slots[offset];
        slot.fill(message.record, enqueued_at, message.expires_at);
        if phase == READY {
            segment.ready()[offset / 64].fetch_or(1 << (offset % 64), Ordering::Relaxed);
        }
        slot.publish(SlotState::new(phase));
        self.advance_visible(index, index + 1, &guard);
    }

    pub(super) fn append_batch(&self, batch: &mut Vec<NewMessage>, enqueued_at: Timestamp) -> Counter {
        assert!(!batch.is_empty(), "an empty batch has no first number");
        let first = self.reserve_indexes(batch.len() as u64);
        self.publish_batch(first, batch, enqueued_at);
        Counter(first + 1)
    }

    #[inline]
    pub(super) fn publish_batch(&self, first: u64, batch: &mut Vec<NewMessage>, enqueued_at: Timestamp) {
        let guard = epoch::pin();
        let len = batch.len() as u64;
        let mut index = first;
        let mut messages = batch.drain(..);
        while index < first + len {
            let (number, offset) = locate(index);
            let segment = self.directory.get_or_add(number, &guard);
            let end = (offset as u64 + first + len - index).min(segment.slots.len() as u64) as usize;
            for (slot, message) in segment.slots[offset..end].iter().zip(&mut messages) {
                slot.fill(message.record, enqueued_at, message.expires_at);
            }
            segment.set_ready_range(offset, end);
            for slot in &segment.slots[offset..end] {
                slot.publish(SlotState::new(READY));
            }
            index += (end - offset) as u64;
        }
        self.advance_visible(first, first + len, &guard);
    }

    /// Publishes reserved slots without messages.
    pub(super) fn publish_empty(&self, first: u64, count: u64) {
        let guard = epoch::pin();
        for index in first..first + count {
            let (number, offset) = locate(index);
            let segment = self.directory.get_or_add(number, &guard);
            segment.slots[offset].publish(SlotState::new(DEAD));
            self.count_finished(segment, 1, &guard);
        }
        self.advance_visible(first, first + count, &guard);
    }

    /// Moves `visible` over the caller's published range `start .. end` and over the published slots after it.
    fn advance_visible(&self, start: u64, end: u64, guard: &EpochGuard) {
        let mut seen = start;
        loop {
            let swapped = self
                .cursors
                .visible
                .compare_exchange(seen, end, Ordering::SeqCst, Ordering::SeqCst);
            if swapped.is_ok() {
                break;
            }
            // Orders our states before this read. The thread that closes a gap before us stores `visible` before it
            // reads our states, so either we see its `visible` or it sees our states.
            fence(Ordering::SeqCst);
            seen = self.cursors.visible.load(Ordering::SeqCst);
            if seen < start || seen >= end {
                // There is a gap before us, and the thread that closes it moves `visible` over our slots, or has
                // already done so.
                return;
            }
        }
        self.reclaim_passed(seen, end, guard);
        self.advance_visible_further(end, guard);
    }

    /// Moves `visible` onward from `from` over slots that other threads published.
    fn advance_visible_further(&self, mut from: u64, guard: &EpochGuard) {
        fence_after_rmw();
        while self.cursors.tail.load(Ordering::SeqCst) > from {
            let to = self.published_end(from, guard);
            if to == from
                || self
                    .cursors
                    .visible
                    .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
                    .is_err()
            {
                // Either the owner of the slot at `from` has yet to read `visible`, or another thread has moved it.
                return;
            }
            self.reclaim_passed(from, to, guard);
            from = to;
            fence_after_rmw();
        }
    }

    /// The index after the consecutive published slots that begin at `from`.
    fn published_end(&self, from: u64, guard: &EpochGuard) -> u64 {
        let mut index = from;
        loop {
            let (number, offset) = locate(index);
            let Some(segment) = self.directory.get(number, guard) else {
                return index;
            };
            let run = segment.slots[offset..]
                .iter()
                .take_while(|slot| slot.is_published())
                .count();
            index += run as u64;
            if index < segment.end() {
                return index;
            }
        }
    }

    /// Reclaims, where possible, the segments that came to be wholly below `visible` when it moved from `from` to
    /// `to`.
    #[inline]
    fn reclaim_passed(&self, from: u64, to: u64, guard: &EpochGuard) {
        let (first, after) = (locate(from).0, locate(to).0);
        fence_after_rmw();
        for number in first..after {
            if let Some(segment) = self.directory.get(number, guard) {
                self.reclaim(segment, segment.unfinished(), guard);
            }
        }
    }
}

impl SlotSegment {
    /// Sets the bits of `start .. end`, one read-modify-write per word.
    fn set_ready_range(&self, start: usize, end: usize) {
        for word in start / 64..end.div_ceil(64) {
            let low = start.saturating_sub(word * 64);
            let high = (end - word * 64).min(64);
            let mask = (u64::MAX >> (64 - (high - low))) << low;
            self.ready()[word].fetch_or(mask, Ordering::Relaxed);
        }
    }
}

impl super::Slot {
    /// True once its appender has stored its state.
    #[inline]
    fn is_published(&self) -> bool {
        self.state_seq_cst().phase() != FREE
    }
}
