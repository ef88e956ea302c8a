// SPDX-License-Identifier: Apache-2.0
//! Fetching deferred messages by number: all or none.
//!
//! First every slot goes from deferred to busy, which nobody else can do to it meanwhile. When one refuses, the others
//! go back as they were: no charge, no new generation, nothing to undo. When all are ours, they are locked or taken.
//!
//! One that is found expired leaves by a step of its own: one compare-and-swap, as every exit.
//!
//! Source: B-278 (all or nothing), B-281 (the fetch is charged), B-255 (an expired message is not found).

use oxbus_model::{Counter, Ticks, Timestamp};

use super::epoch;
use super::segment::SlotSegment;
use super::slot::{self, BUSY, DEAD, DEFERRED, DEFERRED_LOCKED, MOVED, Slot, SlotState};
use super::{ClaimMode, ClaimedMessage, LockKey, RemovedMessage, SlotLog};
use crate::StoredRecord;
use crate::ordered::OrderedStore;
use crate::sync::MutexGuard;

enum FetchedSlot<'g> {
    Slot(&'g SlotSegment, &'g Slot, SlotState),
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
        let mut had: Vec<FetchedSlot<'_>> = Vec::with_capacity(counters.len());
        let mut map: Option<MutexGuard<'_, OrderedStore>> = None;
        for (index, counter) in counters.iter().enumerate() {
            let found = self
                .find(*counter, &guard)
                .filter(|(_, slot, _)| slot.state().phase() != MOVED);
            let got = match found {
                Some((segment, slot, _)) => mark_busy(slot, now).map(|state| FetchedSlot::Slot(segment, slot, state)),
                None => None,
            };
            let got = got.or_else(|| {
                let moved = found.is_none_or(|(_, slot, _)| slot.state().phase() == MOVED);
                if !moved {
                    return None;
                }
                if map.is_none() {
                    map = self.overflow.open();
                }
                let free = map.as_ref()?.is_deferred(*counter, now) && !counters[..index].contains(counter);
                free.then_some(FetchedSlot::Overflow)
            });
            let Some(got) = got else {
                for had in had {
                    if let FetchedSlot::Slot(_, slot, state) = had {
                        slot.publish(state);
                    }
                }
                return Err(*counter);
            };
            had.push(got);
        }
        let mut gone: Vec<&SlotSegment> = Vec::new();
        for (counter, had) in counters.iter().zip(had) {
            match had {
                FetchedSlot::Slot(segment, slot, state) => match mode {
                    ClaimMode::Lock { deadline } => {
                        // SAFETY: the slot is busy by us.
                        out.push(unsafe { lock_busy(slot, *counter, state, deadline) });
                        self.lower_earliest(segment, deadline);
                    }
                    ClaimMode::Take | ClaimMode::Cache => {
                        slot.publish(state.into_phase(DEAD));
                        let removed = self.take_body_after_store(slot, *counter, state);
                        gone.push(segment);
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
        // Last: a segment that becomes sparse may want the mutex of the map.
        for segment in gone {
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
                let is_over = state.phase() == DEFERRED && slot.expires_at() <= now;
                if is_over && slot.compare_exchange(state, state.into_phase(DEAD)) {
                    expired.push(self.finish_slot(segment, slot, counter, state, &guard));
                    continue;
                }
                // Looked at again: it may have moved meanwhile.
                if slot.state().phase() != MOVED {
                    continue;
                }
            }
            expired.extend(self.overflow.take_expired(counter, now));
        }
    }
}

/// Makes a deferred slot busy. `None` when it is not deferred, or its time is over.
fn mark_busy(slot: &Slot, now: Timestamp) -> Option<SlotState> {
    let state = slot.state();
    let seized =
        state.phase() == DEFERRED && slot.expires_at() > now && slot.compare_exchange(state, state.into_phase(BUSY));
    seized.then_some(state)
}

/// Locks a busy slot and charges the fetch, unless the lock is no delivery.
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
    let held = state
        .claimed(DEFERRED_LOCKED, deadline)
        .with_delivery_count(delivery_count);
    let claimed = ClaimedMessage {
        key: LockKey {
            counter,
            generation: held.generation(),
        },
        // SAFETY: a busy slot owns its body, and only we may take it.
        record: unsafe { StoredRecord::clone_raw(slot.body()) },
        delivery_count,
        enqueued_at: slot.enqueued_at(),
        expires_at: slot.expires_at(),
        deadline,
        deferred: true,
    };
    slot.publish(held);
    claimed
}
