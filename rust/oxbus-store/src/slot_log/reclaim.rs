// SPDX-License-Identifier: Apache-2.0
//! Letting go of segments.
//!
//! A segment goes when its last slot is gone and `visible` is past it. Either can come second, so both sides look:
//! who counts the last slot reads `visible`, who moves `visible` past a segment reads its count.
//! The directory takes the segment once, however many ask.

use super::segment::{SlotSegment, locate};
use super::{EpochGuard, SlotLog};
use crate::sync::{Ordering, fence_after_rmw};

impl SlotLog {
    /// Counts `n` slots of the segment as gone. Their states are final and their bodies taken.
    #[inline]
    pub(super) fn count_finished(&self, segment: &SlotSegment, n: usize, guard: &EpochGuard) {
        if n == 0 {
            return;
        }
        let left = segment.add_finished(n);
        fence_after_rmw();
        let sparse = segment.slots.len() / 8;
        if left == 0 || (left <= sparse && left + n > sparse) || (left < sparse && (left + n).ilog2() != left.ilog2()) {
            self.reclaim(segment, left, guard);
        }
    }

    /// Unlinks a segment without messages and empties one with few, once it is wholly visible.
    #[cold]
    pub(super) fn reclaim(&self, segment: &SlotSegment, left: usize, guard: &EpochGuard) {
        let visible = self.cursors.visible.load(Ordering::SeqCst);
        if segment.end() > visible || left > segment.slots.len() / 8 {
            return;
        }
        if left > 0 {
            self.move_to_overflow(segment, guard);
        } else {
            self.directory.unlink(segment, locate(visible).0, guard);
        }
    }

    /// The same after a message was deferred.
    pub(super) fn reclaim_if_sparse(&self, segment: &SlotSegment, guard: &EpochGuard) {
        let left = segment.unfinished();
        if left <= segment.slots.len() / 8 {
            self.reclaim(segment, left, guard);
        }
    }
}
