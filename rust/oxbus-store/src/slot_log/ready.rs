// SPDX-License-Identifier: Apache-2.0
//! Ready bits, and the hint that says at which segment to start the search for them.
//!
//! The hint is a segment number with a version. A thread that makes a message ready sets the bit first and then lowers
//! the hint, with a new version even if the number stays the same. A claim raises the hint only from the exact value
//! that it read before its scan. So if the scan missed a bit, either the hint is still to be lowered for that bit, or
//! the lowering makes the raise fail. Without the version, the hint could be raised past a bit that was set in the
//! hint's own segment after the scan.
//!
//! The number has 40 bits, which is enough segments for 48-bit counters, and the version has 24. A raise goes wrong
//! only after exactly 2^24 requeues during one scan.

use super::epoch;
use super::segment::{SlotSegment, span};
use super::{EpochGuard, SlotLog};
use crate::sync::Ordering;

const NUMBER_BITS: u32 = 40;
const NUMBER_MAX: u64 = (1 << NUMBER_BITS) - 1;

/// A segment number with a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadyHint(u64);

impl ReadyHint {
    #[inline]
    pub(super) fn number(self) -> u64 {
        self.0 & NUMBER_MAX
    }

    #[inline]
    fn raised(self, number: u64) -> Self {
        Self(self.0 & !NUMBER_MAX | number)
    }

    #[inline]
    fn lowered(self, number: u64) -> Self {
        let version = (self.0 >> NUMBER_BITS).wrapping_add(1);
        Self(version << NUMBER_BITS | self.number().min(number))
    }
}

impl SlotLog {
    /// The hint. Read it before `visible`, and read both before the bits.
    #[inline]
    pub(super) fn hint(&self) -> ReadyHint {
        ReadyHint(self.cursors.hint.load(Ordering::Acquire))
    }

    /// Raises the hint to `number`, unless it changed since `seen` was read.
    #[inline]
    pub(super) fn raise_hint(&self, seen: ReadyHint, number: u64) {
        let raised = seen.raised(number);
        // A failure is harmless: the next claim scans a few more segments.
        let _ = self
            .cursors
            .hint
            .compare_exchange(seen.0, raised.0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Makes later claims scan segment `number`, whose bits the caller set.
    #[inline]
    pub(super) fn lower_hint(&self, number: u64) {
        let mut seen = self.hint();
        while let Err(newer) =
            self.cursors
                .hint
                .compare_exchange_weak(seen.0, seen.lowered(number).0, Ordering::AcqRel, Ordering::Acquire)
        {
            seen = ReadyHint(newer);
        }
    }

    /// Sets the ready bit of a slot that the caller owns and whose state is ready. After that the caller no longer
    /// owns it.
    #[inline]
    pub(super) fn set_ready(&self, segment: &SlotSegment, offset: usize) {
        segment.ready()[offset / 64].fetch_or(1 << (offset % 64), Ordering::AcqRel);
        self.lower_hint(segment.number);
    }

    /// True if a claim could find a message.
    pub(super) fn any_ready(&self) -> bool {
        let hint = self.hint();
        let visible = self.visible();
        if span(hint.number()).0 >= visible {
            return false;
        }
        let guard = epoch::pin();
        self.first_ready_segment(hint, visible, &guard).is_some()
    }

    /// The number of the first segment with a ready bit below `visible`. Raises the hint to that number.
    fn first_ready_segment(&self, hint: ReadyHint, visible: u64, guard: &EpochGuard) -> Option<u64> {
        let mut number = hint.number();
        loop {
            let (first, len) = span(number);
            if first >= visible {
                break;
            }
            if let Some(segment) = self.directory.get(number, guard)
                && (0..segment.ready().len()).any(|word| segment.ready_below(word, visible) != 0)
            {
                if number > hint.number() {
                    self.raise_hint(hint, number);
                }
                return Some(number);
            }
            if first + len > visible {
                break;
            }
            number += 1;
        }
        if number > hint.number() {
            self.raise_hint(hint, number);
        }
        None
    }
}

impl SlotSegment {
    /// Ready bits of a word, without those at or above `visible`.
    #[inline]
    pub(super) fn ready_below(&self, word: usize, visible: u64) -> u64 {
        let bits = self.ready()[word].load(Ordering::Acquire);
        if bits == 0 {
            return 0;
        }
        match visible.saturating_sub(self.first + word as u64 * 64) {
            0 => 0,
            covered @ 1..64 => bits & ((1 << covered) - 1),
            _ => bits,
        }
    }
}
