// SPDX-License-Identifier: Apache-2.0
//! The overflow map: an ordered map of deferred and scheduled messages that outlive their segment.
//!
//! When at most an eighth of the messages of a wholly visible segment are left, and all of these are deferred or
//! scheduled, they move to the map and the segment is unlinked. So a message that is deferred for weeks takes up its
//! own size and not 8 KiB. A deferred message never becomes ready, so claims do not search the map.
//!
//! Invariants
//! - a message is in its slot or in the map. It moves under the map's mutex, so a thread that sees a moved slot and
//!   takes the mutex finds the message, unless it left the store;
//! - `len` rises before the first slot is moved, so when `len` is 0, every message is in a segment.

use oxbus_model::{Counter, Ticks, Timestamp};

use super::segment::SlotSegment;
use super::slot::{DEFERRED, MOVED, SCHEDULED};
use super::{EpochGuard, LockKey, LockLost, Outcome, PeekedMessage, RemovedMessage, SettleResult, SlotLog};
use crate::message_store::{MessagePhase, PhaseCounts, RestoredMessage};
use crate::ordered::OrderedStore;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, lock};

#[derive(Debug)]
pub(super) struct OverflowMap {
    /// The number of messages in the map, or more during a move. Like `earliest_deadline`, it can be read without the
    /// mutex.
    len: AtomicUsize,
    earliest_deadline: AtomicU64,
    map: Mutex<OrderedStore>,
}

impl OverflowMap {
    pub(super) fn new() -> Self {
        Self {
            len: AtomicUsize::new(0),
            earliest_deadline: AtomicU64::new(Ticks::NEVER.0),
            map: Mutex::new(OrderedStore::new()),
        }
    }

    /// A map of `messages`, all deferred or scheduled.
    pub(super) fn with(messages: Vec<RestoredMessage>) -> Self {
        let mut map = OrderedStore::new();
        for restored in messages {
            let inserted = map.insert_with(restored.message, restored.phase, restored.generation);
            debug_assert!(inserted, "a number occurs once");
        }
        Self {
            len: AtomicUsize::new(map.len()),
            map: Mutex::new(map),
            ..Self::new()
        }
    }

    /// Locks the map, unless it is empty. Call [`OverflowMap::close`] after a change.
    pub(super) fn open(&self) -> Option<MutexGuard<'_, OrderedStore>> {
        (self.len.load(Ordering::Acquire) > 0).then(|| lock(&self.map))
    }

    /// Updates `len` and the earliest deadline, and unlocks the map.
    pub(super) fn close(&self, map: MutexGuard<'_, OrderedStore>) {
        self.len.store(map.len(), Ordering::Release);
        self.earliest_deadline.store(map.next_expiry().0, Ordering::Release);
        drop(map);
    }

    fn change<T>(&self, change: impl FnOnce(&mut OrderedStore) -> T) -> Option<T> {
        let mut map = self.open()?;
        let changed = change(&mut map);
        self.close(map);
        Some(changed)
    }

    pub(super) fn earliest(&self) -> Ticks {
        Ticks(self.earliest_deadline.load(Ordering::Acquire))
    }

    pub(super) fn settle(&self, key: LockKey, outcome: Outcome, ticks: Ticks) -> Result<SettleResult, LockLost> {
        self.change(|map| map.settle(key, outcome, ticks))
            .unwrap_or(Err(LockLost))
    }

    pub(super) fn renew(&self, key: LockKey, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost> {
        self.change(|map| map.renew(key, deadline, ticks))
            .unwrap_or(Err(LockLost))
    }

    pub(super) fn rekey(
        &self,
        key: LockKey,
        generation: u32,
        deadline: Ticks,
        ticks: Ticks,
    ) -> Result<Ticks, LockLost> {
        self.change(|map| map.rekey(key, generation, deadline, ticks))
            .unwrap_or(Err(LockLost))
    }

    pub(super) fn count_delivery(&self, key: LockKey, ticks: Ticks) -> Result<(), LockLost> {
        self.change(|map| map.count_delivery(key, ticks))
            .unwrap_or(Err(LockLost))
    }

    pub(super) fn is_claimed_by(&self, key: LockKey, ticks: Ticks) -> bool {
        self.open().is_some_and(|map| map.is_claimed_by(key, ticks))
    }

    pub(super) fn take_scheduled(&self, counter: Counter) -> Option<RemovedMessage> {
        self.change(|map| map.take_scheduled(counter)).flatten()
    }

    pub(super) fn take_expired(&self, counter: Counter, now: Timestamp) -> Option<RemovedMessage> {
        self.change(|map| map.take_one_expired(counter, now)).flatten()
    }

    pub(super) fn expire(&self, ticks: Ticks, max_delivery_count: u32, exhausted: &mut Vec<RemovedMessage>) -> usize {
        if self.earliest() > ticks {
            return 0;
        }
        self.change(|map| map.expire(ticks, max_delivery_count, exhausted))
            .unwrap_or(0)
    }

    /// Pushes up to `max` messages of `from .. before` to `out`.
    pub(super) fn peek(&self, from: Counter, before: Counter, max: usize, out: &mut Vec<PeekedMessage>) {
        if let Some(map) = self.open() {
            map.peek_before(from, before, max, out);
        }
    }

    pub(super) fn counts(&self) -> PhaseCounts {
        self.open().map_or_else(PhaseCounts::default, |map| map.counts())
    }

    /// Number of messages.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    pub(super) fn bytes(&self) -> usize {
        self.open().map_or(0, |map| map.overhead_bytes())
    }
}

impl SlotLog {
    /// Moves the messages of a wholly visible segment to the overflow map, if all of them are deferred or scheduled.
    pub(super) fn move_to_overflow(&self, segment: &SlotSegment, guard: &EpochGuard) {
        let may_move = |phase| matches!(phase, DEFERRED | SCHEDULED);
        let mut found = false;
        for slot in &segment.slots {
            let state = slot.state();
            found |= may_move(state.phase());
            if state.has_body() && !may_move(state.phase()) {
                return;
            }
        }
        if !found {
            return;
        }
        let mut moved = 0;
        let mut map = lock(&self.overflow.map);
        // `len` exceeds 0 before the first move, so that a thread that finds a moved slot takes the mutex.
        self.overflow
            .len
            .store(map.len() + segment.slots.len(), Ordering::Release);
        for (offset, slot) in segment.slots.iter().enumerate() {
            let state = slot.state();
            // A message that another thread is fetching or taking stays in its slot. The end of that operation tries
            // the move again.
            if !may_move(state.phase()) || !slot.compare_exchange(state, state.into_phase(MOVED)) {
                continue;
            }
            let removed = self.take_body(slot, Counter(segment.first + offset as u64 + 1), state);
            let phase = if state.phase() == DEFERRED {
                MessagePhase::Deferred
            } else {
                MessagePhase::Scheduled
            };
            let inserted = map.insert_with(removed, phase, state.generation());
            debug_assert!(inserted, "a counter occurs once");
            moved += 1;
        }
        self.overflow.close(map);
        self.count_finished(segment, moved, guard);
    }
}
