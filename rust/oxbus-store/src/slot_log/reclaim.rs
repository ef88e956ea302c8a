// SPDX-License-Identifier: Apache-2.0
//! Letting go of segments.
//!
//! A segment goes when its last slot is gone and `visible` is past it. Either can come second, so both sides look:
//! who counts the last slot reads `visible`, who moves `visible` past a segment reads its count.
//! The directory takes the segment once, however many ask.

use super::segment::{SlotSegment, place};
use super::{EpochGuard, SlotLog};
use crate::sync::{Ordering, fence_after_rmw};

impl SlotLog {
    /// Counts `n` slots of the segment as gone. Their states are final and their bodies taken.
    #[inline]
    pub(super) fn count_gone(&self, segment: &SlotSegment, n: usize, guard: &EpochGuard) {
        if n == 0 {
            return;
        }
        let left = segment.add_gone(n);
        fence_after_rmw();
        let sparse = segment.slots.len() / 8;
        if left == 0 || (left <= sparse && left + n > sparse) || (left < sparse && (left + n).ilog2() != left.ilog2()) {
            self.tidy(segment, left, guard);
        }
    }

    /// Unlinks a segment without messages and empties one with few, once it is wholly visible.
    #[cold]
    pub(super) fn tidy(&self, segment: &SlotSegment, left: usize, guard: &EpochGuard) {
        let visible = self.ends.visible.load(Ordering::SeqCst);
        if segment.end() > visible || left > segment.slots.len() / 8 {
            return;
        }
        if left > 0 {
            self.move_stragglers(segment, guard);
        } else {
            self.directory.unlink(segment, place(visible).0, guard);
        }
    }

    /// The same after a message was deferred.
    pub(super) fn tidy_sparse(&self, segment: &SlotSegment, guard: &EpochGuard) {
        let left = segment.left();
        if left <= segment.slots.len() / 8 {
            self.tidy(segment, left, guard);
        }
    }
}
