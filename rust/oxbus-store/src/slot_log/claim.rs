// SPDX-License-Identifier: Apache-2.0
//! Claiming ready messages, lowest numbers first.
//!
//! A claim clears up to 64 ready bits with one read-modify-write. The thread that cleared a bit owns the slot, so it
//! writes the slot with plain stores.

use oxbus_model::{Counter, Ticks, Timestamp};

use super::browse::BodyRemoval;
use super::epoch::{self, EpochGuard};
use super::segment::{SlotSegment, span};
use super::slot::{CACHED, DEAD, DONE, LOCKED, Slot};
use super::{ClaimMode, ClaimedMessage, LockKey, RemovedMessage, SlotLog};
use crate::StoredRecord;
#[cfg(not(loom))]
use crate::prefetch::prefetch_short_record;
use crate::sync::Ordering;

/// Records that are fetched ahead of the one that is claimed: more do not arrive earlier, as the processor has only
/// about ten fetches in progress.
const RECORDS_AHEAD: usize = 8;

impl SlotLog {
    pub(super) fn claim_ready(
        &self,
        max: usize,
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> usize {
        let hint = self.hint();
        let visible = self.visible();
        let mut number = hint.number();
        if max == 0 || span(number).0 >= visible {
            return 0;
        }
        let guard = epoch::pin();
        let mut taken = 0;
        let mut drained = number;
        while taken < max {
            let (first, len) = span(number);
            if first >= visible {
                break;
            }
            let segment = self.directory.get(number, &guard);
            if let Some(segment) = segment {
                taken += self.claim_in(segment, visible, max - taken, mode, now, out, expired, &guard);
            }
            number += 1;
            if drained == number - 1 && first + len <= visible && segment.is_none_or(|segment| !segment.has_ready()) {
                drained = number;
            }
        }
        if drained > hint.number() {
            self.raise_hint(hint, drained);
        }
        taken
    }

    #[expect(clippy::too_many_arguments, reason = "a claim's arguments and its position")]
    fn claim_in(
        &self,
        segment: &SlotSegment,
        visible: u64,
        max: usize,
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
        guard: &EpochGuard,
    ) -> usize {
        let mut taken = 0;
        let (out_before, expired_before) = (out.len(), expired.len());
        for word in 0..segment.ready().len() {
            // A slot below those already claimed may become ready during the scan. The next claim takes it.
            let mut not_scanned = u64::MAX;
            while taken < max {
                let bits = segment.ready_below(word, visible) & not_scanned;
                if bits == 0 {
                    break;
                }
                let selected = lowest(bits, max - taken);
                not_scanned = above(selected);
                taken += claim_bits(segment, word, selected, mode, now, out, expired);
            }
        }
        self.note_claimed(segment, mode, &out[out_before..], &expired[expired_before..], guard);
        taken
    }

    /// Claims the messages of `counters` that are ready.
    pub(super) fn claim_numbers(
        &self,
        counters: &[Counter],
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> usize {
        let guard = epoch::pin();
        let visible = self.visible();
        let before = out.len();
        for counter in counters {
            let Some((segment, _, offset)) = self.find(*counter, &guard) else {
                continue;
            };
            let (word, bit) = (offset / 64, 1 << (offset % 64));
            if segment.ready_below(word, visible) & bit == 0 {
                continue;
            }
            let (out_before, expired_before) = (out.len(), expired.len());
            claim_bits(segment, word, bit, mode, now, out, expired);
            self.note_claimed(segment, mode, &out[out_before..], &expired[expired_before..], &guard);
        }
        out.len() - before
    }

    /// Updates the segment's deadline and finished slots after a claim.
    fn note_claimed(
        &self,
        segment: &SlotSegment,
        mode: ClaimMode,
        taken: &[ClaimedMessage],
        expired: &[RemovedMessage],
        guard: &EpochGuard,
    ) {
        if let ClaimMode::Lock { deadline } = mode
            && !taken.is_empty()
        {
            self.lower_earliest(segment, deadline);
        }
        let removed = if mode == ClaimMode::Take { taken } else { &[] };
        let finished = removed.len() + expired.len();
        if finished > 0 {
            let records = removed.iter().map(|message| &message.record);
            self.browsers.retain_if_browsed(
                records.chain(expired.iter().map(|message| &message.record)),
                BodyRemoval::Stored,
            );
            self.count_finished(segment, finished, guard);
        }
    }
}

/// Claims the `selected` messages of a word that are ready. Returns how many were not expired.
#[inline]
fn claim_bits(
    segment: &SlotSegment,
    word: usize,
    selected: u64,
    mode: ClaimMode,
    now: Timestamp,
    out: &mut Vec<ClaimedMessage>,
    expired: &mut Vec<RemovedMessage>,
) -> usize {
    let mut taken = 0;
    let ready = segment.ready()[word].fetch_and(!selected, Ordering::AcqRel);
    let mut cleared = ready & selected;
    // The first record is used at once.
    let mut ahead = prefetch_records(segment, word, cleared & cleared.wrapping_sub(1), RECORDS_AHEAD);
    while cleared != 0 {
        ahead = prefetch_records(segment, word, ahead, 1);
        let offset = word * 64 + cleared.trailing_zeros() as usize;
        cleared &= cleared - 1;
        let slot = &segment.slots[offset];
        let counter = Counter(segment.first + offset as u64 + 1);
        if slot.expires_at() <= now {
            // SAFETY: this thread cleared the ready bit, so it owns the slot until it stores the state.
            expired.push(unsafe { remove_expired(slot, counter) });
        } else {
            // SAFETY: as above.
            out.push(unsafe { claim_slot(slot, counter, mode) });
            taken += 1;
        }
    }
    // The next claim of the cell often takes as many.
    prefetch_records(segment, word, ready & !selected, taken.min(RECORDS_AHEAD));
    taken
}

/// Fetches the records of the lowest `n` set bits. Returns the other bits.
///
/// The slots need not belong to the caller: an outdated pointer is a useless hint, but a harmless one.
#[cfg(not(loom))]
#[inline]
fn prefetch_records(segment: &SlotSegment, word: usize, mut bits: u64, n: usize) -> u64 {
    let mut left = n;
    while bits != 0 && left != 0 {
        if let Some(slot) = segment.slots.get(word * 64 + bits.trailing_zeros() as usize) {
            prefetch_short_record(slot.body());
        }
        bits &= bits - 1;
        left -= 1;
    }
    bits
}

/// No hints: loom would try more interleavings because of the reads.
#[cfg(loom)]
fn prefetch_records(_: &SlotSegment, _: usize, bits: u64, _: usize) -> u64 {
    bits
}

/// The lowest `n` set bits.
#[inline]
fn lowest(bits: u64, n: usize) -> u64 {
    if n >= bits.count_ones() as usize {
        return bits;
    }
    let mut rest = bits;
    for _ in 0..n {
        rest &= rest - 1;
    }
    bits & !rest
}

/// All bits above the highest set bit of `bits`, which is not 0.
#[inline]
fn above(bits: u64) -> u64 {
    !(u64::MAX >> bits.leading_zeros())
}

/// Claims a ready message.
///
/// # Safety
/// The caller cleared the slot's ready bit.
#[inline]
unsafe fn claim_slot(slot: &Slot, counter: Counter, mode: ClaimMode) -> ClaimedMessage {
    let state = slot.state();
    let (phase, deadline) = match mode {
        ClaimMode::Lock { deadline } => (LOCKED, deadline),
        ClaimMode::Cache => (CACHED, Ticks::NEVER),
        ClaimMode::Take => (DONE, Ticks::NEVER),
    };
    let claimed_state = state.claimed(phase, deadline);
    let raw = slot.body();
    let record = if phase == DONE {
        // SAFETY: a ready slot owns its body and a done slot does not, so the reference moves to the receiver.
        unsafe { StoredRecord::from_raw(raw) }
    } else {
        // SAFETY: a ready slot owns its body, and only this thread may take it.
        unsafe { StoredRecord::clone_raw(raw) }
    };
    let claimed = ClaimedMessage {
        key: LockKey {
            counter,
            generation: claimed_state.generation(),
        },
        record,
        delivery_count: slot.delivery_count(state),
        enqueued_at: slot.enqueued_at(),
        expires_at: slot.expires_at(),
        deadline,
        deferred: false,
    };
    slot.publish(claimed_state);
    claimed
}

/// Removes a ready message that is expired.
///
/// # Safety
/// The caller cleared the slot's ready bit.
unsafe fn remove_expired(slot: &Slot, counter: Counter) -> RemovedMessage {
    let state = slot.state();
    let removed = RemovedMessage {
        counter,
        // SAFETY: a ready slot owns its body and a dead slot does not, so the reference moves to the caller.
        record: unsafe { StoredRecord::from_raw(slot.body()) },
        delivery_count: slot.delivery_count(state),
        enqueued_at: slot.enqueued_at(),
        expires_at: slot.expires_at(),
    };
    slot.publish(state.into_phase(DEAD));
    removed
}
