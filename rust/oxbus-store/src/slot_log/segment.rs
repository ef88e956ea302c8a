// SPDX-License-Identifier: Apache-2.0
//! A segment: consecutive slots with one ready bit each.
//!
//! Invariants
//! - the number of a segment and the indexes that it covers do not change;
//! - `finished` counts the slots whose phase is final, each once. A segment whose slots are all finished owns no body;
//! - no lock in the segment expires before `earliest_deadline`, except while a sweep has set it to never.
//!
//! The first segments are small, so that an entity with few messages needs little memory.

use oxbus_model::Ticks;

use super::slot::Slot;
use crate::StoredRecord;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

#[cfg(not(loom))]
const FIRST_LEN: u64 = 16;
#[cfg(not(loom))]
const SECOND_LEN: u64 = 64;
#[cfg(not(loom))]
const LATER_LEN: u64 = 256;
#[cfg(loom)]
const FIRST_LEN: u64 = 2;
#[cfg(loom)]
const SECOND_LEN: u64 = 2;
#[cfg(loom)]
const LATER_LEN: u64 = 2;

/// Words of ready bits in a segment.
pub(super) const WORDS: usize = LATER_LEN.div_ceil(64) as usize;

/// The slots of one segment. The fields that every thread reads are in one cache line, and the fields that claims
/// change are in the next.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct SlotSegment {
    pub(super) number: u64,
    /// Index of the first slot.
    pub(super) first: u64,
    pub(super) slots: Box<[Slot]>,
    pub(super) earliest_deadline: AtomicU64,
    claim_fields: ClaimFields,
}

#[derive(Debug)]
#[repr(align(64))]
struct ClaimFields {
    ready: [AtomicU64; WORDS],
    finished: AtomicU32,
}

impl SlotSegment {
    pub(super) fn new(number: u64) -> Self {
        let (first, len) = span(number);
        Self {
            number,
            first,
            slots: (0..len).map(|_| Slot::new()).collect(),
            earliest_deadline: AtomicU64::new(Ticks::NEVER.0),
            claim_fields: ClaimFields {
                ready: std::array::from_fn(|_| AtomicU64::new(0)),
                finished: AtomicU32::new(0),
            },
        }
    }

    /// Ready bits, one per slot.
    #[inline]
    pub(super) fn ready(&self) -> &[AtomicU64; WORDS] {
        &self.claim_fields.ready
    }

    /// The index after that of the last slot.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    /// The number of slots that contain or will contain a message.
    #[inline]
    pub(super) fn unfinished(&self) -> usize {
        self.slots.len() - self.claim_fields.finished.load(Ordering::SeqCst) as usize
    }

    /// Counts `n` more slots whose phase is final. Returns how many are unfinished.
    #[inline]
    pub(super) fn add_finished(&self, n: usize) -> usize {
        let before = self.claim_fields.finished.fetch_add(n as u32, Ordering::SeqCst) as usize;
        self.slots.len() - before - n
    }

    /// True if any ready bit is set.
    #[inline]
    pub(super) fn has_ready(&self) -> bool {
        self.ready().iter().any(|word| word.load(Ordering::Acquire) != 0)
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.slots.len() * size_of::<Slot>()
    }
}

impl Drop for SlotSegment {
    fn drop(&mut self) {
        if self.unfinished() == 0 {
            return;
        }
        for slot in &self.slots {
            if slot.state().has_body() {
                // SAFETY: the slot owns a body in this phase, and no other thread can reach the segment.
                drop(unsafe { StoredRecord::from_raw(slot.body()) });
            }
        }
    }
}

/// Segment number and offset of a slot's index.
#[inline]
pub(super) fn locate(index: u64) -> (u64, usize) {
    if index >= FIRST_LEN + SECOND_LEN {
        let rest = index - (FIRST_LEN + SECOND_LEN);
        (2 + rest / LATER_LEN, (rest % LATER_LEN) as usize)
    } else if index >= FIRST_LEN {
        (1, (index - FIRST_LEN) as usize)
    } else {
        (0, index as usize)
    }
}

/// First index and length of a segment.
#[inline]
pub(super) fn span(number: u64) -> (u64, u64) {
    match number {
        0 => (0, FIRST_LEN),
        1 => (FIRST_LEN, SECOND_LEN),
        _ => (FIRST_LEN + SECOND_LEN + (number - 2) * LATER_LEN, LATER_LEN),
    }
}
