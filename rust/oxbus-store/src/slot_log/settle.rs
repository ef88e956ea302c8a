// SPDX-License-Identifier: Apache-2.0
//! Settling and renewing locks, and delivering cached messages.
//!
//! Every end of a claim is one compare-and-swap on the phase and the generation. Exactly one of a complete, an abandon
//! and an expiry wins, and the others find a stale key. A renewal keeps the generation, so the other operations retry
//! after it. The winner owns the slot: no other thread writes a ready slot without its bit, or a busy one.

use oxbus_model::{Counter, Ticks};

use super::browse::BodyRemoval;
use super::epoch::{self, EpochGuard};
use super::segment::SlotSegment;
use super::slot::{
    self, BUSY, CACHED, DEAD, DEFERRED, DEFERRED_LOCKED, DONE, LOCKED, MOVED, READY, SCHEDULED, Slot, SlotState,
};
use super::{ClaimMode, LockKey, LockLost, Outcome, RemovedMessage, SettleResult, SlotLog};
use crate::StoredRecord;
use crate::sync::{Ordering, fence};

/// Result of ending a lock and counting its delivery.
#[derive(Debug)]
pub(super) enum RequeueResult {
    /// The message is ready. The caller sets its ready bit.
    Ready,
    Deferred,
    Exhausted(RemovedMessage),
    /// Another thread changed the slot first.
    LostRace,
}

impl SlotLog {
    pub(super) fn settle_slot(&self, key: LockKey, outcome: Outcome, ticks: Ticks) -> Result<SettleResult, LockLost> {
        let guard = epoch::pin();
        let Some((segment, slot, offset)) = self.find(key.counter, &guard) else {
            return self.overflow.settle(key, outcome, ticks);
        };
        loop {
            let state = slot.state();
            if state.phase() == MOVED {
                return self.overflow.settle(key, outcome, ticks);
            }
            if !is_locked_by(segment, state, key, ticks) {
                return Err(LockLost);
            }
            let deferred = state.phase() == DEFERRED_LOCKED;
            match &outcome {
                Outcome::Complete => {
                    if slot.compare_exchange(state, state.into_phase(DONE)) {
                        self.drop_body(slot);
                        self.count_finished(segment, 1, &guard);
                        return Ok(SettleResult::Completed);
                    }
                }
                Outcome::Remove => {
                    if slot.compare_exchange(state, state.into_phase(DEAD)) {
                        return Ok(SettleResult::Removed(self.finish_slot(
                            segment,
                            slot,
                            key.counter,
                            state,
                            &guard,
                        )));
                    }
                }
                Outcome::Release if !deferred => {
                    if slot.compare_exchange(state, state.into_phase(READY)) {
                        self.set_ready(segment, offset);
                        return Ok(SettleResult::Ready);
                    }
                }
                Outcome::Release | Outcome::Defer { replacement: None } => {
                    if slot.compare_exchange(state, state.into_phase(DEFERRED)) {
                        self.reclaim_if_sparse(segment, &guard);
                        return Ok(SettleResult::Deferred);
                    }
                }
                Outcome::Defer { replacement: Some(_) } => {
                    if slot.compare_exchange(state, state.into_phase(BUSY)) {
                        let Outcome::Defer { replacement } = outcome else {
                            unreachable!("matched above")
                        };
                        self.replace(slot, replacement);
                        slot.publish(state.into_phase(DEFERRED));
                        self.reclaim_if_sparse(segment, &guard);
                        return Ok(SettleResult::Deferred);
                    }
                }
                Outcome::Abandon {
                    max_delivery_count,
                    replacement,
                } => {
                    match self.requeue(
                        segment,
                        slot,
                        key.counter,
                        state,
                        *max_delivery_count,
                        replacement.as_ref(),
                        &guard,
                    ) {
                        RequeueResult::LostRace => {}
                        RequeueResult::Deferred => return Ok(SettleResult::Deferred),
                        RequeueResult::Exhausted(removed) => return Ok(SettleResult::Exhausted(removed)),
                        RequeueResult::Ready => {
                            self.set_ready(segment, offset);
                            return Ok(SettleResult::Ready);
                        }
                    }
                }
                Outcome::Hold {
                    max_delivery_count,
                    replacement,
                } => {
                    let replacement = replacement.as_ref();
                    if let Some(held) = self.hold(segment, slot, key, state, *max_delivery_count, replacement, &guard) {
                        return Ok(held);
                    }
                }
            }
        }
    }

    /// Ends the lock in `state` as [`requeue`](Self::requeue) does, and locks the message again under the next key.
    /// Returns `None` if another thread changed the slot first.
    #[expect(clippy::too_many_arguments, reason = "one message and how its lock ends")]
    fn hold(
        &self,
        segment: &SlotSegment,
        slot: &Slot,
        key: LockKey,
        state: SlotState,
        max_delivery_count: u32,
        replacement: Option<&StoredRecord>,
        guard: &EpochGuard,
    ) -> Option<SettleResult> {
        let held = SettleResult::Held(key.next());
        if state.phase() == DEFERRED_LOCKED && slot.delivery_count(state) < max_delivery_count {
            let locked = state.claimed(DEFERRED_LOCKED, Ticks::NEVER);
            let owned = if replacement.is_some() {
                state.into_phase(BUSY)
            } else {
                locked
            };
            if !slot.compare_exchange(state, owned) {
                return None;
            }
            if replacement.is_some() {
                self.replace(slot, replacement.cloned());
                slot.publish(locked);
            }
            return Some(held);
        }
        match self.requeue(
            segment,
            slot,
            key.counter,
            state,
            max_delivery_count,
            replacement,
            guard,
        ) {
            RequeueResult::LostRace => None,
            RequeueResult::Exhausted(removed) => Some(SettleResult::Exhausted(removed)),
            RequeueResult::Ready => {
                // Without its ready bit the slot still belongs to this thread.
                slot.publish(slot.state().claimed(LOCKED, Ticks::NEVER));
                Some(held)
            }
            RequeueResult::Deferred => unreachable!("a deferred message is held above, or exhausted"),
        }
    }

    pub(super) fn complete_all(&self, keys: &[LockKey], ticks: Ticks, lost: &mut Vec<usize>) {
        let guard = epoch::pin();
        let mut current: Option<(&SlotSegment, usize)> = None;
        for (index, key) in keys.iter().enumerate() {
            let slot_index = key.counter.0.wrapping_sub(1);
            let found = match current {
                Some((segment, finished)) if (segment.first..segment.end()).contains(&slot_index) => {
                    Some((segment, finished))
                }
                _ => {
                    if let Some((segment, finished)) = current.take() {
                        self.count_finished(segment, finished, &guard);
                    }
                    self.find(key.counter, &guard).map(|(segment, _, _)| (segment, 0))
                }
            };
            current = found;
            let completed = match found {
                Some((segment, _)) => self.complete_in(segment, *key, ticks),
                None => None,
            };
            match completed {
                Some(true) => current = current.map(|(segment, finished)| (segment, finished + 1)),
                Some(false) => lost.push(index),
                None => {
                    if self.overflow.settle(*key, Outcome::Complete, ticks).is_err() {
                        lost.push(index);
                    }
                }
            }
        }
        if let Some((segment, finished)) = current {
            self.count_finished(segment, finished, &guard);
        }
    }

    /// Completes without counting the slot as finished. Returns false if the lock is lost, and `None` if the message
    /// moved to the overflow map.
    #[inline]
    fn complete_in(&self, segment: &SlotSegment, key: LockKey, ticks: Ticks) -> Option<bool> {
        let slot = &segment.slots[(key.counter.0 - 1 - segment.first) as usize];
        loop {
            let state = slot.state();
            if state.phase() == MOVED {
                return None;
            }
            if !is_locked_by(segment, state, key, ticks) {
                return Some(false);
            }
            if slot.compare_exchange(state, state.into_phase(DONE)) {
                self.drop_body(slot);
                return Some(true);
            }
        }
    }

    pub(super) fn renew_lock(&self, key: LockKey, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost> {
        let guard = epoch::pin();
        let Some((segment, slot, _)) = self.find(key.counter, &guard) else {
            return self.overflow.renew(key, deadline, ticks);
        };
        loop {
            let state = slot.state();
            if state.phase() == MOVED {
                return self.overflow.renew(key, deadline, ticks);
            }
            if !is_locked_by(segment, state, key, ticks) {
                return Err(LockLost);
            }
            if slot.compare_exchange(state, state.with_deadline(deadline)) {
                self.lower_earliest_after_cas(segment, deadline);
                // The lock is live at `ticks`, so its deadline decodes correctly.
                return Ok(state.deadline(ticks));
            }
        }
    }

    pub(super) fn rekey_lock(
        &self,
        key: LockKey,
        generation: u32,
        deadline: Ticks,
        ticks: Ticks,
    ) -> Result<Ticks, LockLost> {
        let guard = epoch::pin();
        let Some((segment, slot, _)) = self.find(key.counter, &guard) else {
            return self.overflow.rekey(key, generation, deadline, ticks);
        };
        loop {
            let state = slot.state();
            if state.phase() == MOVED {
                return self.overflow.rekey(key, generation, deadline, ticks);
            }
            if !is_locked_by(segment, state, key, ticks) {
                return Err(LockLost);
            }
            if slot.compare_exchange(state, state.with_generation(generation).with_deadline(deadline)) {
                self.lower_earliest_after_cas(segment, deadline);
                // The lock is live at `ticks`, so its deadline decodes correctly.
                return Ok(state.deadline(ticks));
            }
        }
    }

    pub(super) fn count_lock_delivery(&self, key: LockKey, ticks: Ticks) -> Result<(), LockLost> {
        let guard = epoch::pin();
        let Some((segment, slot, _)) = self.find(key.counter, &guard) else {
            return self.overflow.count_delivery(key, ticks);
        };
        loop {
            let state = slot.state();
            if state.phase() == MOVED {
                return self.overflow.count_delivery(key, ticks);
            }
            if !is_locked_by(segment, state, key, ticks) {
                return Err(LockLost);
            }
            let before = slot.delivery_count(state);
            let after = slot::add_delivery(before);
            if slot.compare_exchange(state, state.with_delivery_count(after)) {
                if slot::high_bits_differ(before, after) {
                    // The caller has the lock and makes no other call with it.
                    slot.set_high_count(after);
                }
                return Ok(());
            }
        }
    }

    pub(super) fn has_claim(&self, key: LockKey, ticks: Ticks) -> bool {
        let guard = epoch::pin();
        let Some((segment, slot, _)) = self.find(key.counter, &guard) else {
            return self.overflow.is_claimed_by(key, ticks);
        };
        let state = slot.state();
        match state.phase() {
            MOVED => self.overflow.is_claimed_by(key, ticks),
            CACHED => state.generation() == key.generation,
            _ => is_locked_by(segment, state, key, ticks),
        }
    }

    pub(super) fn claim_cached(&self, key: LockKey, mode: ClaimMode) -> Option<LockKey> {
        let guard = epoch::pin();
        let (segment, slot, _) = self.find(key.counter, &guard)?;
        let state = slot.state();
        if state.phase() != CACHED || state.generation() != key.generation {
            return None;
        }
        let (phase, deadline) = match mode {
            ClaimMode::Lock { deadline } => (LOCKED, deadline),
            ClaimMode::Cache => (CACHED, Ticks::NEVER),
            ClaimMode::Take => (DONE, Ticks::NEVER),
        };
        let claimed = state.claimed(phase, deadline);
        // A cached slot cannot be renewed, so a failure means that it was released or delivered.
        if !slot.compare_exchange(state, claimed) {
            return None;
        }
        match phase {
            LOCKED => self.lower_earliest_after_cas(segment, deadline),
            DONE => {
                self.drop_body(slot);
                self.count_finished(segment, 1, &guard);
            }
            _ => {}
        }
        Some(LockKey {
            counter: key.counter,
            generation: claimed.generation(),
        })
    }

    pub(super) fn release_cached_slots(&self, keys: &[LockKey]) -> usize {
        let guard = epoch::pin();
        let mut released = 0;
        for key in keys {
            let Some((segment, slot, offset)) = self.find(key.counter, &guard) else {
                continue;
            };
            let state = slot.state();
            let cached = state.phase() == CACHED && state.generation() == key.generation;
            if cached && slot.compare_exchange(state, state.into_phase(READY)) {
                self.set_ready(segment, offset);
                released += 1;
            }
        }
        released
    }

    pub(super) fn remove_scheduled(&self, counter: Counter) -> Option<RemovedMessage> {
        let guard = epoch::pin();
        let Some((segment, slot, _)) = self.find(counter, &guard) else {
            return self.overflow.take_scheduled(counter);
        };
        let state = slot.state();
        match state.phase() {
            MOVED => self.overflow.take_scheduled(counter),
            SCHEDULED if slot.compare_exchange(state, state.into_phase(DEAD)) => {
                Some(self.finish_slot(segment, slot, counter, state, &guard))
            }
            // Another thread took the message, or it moved into the overflow map.
            SCHEDULED if slot.state().phase() == MOVED => self.overflow.take_scheduled(counter),
            _ => None,
        }
    }

    /// Ends the lock in `state` and counts a delivery, except that the delivery of a deferred message was counted at
    /// its fetch.
    #[expect(clippy::too_many_arguments, reason = "one message and how its lock ends")]
    pub(super) fn requeue(
        &self,
        segment: &SlotSegment,
        slot: &Slot,
        counter: Counter,
        state: SlotState,
        max_delivery_count: u32,
        replacement: Option<&StoredRecord>,
        guard: &EpochGuard,
    ) -> RequeueResult {
        let deferred = state.phase() == DEFERRED_LOCKED;
        let before = slot.delivery_count(state);
        let after = if deferred { before } else { slot::add_delivery(before) };
        let counted = state.with_delivery_count(after);
        if after >= max_delivery_count {
            if !slot.compare_exchange(state, counted.into_phase(DEAD)) {
                return RequeueResult::LostRace;
            }
            let mut removed = self.finish_slot(segment, slot, counter, state, guard);
            removed.delivery_count = after;
            if let Some(record) = replacement {
                removed.record = record.clone();
            }
            return RequeueResult::Exhausted(removed);
        }
        if deferred {
            let owned = if replacement.is_some() { BUSY } else { DEFERRED };
            if !slot.compare_exchange(state, state.into_phase(owned)) {
                return RequeueResult::LostRace;
            }
            if replacement.is_some() {
                self.replace(slot, replacement.cloned());
                slot.publish(state.into_phase(DEFERRED));
            }
            self.reclaim_if_sparse(segment, guard);
            return RequeueResult::Deferred;
        }
        if !slot.compare_exchange(state, counted.into_phase(READY)) {
            return RequeueResult::LostRace;
        }
        if slot::high_bits_differ(before, after) {
            slot.set_high_count(after);
        }
        self.replace(slot, replacement.cloned());
        RequeueResult::Ready
    }

    /// Takes the message of a slot that the caller moved from `state` to a final phase, and counts the slot as
    /// finished.
    pub(super) fn finish_slot(
        &self,
        segment: &SlotSegment,
        slot: &Slot,
        counter: Counter,
        state: SlotState,
        guard: &EpochGuard,
    ) -> RemovedMessage {
        let removed = self.take_body(slot, counter, state);
        self.count_finished(segment, 1, guard);
        removed
    }

    /// Does what `finish_slot` does, without counting the slot as finished.
    pub(super) fn take_body(&self, slot: &Slot, counter: Counter, state: SlotState) -> RemovedMessage {
        // SAFETY: the compare-and-swap that ended the old phase gave the slot's reference to this thread.
        let record = unsafe { StoredRecord::from_raw(slot.body()) };
        self.browsers
            .retain_if_browsed(std::iter::once(&record), BodyRemoval::Swapped);
        RemovedMessage {
            counter,
            record,
            delivery_count: slot.delivery_count(state),
            enqueued_at: slot.enqueued_at(),
            expires_at: slot.expires_at(),
        }
    }

    /// Does what `take_body` does, for a busy slot whose state the caller stored.
    pub(super) fn take_body_after_store(&self, slot: &Slot, counter: Counter, state: SlotState) -> RemovedMessage {
        fence(Ordering::SeqCst);
        self.take_body(slot, counter, state)
    }

    /// Drops the body of a slot that the caller completed.
    #[inline]
    fn drop_body(&self, slot: &Slot) {
        // SAFETY: the compare-and-swap that ended the claim gave the slot's reference to this thread.
        let record = unsafe { StoredRecord::from_raw(slot.body()) };
        self.browsers
            .retain_if_browsed(std::iter::once(&record), BodyRemoval::Swapped);
    }

    /// Replaces the body of a slot that the caller owns, if there is a replacement.
    fn replace(&self, slot: &Slot, replacement: Option<StoredRecord>) {
        let Some(record) = replacement else { return };
        // SAFETY: the slot owned a reference to its old body, and the store of the new one gave it to this thread.
        let old = unsafe { StoredRecord::from_raw(slot.replace_body(record)) };
        self.browsers
            .retain_if_browsed(std::iter::once(&old), BodyRemoval::Stored);
    }
}

/// True if `state` is the lock of `key` and has not expired at `ticks`.
#[inline]
pub(super) fn is_locked_by(segment: &SlotSegment, state: SlotState, key: LockKey, ticks: Ticks) -> bool {
    state.is_locked() && state.generation() == key.generation && !is_over(segment, state, ticks)
}

/// True if the lock has expired at `ticks`.
#[inline]
fn is_over(segment: &SlotSegment, state: SlotState, ticks: Ticks) -> bool {
    // If the segment's earliest deadline is long past, a lock in the segment may be too old to decode near `ticks`, so
    // decode near that deadline.
    let earliest = segment.earliest_deadline.load(Ordering::Acquire);
    let near = if earliest.saturating_add(slot::DECODE_RANGE_MS) <= ticks.0 {
        Ticks(earliest.saturating_add(slot::DECODE_RANGE_MS))
    } else {
        ticks
    };
    state.deadline(near) <= ticks
}
