// SPDX-License-Identifier: Apache-2.0
//! A log that begins with messages: what recovery found, under the numbers they have.
//!
//! Ready messages get slots; the other slots of their segments are final without ever having held anything, and a
//! segment without a ready message is never made. Deferred and scheduled messages go to the map of overflow, where
//! they would end up anyway.

use oxbus_model::Counter;

use super::directory::Directory;
use super::epoch::{self, EpochGuard};
use super::overflow::OverflowMap;
use super::segment::locate;
use super::slot::{FREE, MOVED, READY, Slot, SlotState};
use super::{Cursors, SlotLog};
use crate::message_store::{MessagePhase, RestoredMessage};
use crate::sync::{AtomicU64, Ordering};

impl SlotLog {
    /// See [`NumberedStore::restore`](crate::NumberedStore::restore).
    pub(super) fn restore_from(next: Counter, messages: impl Iterator<Item = RestoredMessage>) -> Self {
        let tail = next.0 - 1;
        let (ready, waiting): (Vec<RestoredMessage>, Vec<RestoredMessage>) =
            messages.partition(|restored| restored.phase == MessagePhase::Ready);
        let first = ready.first().map_or(tail, |restored| restored.message.counter.0 - 1);
        let first_segment = locate(first).0;
        let log = Self {
            cursors: Cursors {
                tail: AtomicU64::new(tail),
                visible: AtomicU64::new(tail),
                // A hint is a segment's number, under a version that begins at 0.
                hint: AtomicU64::new(first_segment),
            },
            directory: Directory::starting_at(first_segment),
            overflow: OverflowMap::with(waiting),
            ..Self::new()
        };
        let guard = epoch::pin();
        let mut filled = None;
        for restored in ready {
            let (number, offset) = locate(restored.message.counter.0 - 1);
            if filled.is_some_and(|filled| filled != number) {
                log.finish_segment(filled, tail, &guard);
            }
            filled = Some(number);
            let segment = log.directory.get_or_add(number, &guard);
            segment.slots[offset].restore(restored);
            segment.ready()[offset / 64].fetch_or(1 << (offset % 64), Ordering::Relaxed);
        }
        log.finish_segment(filled, tail, &guard);
        let (last, used) = locate(tail);
        if used > 0 && filled != Some(last) {
            // The next message comes into the middle of it.
            log.directory.get_or_add(last, &guard);
            log.finish_segment(Some(last), tail, &guard);
        }
        log
    }

    /// Makes the slots below `tail` that hold no message final.
    fn finish_segment(&self, number: Option<u64>, tail: u64, guard: &EpochGuard) {
        let Some(segment) = number.and_then(|number| self.directory.get(number, guard)) else {
            return;
        };
        let mut gone = 0;
        for (index, slot) in (segment.first..tail).zip(&segment.slots) {
            debug_assert!(index < segment.end(), "the slots end first");
            if slot.state().phase() == FREE {
                // Who looks for a deferred or scheduled message here goes on to the map.
                slot.publish(SlotState::new(MOVED));
                gone += 1;
            }
        }
        segment.add_finished(gone);
    }
}

impl Slot {
    /// Fills a slot that nobody else knows yet, ready.
    fn restore(&self, restored: RestoredMessage) {
        let message = restored.message;
        self.fill(message.record, message.enqueued_at, message.expires_at);
        self.set_high_count(message.delivery_count);
        self.publish(SlotState::restored(READY, restored.generation).with_delivery_count(message.delivery_count));
    }
}
