// SPDX-License-Identifier: Apache-2.0
//! A message store behind one mutex with the behaviour of the slot log: the oracle in tests, the baseline in benches.
//!
//! It is simple and fast on one thread, so that the comparison with the lock-free store is fair: slots in blocks of 64,
//! one word of ready bits per block, one lock of the mutex per call.
//!
//! Invariants
//! - bit *i* of a block's `ready` is set exactly while slot *i* is in phase ready;
//! - no ready bit is below `ready_from`;
//! - no lock in a block ends before its `earliest`, and no lock in the log before the log's `earliest`;
//! - a full block without messages has no slots.

mod numbered;
mod state;

use std::collections::{BTreeSet, VecDeque};

use oxbus_model::{Counter, Ticks, Timestamp};

use oxbus_model::sync::ignore_poison;
use oxbus_store::entry::StoreEntry;
use oxbus_store::{
    ClaimMode, ClaimedMessage, LockKey, LockLost, MessagePhase, MessageStore, NewMessage, Outcome, PeekedMessage,
    PhaseCounts, RemovedMessage, SettleResult,
};
use state::{BLOCK, Block, MutexLogState};
use std::sync::Mutex;
use std::sync::atomic::{Ordering, fence};

/// Messages of one cell under one mutex.
#[derive(Debug)]
pub struct MutexLog(
    /// Poisoning is ignored: a test that panics fails anyway.
    Mutex<MutexLogState>,
);

impl MutexLog {
    /// An empty log. Its first message gets counter 1.
    pub fn new() -> Self {
        Self(Mutex::new(MutexLogState {
            base: 0,
            blocks: VecDeque::new(),
            tail: 0,
            ready_from: 0,
            earliest: Ticks::NEVER,
            spare: None,
            reserved: BTreeSet::new(),
        }))
    }
}

impl Default for MutexLog {
    fn default() -> Self {
        Self::new()
    }
}

impl MessageStore for MutexLog {
    fn append(&self, batch: &mut Vec<NewMessage>, enqueued_at: Timestamp) -> Counter {
        assert!(!batch.is_empty(), "an empty batch has no first number");
        let mut state = ignore_poison(self.0.lock());
        let first = Counter(state.tail + 1);
        for message in batch.drain(..) {
            state.append(message, enqueued_at, MessagePhase::Ready);
        }
        first
    }

    fn append_one(&self, message: NewMessage, enqueued_at: Timestamp) -> Counter {
        let counter = ignore_poison(self.0.lock()).append(message, enqueued_at, MessagePhase::Ready);
        fence(Ordering::SeqCst);
        counter
    }

    fn append_scheduled(&self, message: NewMessage, enqueued_at: Timestamp) -> Counter {
        ignore_poison(self.0.lock()).append(message, enqueued_at, MessagePhase::Scheduled)
    }

    fn take_scheduled(&self, counter: Counter) -> Option<RemovedMessage> {
        let mut state = ignore_poison(self.0.lock());
        let (number, offset) = state.locate(counter)?;
        let entry = state.block(number)?.entry(offset)?;
        (entry.phase == MessagePhase::Scheduled).then(|| state.remove(counter))
    }

    fn claim(
        &self,
        max: usize,
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> usize {
        ignore_poison(self.0.lock()).claim(max, mode, now, out, expired)
    }

    fn claim_these(
        &self,
        counters: &[Counter],
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> usize {
        ignore_poison(self.0.lock()).claim_these(counters, mode, now, out, expired)
    }

    fn has_ready(&self) -> bool {
        let mut state = ignore_poison(self.0.lock());
        let mut number = state.ready_from.max(state.base);
        loop {
            let visible = state.visible_bits(number);
            let Some(block) = state.block(number) else {
                return false;
            };
            if block.ready & visible != 0 {
                return true;
            }
            if visible != u64::MAX {
                return false;
            }
            number += 1;
            state.ready_from = number;
        }
    }

    fn deliver_cached(&self, key: LockKey, mode: ClaimMode) -> Option<LockKey> {
        let mut state = ignore_poison(self.0.lock());
        let (number, offset) = state.locate(key.counter)?;
        let entry = state
            .block(number)?
            .entry(offset)
            .filter(|entry| entry.is_cached_by(key.generation))?;
        let deadline = match mode {
            ClaimMode::Take => {
                state.remove(key.counter);
                return Some(key);
            }
            ClaimMode::Cache => {
                entry.claim(MessagePhase::Cached, Ticks::NEVER);
                return Some(LockKey {
                    counter: key.counter,
                    generation: entry.generation,
                });
            }
            ClaimMode::Lock { deadline } => deadline,
        };
        entry.claim(MessagePhase::Locked, deadline);
        let generation = entry.generation;
        state.note_deadline(number, deadline);
        Some(LockKey {
            counter: key.counter,
            generation,
        })
    }

    fn release_cached(&self, keys: &[LockKey]) -> usize {
        let mut state = ignore_poison(self.0.lock());
        let mut released = 0;
        for key in keys {
            let Some((number, offset)) = state.locate(key.counter) else {
                continue;
            };
            let Some(entry) = state.block(number).and_then(|block| block.entry(offset)) else {
                continue;
            };
            if entry.is_cached_by(key.generation) {
                entry.phase = MessagePhase::Ready;
                state.set_ready(number, offset);
                released += 1;
            }
        }
        released
    }

    fn settle(&self, key: LockKey, outcome: Outcome, ticks: Ticks) -> Result<SettleResult, LockLost> {
        ignore_poison(self.0.lock()).settle(key, outcome, ticks)
    }

    fn complete(&self, keys: &[LockKey], ticks: Ticks, lost: &mut Vec<usize>) {
        let mut state = ignore_poison(self.0.lock());
        for (index, key) in keys.iter().enumerate() {
            if state.settle(*key, Outcome::Complete, ticks).is_err() {
                lost.push(index);
            }
        }
    }

    fn renew(&self, key: LockKey, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost> {
        let mut state = ignore_poison(self.0.lock());
        let entry = state.locked(key, ticks).ok_or(LockLost)?;
        let before = std::mem::replace(&mut entry.deadline, deadline);
        let (number, _) = state.locate(key.counter).expect("found above");
        state.note_deadline(number, deadline);
        Ok(before)
    }

    fn count_delivery(&self, key: LockKey, ticks: Ticks) -> Result<(), LockLost> {
        let mut state = ignore_poison(self.0.lock());
        let entry = state.locked(key, ticks).ok_or(LockLost)?;
        entry.delivery_count = entry.delivery_count.saturating_add(1);
        Ok(())
    }

    fn rekey(&self, key: LockKey, generation: u32, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost> {
        let mut state = ignore_poison(self.0.lock());
        let entry = state.locked(key, ticks).ok_or(LockLost)?;
        entry.generation = generation;
        let before = std::mem::replace(&mut entry.deadline, deadline);
        let (number, _) = state.locate(key.counter).expect("found above");
        state.note_deadline(number, deadline);
        Ok(before)
    }

    fn is_claimed_by(&self, key: LockKey, ticks: Ticks) -> bool {
        let mut state = ignore_poison(self.0.lock());
        let Some((number, offset)) = state.locate(key.counter) else {
            return false;
        };
        state
            .block(number)
            .and_then(|block| block.entry(offset))
            .is_some_and(|entry| entry.is_locked_by(key.generation, ticks) || entry.is_cached_by(key.generation))
    }

    fn lock_deferred(
        &self,
        counters: &[Counter],
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
    ) -> Result<(), Counter> {
        let mut state = ignore_poison(self.0.lock());
        for (index, counter) in counters.iter().enumerate() {
            let deferred = state.locate(*counter).is_some_and(|(number, offset)| {
                let entry = state.block(number).and_then(|block| block.entry(offset));
                entry.is_some_and(|entry| entry.phase == MessagePhase::Deferred && entry.expires_at > now)
            });
            if !deferred || counters[..index].contains(counter) {
                return Err(*counter);
            }
        }
        for counter in counters {
            let (number, offset) = state.locate(*counter).expect("checked above");
            let block = state.block(number).expect("checked above");
            match mode {
                ClaimMode::Cache => panic!("a deferred message is locked or taken, never cached"),
                ClaimMode::Take => {
                    out.extend(block.remove(offset).map(|entry| entry.into_claimed(counter.0)));
                    state.reclaim(number);
                }
                ClaimMode::Lock { deadline } => {
                    let entry = block.entry(offset).expect("checked above");
                    entry.claim(MessagePhase::DeferredLocked, deadline);
                    let counted = u32::from(deadline < Ticks::NEVER);
                    entry.delivery_count = entry.delivery_count.saturating_add(counted);
                    out.push(entry.claimed(counter.0));
                    state.note_deadline(number, deadline);
                }
            }
        }
        Ok(())
    }

    fn take_expired(&self, counters: &[Counter], now: Timestamp, expired: &mut Vec<RemovedMessage>) {
        let mut state = ignore_poison(self.0.lock());
        for counter in counters {
            let is_over = state.locate(*counter).is_some_and(|(number, offset)| {
                let entry = state.block(number).and_then(|block| block.entry(offset));
                entry.is_some_and(|entry| entry.phase == MessagePhase::Deferred && entry.expires_at <= now)
            });
            if is_over {
                expired.push(state.remove(*counter));
            }
        }
    }

    fn expire(&self, ticks: Ticks, max_delivery_count: u32, exhausted: &mut Vec<RemovedMessage>) -> usize {
        let mut state = ignore_poison(self.0.lock());
        if state.earliest > ticks {
            return 0;
        }
        let mut ready = 0;
        for number in state.base..state.base + state.blocks.len() as u64 {
            if state.block(number).is_some_and(|block| block.earliest <= ticks) {
                ready += state.expire_block(number, ticks, max_delivery_count, exhausted);
            }
        }
        state.earliest = state
            .blocks
            .iter()
            .map(|block| block.earliest)
            .min()
            .unwrap_or(Ticks::NEVER);
        ready
    }

    fn next_expiry(&self) -> Ticks {
        ignore_poison(self.0.lock()).earliest
    }

    fn peek(&self, from: Counter, max: usize, out: &mut Vec<PeekedMessage>) {
        let state = ignore_poison(self.0.lock());
        let start = from.0.saturating_sub(1);
        let end = out.len().saturating_add(max);
        let skip = (start / BLOCK).saturating_sub(state.base);
        for (number, block) in (state.base..)
            .zip(&state.blocks)
            .skip(usize::try_from(skip).unwrap_or(usize::MAX))
        {
            let Some(slots) = &block.slots else { continue };
            for (index, entry) in (number * BLOCK..).zip(slots) {
                if out.len() >= end {
                    return;
                }
                if let Some(entry) = entry
                    && index >= start
                {
                    out.push(entry.peeked(index + 1));
                }
            }
        }
    }

    fn counts(&self) -> PhaseCounts {
        let state = ignore_poison(self.0.lock());
        let mut counts = PhaseCounts::default();
        for entry in state
            .blocks
            .iter()
            .filter_map(|block| block.slots.as_ref())
            .flatten()
            .flatten()
        {
            counts.add(entry.phase, entry.record.len());
        }
        counts
    }

    fn overhead_bytes(&self) -> usize {
        let state = ignore_poison(self.0.lock());
        let slots =
            state.blocks.iter().filter(|block| block.slots.is_some()).count() + usize::from(state.spare.is_some());
        slots * BLOCK as usize * size_of::<Option<StoreEntry>>() + state.blocks.capacity() * size_of::<Block>()
    }
}
