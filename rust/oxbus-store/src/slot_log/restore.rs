// SPDX-License-Identifier: Apache-2.0
//! Building a log from the messages that recovery found, under their numbers.
//!
//! Ready messages get slots. The other slots of their segments are final from the start. Segments without ready
//! messages are not added. Deferred and scheduled messages go to the overflow map, where they would move later anyway.

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
        let (ready, inactive): (Vec<RestoredMessage>, Vec<RestoredMessage>) =
            messages.partition(|restored| restored.phase == MessagePhase::Ready);
        let first = ready.first().map_or(tail, |restored| restored.message.counter.0 - 1);
        let first_segment = locate(first).0;
        let log = Self {
            cursors: Cursors {
                tail: AtomicU64::new(tail),
                visible: AtomicU64::new(tail),
                // A hint is a segment number with a version, here 0.
                hint: AtomicU64::new(first_segment),
            },
            directory: Directory::starting_at(first_segment),
            overflow: OverflowMap::with(inactive),
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
            // The next message goes into the middle of this segment.
            log.directory.get_or_add(last, &guard);
            log.finish_segment(Some(last), tail, &guard);
        }
        log
    }

    /// Makes the slots below `tail` without a message final.
    fn finish_segment(&self, number: Option<u64>, tail: u64, guard: &EpochGuard) {
        let Some(segment) = number.and_then(|number| self.directory.get(number, guard)) else {
            return;
        };
        let mut finished = 0;
        for (index, slot) in (segment.first..tail).zip(&segment.slots) {
            debug_assert!(index < segment.end(), "the slots end first");
            if slot.state().phase() == FREE {
                // Its message, if deferred or scheduled, is in the overflow map.
                slot.publish(SlotState::new(MOVED));
                finished += 1;
            }
        }
        segment.add_finished(finished);
    }
}

impl Slot {
    /// Fills a slot that no other thread can reach yet. The message is ready.
    fn restore(&self, restored: RestoredMessage) {
        let message = restored.message;
        self.fill(message.record, message.enqueued_at, message.expires_at);
        self.set_high_count(message.delivery_count);
        self.publish(SlotState::restored(READY, restored.generation).with_delivery_count(message.delivery_count));
    }
}
