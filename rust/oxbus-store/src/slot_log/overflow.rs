// SPDX-License-Identifier: Apache-2.0
//! Messages that outlive their segment: deferred and scheduled ones, moved to an ordered map.
//!
//! When a wholly visible segment has at most an eighth of its messages left, and those are deferred or scheduled,
//! they move to the map and the segment goes, so that a message deferred for weeks costs its own size and not 8 KiB.
//! A deferred message never becomes ready, so claims have no business in the map.
//!
//! Holds always
//! - a message is in its slot or in the map; it moves under the map's mutex, so who sees a moved slot, takes the mutex
//!   and looks, finds it unless it left;
//! - `len` is raised before the first slot is seen as moved: who sees no segment and `len` 0 knows that the message is gone.

use oxbus_model::{Counter, Ticks, Timestamp};

use super::segment::SlotSegment;
use super::slot::{DEFERRED, MOVED, SCHEDULED};
use super::{EpochGuard, LockKey, LockLost, Outcome, PeekedMessage, RemovedMessage, SettleResult, SlotLog};
use crate::message_store::{MessagePhase, PhaseCounts, RestoredMessage};
use crate::ordered::OrderedStore;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, lock};

#[derive(Debug)]
pub(super) struct OverflowMap {
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

    /// A map that begins with `messages`, all deferred or scheduled.
    pub(super) fn with(messages: Vec<RestoredMessage>) -> Self {
        let mut map = OrderedStore::new();
        for restored in messages {
            let inserted = map.insert_with(restored.message, restored.phase, restored.generation);
            debug_assert!(inserted, "a number is in one place");
        }
        Self {
            len: AtomicUsize::new(map.len()),
            map: Mutex::new(map),
            ..Self::new()
        }
    }

    /// The map, unless it is empty. Give it back with [`OverflowMap::close`] after a change.
    pub(super) fn open(&self) -> Option<MutexGuard<'_, OrderedStore>> {
        (self.len.load(Ordering::Acquire) > 0).then(|| lock(&self.map))
    }

    /// Publishes what changed in the map.
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

    pub(super) fn charge(
        &self,
        key: LockKey,
        max_delivery_count: u32,
        ticks: Ticks,
    ) -> Result<Option<RemovedMessage>, LockLost> {
        self.change(|map| map.charge(key, max_delivery_count, ticks))
            .unwrap_or(Err(LockLost))
    }

    pub(super) fn holds(&self, key: LockKey, ticks: Ticks) -> bool {
        self.open().is_some_and(|map| map.holds(key, ticks))
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

    /// Browses the overflow of `from .. before`.
    pub(super) fn peek(&self, from: Counter, before: Counter, max: usize, out: &mut Vec<PeekedMessage>) {
        if let Some(map) = self.open() {
            map.peek_before(from, before, max, out);
        }
    }

    pub(super) fn counts(&self) -> PhaseCounts {
        self.open().map_or_else(PhaseCounts::default, |map| map.counts())
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    pub(super) fn bytes(&self) -> usize {
        self.open().map_or(0, |map| map.overhead_bytes())
    }
}

impl SlotLog {
    /// Empties a wholly visible segment into the map when only deferred and scheduled messages are left in it.
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
        // At least one: a reader that finds a moved slot comes to the mutex.
        self.overflow
            .len
            .store(map.len() + segment.slots.len(), Ordering::Release);
        for (offset, slot) in segment.slots.iter().enumerate() {
            let state = slot.state();
            // Who is fetched, settled or taken meanwhile stays; its end tries again.
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
            debug_assert!(inserted, "a counter is in one place");
            moved += 1;
        }
        self.overflow.close(map);
        self.count_finished(segment, moved, guard);
    }
}
