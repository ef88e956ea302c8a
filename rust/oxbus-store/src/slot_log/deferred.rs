// SPDX-License-Identifier: Apache-2.0
//! Fetching deferred messages by number, either all or none.
//!
//! A fetch first moves every slot from deferred to busy, so that no other thread can change it. If one slot fails, the
//! fetch restores the states of the others, with no delivery counted and no generation changed. Once all slots are
//! busy, the fetch locks or takes them.
//!
//! `take_expired_deferred` removes an expired deferred message with one compare-and-swap.
//!
//! Source: B-278 (all or none), B-281 (the fetch counts a delivery), B-255 (an expired message is not found).

use oxbus_model::{Counter, Ticks, Timestamp};

use super::epoch;
use super::segment::SlotSegment;
use super::slot::{self, BUSY, DEAD, DEFERRED, DEFERRED_LOCKED, MOVED, Slot, SlotState};
use super::{ClaimMode, ClaimedMessage, LockKey, RemovedMessage, SlotLog};
use crate::StoredRecord;
use crate::ordered::OrderedStore;
use crate::sync::MutexGuard;

/// A deferred message that a fetch found.
enum FetchedSlot<'g> {
    /// In a slot that is now busy, with its earlier state.
    Slot(&'g SlotSegment, &'g Slot, SlotState),
    /// In the overflow map, whose mutex the fetch holds.
    Overflow,
}

impl SlotLog {
    pub(super) fn lock_or_take_deferred(
        &self,
        counters: &[Counter],
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
    ) -> Result<(), Counter> {
        assert!(
            mode != ClaimMode::Cache,
            "a deferred message is locked or taken, never cached"
        );
        let guard = epoch::pin();
        let mut fetched: Vec<FetchedSlot<'_>> = Vec::with_capacity(counters.len());
        let mut map: Option<MutexGuard<'_, OrderedStore>> = None;
        for (index, counter) in counters.iter().enumerate() {
            let found = self
                .find(*counter, &guard)
                .filter(|(_, slot, _)| slot.state().phase() != MOVED);
            let slot = match found {
                Some((segment, slot, _)) => mark_busy(slot, now).map(|state| FetchedSlot::Slot(segment, slot, state)),
                None => None,
            };
            let slot = slot.or_else(|| {
                let moved = found.is_none_or(|(_, slot, _)| slot.state().phase() == MOVED);
                if !moved {
                    return None;
                }
                if map.is_none() {
                    map = self.overflow.open();
                }
                let available = map.as_ref()?.is_deferred(*counter, now) && !counters[..index].contains(counter);
                available.then_some(FetchedSlot::Overflow)
            });
            let Some(slot) = slot else {
                for slot in fetched {
                    if let FetchedSlot::Slot(_, slot, state) = slot {
                        slot.publish(state);
                    }
                }
                return Err(*counter);
            };
            fetched.push(slot);
        }
        let mut finished: Vec<&SlotSegment> = Vec::new();
        for (counter, slot) in counters.iter().zip(fetched) {
            match slot {
                FetchedSlot::Slot(segment, slot, state) => match mode {
                    ClaimMode::Lock { deadline } => {
                        // SAFETY: this thread made the slot busy.
                        out.push(unsafe { lock_busy(slot, *counter, state, deadline) });
                        self.lower_earliest(segment, deadline);
                    }
                    ClaimMode::Take | ClaimMode::Cache => {
                        slot.publish(state.into_phase(DEAD));
                        let removed = self.take_body_after_store(slot, *counter, state);
                        finished.push(segment);
                        out.push(ClaimedMessage {
                            key: LockKey {
                                counter: *counter,
                                generation: state.generation(),
                            },
                            record: removed.record,
                            delivery_count: removed.delivery_count,
                            enqueued_at: removed.enqueued_at,
                            expires_at: removed.expires_at,
                            deadline: Ticks::NEVER,
                            deferred: true,
                        });
                    }
                },
                FetchedSlot::Overflow => {
                    let map = map.as_mut().expect("found in the map");
                    out.push(map.lock_one_deferred(*counter, mode).expect("found in the map"));
                }
            }
        }
        if let Some(map) = map {
            self.overflow.close(map);
        }
        // This comes after `close`, because emptying a segment that becomes sparse needs the mutex of the map.
        for segment in finished {
            self.count_finished(segment, 1, &guard);
        }
        Ok(())
    }

    pub(super) fn take_expired_deferred(
        &self,
        counters: &[Counter],
        now: Timestamp,
        expired: &mut Vec<RemovedMessage>,
    ) {
        let guard = epoch::pin();
        for &counter in counters {
            if let Some((segment, slot, _)) = self.find(counter, &guard) {
                let state = slot.state();
                let is_expired = state.phase() == DEFERRED && slot.expires_at() <= now;
                if is_expired && slot.compare_exchange(state, state.into_phase(DEAD)) {
                    expired.push(self.finish_slot(segment, slot, counter, state, &guard));
                    continue;
                }
                // Read the state again, because the message may have moved to the overflow map.
                if slot.state().phase() != MOVED {
                    continue;
                }
            }
            expired.extend(self.overflow.take_expired(counter, now));
        }
    }
}

/// Makes a deferred slot busy and returns its earlier state. Returns `None` if the slot is not deferred or its message
/// is expired.
fn mark_busy(slot: &Slot, now: Timestamp) -> Option<SlotState> {
    let state = slot.state();
    let is_busy =
        state.phase() == DEFERRED && slot.expires_at() > now && slot.compare_exchange(state, state.into_phase(BUSY));
    is_busy.then_some(state)
}

/// Locks a busy slot and counts a delivery, unless the lock is not a delivery.
///
/// # Safety
/// The caller made the slot busy.
unsafe fn lock_busy(slot: &Slot, counter: Counter, state: SlotState, deadline: Ticks) -> ClaimedMessage {
    let before = slot.delivery_count(state);
    let delivery_count = if deadline == Ticks::NEVER {
        before
    } else {
        slot::add_delivery(before)
    };
    if slot::high_bits_differ(before, delivery_count) {
        slot.set_high_count(delivery_count);
    }
    let locked = state
        .claimed(DEFERRED_LOCKED, deadline)
        .with_delivery_count(delivery_count);
    let claimed = ClaimedMessage {
        key: LockKey {
            counter,
            generation: locked.generation(),
        },
        // SAFETY: a busy slot owns its body, and only this thread may take it.
        record: unsafe { StoredRecord::clone_raw(slot.body()) },
        delivery_count,
        enqueued_at: slot.enqueued_at(),
        expires_at: slot.expires_at(),
        deadline,
        deferred: true,
    };
    slot.publish(locked);
    claimed
}
