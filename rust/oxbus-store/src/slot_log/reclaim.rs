// SPDX-License-Identifier: Apache-2.0
//! Reclaiming segments.
//!
//! A segment is unlinked when all its slots are finished and `visible` is past it. Either can happen last, so both
//! threads check: the thread that counts the last slot reads `visible`, and the thread that moves `visible` past the
//! segment reads its count. If both try, the directory unlinks the segment only once.

use super::segment::{SlotSegment, locate};
use super::{EpochGuard, SlotLog};
use crate::sync::{Ordering, fence_after_rmw};

impl SlotLog {
    /// Counts `n` slots of the segment as finished. Their states are final and their bodies have been taken.
    #[inline]
    pub(super) fn count_finished(&self, segment: &SlotSegment, n: usize, guard: &EpochGuard) {
        if n == 0 {
            return;
        }
        let unfinished = segment.add_finished(n);
        fence_after_rmw();
        let sparse = segment.slots.len() / 8;
        // Below the threshold, the segment is searched only when the number halves, not for each message.
        if unfinished == 0
            || (unfinished <= sparse && unfinished + n > sparse)
            || (unfinished < sparse && (unfinished + n).ilog2() != unfinished.ilog2())
        {
            self.reclaim(segment, unfinished, guard);
        }
    }

    /// Unlinks a wholly visible segment without messages, and moves the messages of one with few to the overflow map.
    #[cold]
    pub(super) fn reclaim(&self, segment: &SlotSegment, unfinished: usize, guard: &EpochGuard) {
        let visible = self.cursors.visible.load(Ordering::SeqCst);
        if segment.end() > visible || unfinished > segment.slots.len() / 8 {
            return;
        }
        if unfinished > 0 {
            self.move_to_overflow(segment, guard);
        } else {
            self.directory.unlink(segment, locate(visible).0, guard);
        }
    }

    /// Reclaims the segment after a message was deferred, if few messages are left.
    pub(super) fn reclaim_if_sparse(&self, segment: &SlotSegment, guard: &EpochGuard) {
        let unfinished = segment.unfinished();
        if unfinished <= segment.slots.len() / 8 {
            self.reclaim(segment, unfinished, guard);
        }
    }
}
