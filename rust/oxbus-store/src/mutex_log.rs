// SPDX-License-Identifier: Apache-2.0
//! The slot log's twin behind one mutex: oracle in tests, baseline in benches.
//!
//! Plain and fast on one thread, so that the lock-free store is measured against something fair: slots in
//! blocks of 64, one word of ready bits per block, one mutex round per call.
//!
//! Holds always
//! - bit *i* of a block's `ready` is set exactly while slot *i* is in phase ready;
//! - no ready bit is below `ready_from`;
//! - no lock of a block ends before its `earliest`; no lock of the log before `earliest` of the log;
//! - a block without messages keeps no slots.

use std::collections::{BTreeSet, VecDeque};

use oxbus_model::{Counter, Ticks, Timestamp};

use crate::entry::{Entry, Next};
use crate::message_store::{
    Claimed, Counts, Hold, LockKey, LockLost, MessageStore, NewMessage, NumberedStore, Outcome, Peeked, Phase, Removed,
    Restored, Settled,
};
use crate::sync::{Mutex, Ordering, fence, lock};

const BLOCK: u64 = 64;

type Slots = Box<[Option<Entry>]>;

#[derive(Debug)]
struct Block {
    ready: u64,
    earliest: Ticks,
    live: u32,
    slots: Option<Slots>,
}

#[derive(Debug)]
struct State {
    /// Block number of `blocks[0]`.
    base: u64,
    blocks: VecDeque<Block>,
    /// Index of the next message: its counter less one.
    tail: u64,
    /// Block number below which nothing is ready.
    ready_from: u64,
    earliest: Ticks,
    /// Slots of the last emptied block, for the next one.
    spare: Option<Slots>,
    /// Indexes that are reserved; nothing at or above the first of them can be received.
    reserved: BTreeSet<u64>,
}

/// Messages of one cell under one mutex.
#[derive(Debug)]
pub struct MutexLog(Mutex<State>);

impl MutexLog {
    /// An empty log; the first message gets counter 1.
    pub fn new() -> Self {
        Self(Mutex::new(State {
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

impl Block {
    fn entry(&mut self, offset: usize) -> Option<&mut Entry> {
        self.slots.as_mut()?[offset].as_mut()
    }

    /// Removes the message at `offset`.
    fn remove(&mut self, offset: usize) -> Option<Entry> {
        let entry = self.slots.as_mut()?[offset].take()?;
        self.live -= 1;
        Some(entry)
    }
}

impl State {
    fn append(&mut self, message: NewMessage, enqueued_at: Timestamp, phase: Phase) -> Counter {
        let index = self.take_index();
        self.fill(
            index,
            Entry::new(message.record, enqueued_at, message.expires_at, phase),
        );
        Counter(index + 1)
    }

    /// The next index, with a place for its message that counts as used.
    fn take_index(&mut self) -> u64 {
        let index = self.tail;
        let number = index / BLOCK;
        if self.blocks.is_empty() {
            self.base = number;
        }
        if number == self.base + self.blocks.len() as u64 {
            let slots = self.spare.take().unwrap_or_else(|| (0..BLOCK).map(|_| None).collect());
            self.blocks.push_back(Block {
                ready: 0,
                earliest: Ticks::NEVER,
                live: 0,
                slots: Some(slots),
            });
        }
        self.blocks.back_mut().expect("pushed above").live += 1;
        self.tail = index + 1;
        index
    }

    /// Puts a message into the place of an index that was taken.
    fn fill(&mut self, index: u64, entry: Entry) {
        let (number, offset) = (index / BLOCK, (index % BLOCK) as usize);
        let phase = entry.phase;
        let block = self.block(number).expect("its place is kept");
        block.slots.as_mut().expect("its place is kept")[offset] = Some(entry);
        if phase == Phase::Ready {
            // A claim that drained the last block looked past it.
            self.set_ready(number, offset);
        }
    }

    /// Frees the place of an index that was taken: no message will ever be in it.
    fn abandon_index(&mut self, index: u64) {
        let number = index / BLOCK;
        self.block(number).expect("its place is kept").live -= 1;
        self.reclaim(number);
    }

    /// Bits of a block's slots that can be received.
    fn visible_bits(&self, number: u64) -> u64 {
        match self.reserved.first() {
            Some(first) if *first < number * BLOCK => 0,
            Some(first) if *first < (number + 1) * BLOCK => (1 << (first % BLOCK)) - 1,
            _ => u64::MAX,
        }
    }

    /// Block number and offset of a counter that was given out.
    fn place(&self, counter: Counter) -> Option<(u64, usize)> {
        let index = counter.0.checked_sub(1).filter(|index| *index < self.tail)?;
        (index / BLOCK >= self.base).then_some((index / BLOCK, (index % BLOCK) as usize))
    }

    fn block(&mut self, number: u64) -> Option<&mut Block> {
        self.blocks
            .get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    fn locked(&mut self, key: LockKey, ticks: Ticks) -> Option<&mut Entry> {
        let (number, offset) = self.place(key.counter)?;
        self.block(number)?
            .entry(offset)
            .filter(|entry| entry.is_locked_by(key.generation, ticks))
    }

    fn set_ready(&mut self, number: u64, offset: usize) {
        self.block(number).expect("the message is here").ready |= 1 << offset;
        self.ready_from = self.ready_from.min(number);
    }

    fn note_deadline(&mut self, number: u64, deadline: Ticks) {
        let block = self.block(number).expect("the message is here");
        block.earliest = block.earliest.min(deadline);
        self.earliest = self.earliest.min(deadline);
    }

    /// Frees the slots of block `number` when nothing will use them again, and pops empty blocks off the front.
    fn reclaim(&mut self, number: u64) {
        let tail_block = self.tail / BLOCK;
        if number >= tail_block {
            return;
        }
        let Some(block) = self.block(number) else { return };
        if block.live == 0 {
            let slots = block.slots.take();
            if slots.is_some() {
                self.spare = slots;
            }
        }
        while self.blocks.front().is_some_and(|block| block.slots.is_none()) {
            self.blocks.pop_front();
            self.base += 1;
        }
    }

    fn leave(&mut self, counter: Counter) -> Removed {
        let (number, offset) = self.place(counter).expect("the message is here");
        let entry = self
            .block(number)
            .and_then(|block| block.remove(offset))
            .expect("the message is here");
        self.reclaim(number);
        entry.into_removed(counter.0)
    }

    fn follow(&mut self, counter: Counter, next: Next) -> Settled {
        match next {
            Next::Ready => {
                let (number, offset) = self.place(counter).expect("the message is here");
                self.set_ready(number, offset);
                Settled::Ready
            }
            Next::Deferred => Settled::Deferred,
            Next::Completed => {
                self.leave(counter);
                Settled::Completed
            }
            Next::Removed => Settled::Removed(self.leave(counter)),
            Next::Exhausted => Settled::Exhausted(self.leave(counter)),
        }
    }

    fn settle(&mut self, key: LockKey, outcome: Outcome, ticks: Ticks) -> Result<Settled, LockLost> {
        let next = self.locked(key, ticks).ok_or(LockLost)?.end(outcome);
        Ok(self.follow(key.counter, next))
    }

    fn claim(
        &mut self,
        max: usize,
        hold: Hold,
        now: Timestamp,
        out: &mut Vec<Claimed>,
        expired: &mut Vec<Removed>,
    ) -> usize {
        let mut taken = 0;
        let mut locked = false;
        let mut number = self.ready_from.max(self.base);
        while taken < max {
            let visible = self.visible_bits(number);
            let Some(block) = self.block(number) else { break };
            if visible != u64::MAX && block.ready & visible == 0 {
                break;
            }
            if block.ready == 0 {
                number += 1;
                self.ready_from = number;
                continue;
            }
            let live_before = block.live;
            while block.ready & visible != 0 && taken < max {
                let offset = block.ready.trailing_zeros() as usize;
                block.ready &= block.ready - 1;
                let counter = number * BLOCK + offset as u64 + 1;
                let entry = block.entry(offset).expect("a ready bit names a message");
                if entry.expires_at <= now {
                    expired.extend(block.remove(offset).map(|entry| entry.into_removed(counter)));
                    continue;
                }
                match hold {
                    Hold::Take => out.extend(block.remove(offset).map(|entry| entry.into_claimed(counter))),
                    Hold::Cache => {
                        entry.hold(Phase::Cached, Ticks::NEVER);
                        out.push(entry.claimed(counter));
                    }
                    Hold::Lock { deadline } => {
                        entry.hold(Phase::Locked, deadline);
                        out.push(entry.claimed(counter));
                        block.earliest = block.earliest.min(deadline);
                        locked = true;
                    }
                }
                taken += 1;
            }
            if block.live != live_before {
                self.reclaim(number);
            }
            number = number.max(self.base);
        }
        if let Hold::Lock { deadline } = hold
            && locked
        {
            self.earliest = self.earliest.min(deadline);
        }
        taken
    }

    fn claim_these(
        &mut self,
        counters: &[Counter],
        hold: Hold,
        now: Timestamp,
        out: &mut Vec<Claimed>,
        expired: &mut Vec<Removed>,
    ) -> usize {
        let mut taken = 0;
        for &counter in counters {
            let Some((number, offset)) = self.place(counter) else {
                continue;
            };
            let bit = self.visible_bits(number) & 1 << offset;
            let Some(block) = self.block(number).filter(|block| block.ready & bit != 0) else {
                continue;
            };
            block.ready &= !bit;
            let entry = block.entry(offset).expect("a ready bit names a message");
            if entry.expires_at <= now {
                expired.push(self.leave(counter));
                continue;
            }
            taken += 1;
            match hold {
                Hold::Take => {
                    out.extend(block.remove(offset).map(|entry| entry.into_claimed(counter.0)));
                    self.reclaim(number);
                }
                Hold::Cache => {
                    entry.hold(Phase::Cached, Ticks::NEVER);
                    out.push(entry.claimed(counter.0));
                }
                Hold::Lock { deadline } => {
                    entry.hold(Phase::Locked, deadline);
                    out.push(entry.claimed(counter.0));
                    self.note_deadline(number, deadline);
                }
            }
        }
        taken
    }

    fn expire_block(
        &mut self,
        number: u64,
        ticks: Ticks,
        max_delivery_count: u32,
        exhausted: &mut Vec<Removed>,
    ) -> usize {
        let mut ready = 0;
        let mut earliest = Ticks::NEVER;
        for offset in 0..BLOCK as usize {
            let Some(entry) = self.block(number).and_then(|block| block.entry(offset)) else {
                continue;
            };
            if !matches!(entry.phase, Phase::Locked | Phase::DeferredLocked) {
                continue;
            }
            if entry.deadline > ticks {
                earliest = earliest.min(entry.deadline);
                continue;
            }
            let next = entry.end(Outcome::Abandon {
                max_delivery_count,
                replacement: None,
            });
            match self.follow(Counter(number * BLOCK + offset as u64 + 1), next) {
                Settled::Ready => ready += 1,
                Settled::Exhausted(removed) => exhausted.push(removed),
                Settled::Completed | Settled::Deferred | Settled::Removed(_) => {}
            }
        }
        if let Some(block) = self.block(number) {
            block.earliest = earliest;
        }
        ready
    }
}

impl MessageStore for MutexLog {
    fn append(&self, batch: &mut Vec<NewMessage>, enqueued_at: Timestamp) -> Counter {
        assert!(!batch.is_empty(), "an empty batch has no first number");
        let mut state = lock(&self.0);
        let first = Counter(state.tail + 1);
        for message in batch.drain(..) {
            state.append(message, enqueued_at, Phase::Ready);
        }
        first
    }

    fn append_one(&self, message: NewMessage, enqueued_at: Timestamp) -> Counter {
        let counter = lock(&self.0).append(message, enqueued_at, Phase::Ready);
        fence(Ordering::SeqCst);
        counter
    }

    fn append_scheduled(&self, message: NewMessage, enqueued_at: Timestamp) -> Counter {
        lock(&self.0).append(message, enqueued_at, Phase::Scheduled)
    }

    fn take_scheduled(&self, counter: Counter) -> Option<Removed> {
        let mut state = lock(&self.0);
        let (number, offset) = state.place(counter)?;
        let entry = state.block(number)?.entry(offset)?;
        (entry.phase == Phase::Scheduled).then(|| state.leave(counter))
    }

    fn claim(
        &self,
        max: usize,
        hold: Hold,
        now: Timestamp,
        out: &mut Vec<Claimed>,
        expired: &mut Vec<Removed>,
    ) -> usize {
        lock(&self.0).claim(max, hold, now, out, expired)
    }

    fn claim_these(
        &self,
        counters: &[Counter],
        hold: Hold,
        now: Timestamp,
        out: &mut Vec<Claimed>,
        expired: &mut Vec<Removed>,
    ) -> usize {
        lock(&self.0).claim_these(counters, hold, now, out, expired)
    }

    fn has_ready(&self) -> bool {
        let mut state = lock(&self.0);
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

    fn hand_out(&self, key: LockKey, hold: Hold) -> Option<LockKey> {
        let mut state = lock(&self.0);
        let (number, offset) = state.place(key.counter)?;
        let entry = state
            .block(number)?
            .entry(offset)
            .filter(|entry| entry.is_cached_by(key.generation))?;
        let deadline = match hold {
            Hold::Take => {
                state.leave(key.counter);
                return Some(key);
            }
            Hold::Cache => {
                entry.hold(Phase::Cached, Ticks::NEVER);
                return Some(LockKey {
                    counter: key.counter,
                    generation: entry.generation,
                });
            }
            Hold::Lock { deadline } => deadline,
        };
        entry.hold(Phase::Locked, deadline);
        let generation = entry.generation;
        state.note_deadline(number, deadline);
        Some(LockKey {
            counter: key.counter,
            generation,
        })
    }

    fn release_cached(&self, keys: &[LockKey]) -> usize {
        let mut state = lock(&self.0);
        let mut released = 0;
        for key in keys {
            let Some((number, offset)) = state.place(key.counter) else {
                continue;
            };
            let Some(entry) = state.block(number).and_then(|block| block.entry(offset)) else {
                continue;
            };
            if entry.is_cached_by(key.generation) {
                entry.phase = Phase::Ready;
                state.set_ready(number, offset);
                released += 1;
            }
        }
        released
    }

    fn settle(&self, key: LockKey, outcome: Outcome, ticks: Ticks) -> Result<Settled, LockLost> {
        lock(&self.0).settle(key, outcome, ticks)
    }

    fn complete(&self, keys: &[LockKey], ticks: Ticks, lost: &mut Vec<usize>) {
        let mut state = lock(&self.0);
        for (index, key) in keys.iter().enumerate() {
            if state.settle(*key, Outcome::Complete, ticks).is_err() {
                lost.push(index);
            }
        }
    }

    fn renew(&self, key: LockKey, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost> {
        let mut state = lock(&self.0);
        let entry = state.locked(key, ticks).ok_or(LockLost)?;
        let before = std::mem::replace(&mut entry.deadline, deadline);
        let (number, _) = state.place(key.counter).expect("found above");
        state.note_deadline(number, deadline);
        Ok(before)
    }

    fn charge(&self, key: LockKey, max_delivery_count: u32, ticks: Ticks) -> Result<Option<Removed>, LockLost> {
        let mut state = lock(&self.0);
        let entry = state.locked(key, ticks).ok_or(LockLost)?;
        entry.delivery_count = entry.delivery_count.saturating_add(1);
        if entry.delivery_count < max_delivery_count {
            return Ok(None);
        }
        match state.settle(key, Outcome::Remove, ticks)? {
            Settled::Removed(removed) => Ok(Some(removed)),
            _ => unreachable!("remove removes"),
        }
    }

    fn rekey(&self, key: LockKey, generation: u32, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost> {
        let mut state = lock(&self.0);
        let entry = state.locked(key, ticks).ok_or(LockLost)?;
        entry.generation = generation;
        let before = std::mem::replace(&mut entry.deadline, deadline);
        let (number, _) = state.place(key.counter).expect("found above");
        state.note_deadline(number, deadline);
        Ok(before)
    }

    fn holds(&self, key: LockKey, ticks: Ticks) -> bool {
        let mut state = lock(&self.0);
        let Some((number, offset)) = state.place(key.counter) else {
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
        hold: Hold,
        now: Timestamp,
        _ticks: Ticks,
        out: &mut Vec<Claimed>,
    ) -> Result<(), Counter> {
        let mut state = lock(&self.0);
        for (index, counter) in counters.iter().enumerate() {
            let deferred = state.place(*counter).is_some_and(|(number, offset)| {
                let entry = state.block(number).and_then(|block| block.entry(offset));
                entry.is_some_and(|entry| entry.phase == Phase::Deferred && entry.expires_at > now)
            });
            if !deferred || counters[..index].contains(counter) {
                return Err(*counter);
            }
        }
        for counter in counters {
            let (number, offset) = state.place(*counter).expect("checked above");
            let block = state.block(number).expect("checked above");
            match hold {
                Hold::Cache => panic!("a deferred message is locked or taken, never cached"),
                Hold::Take => {
                    out.extend(block.remove(offset).map(|entry| entry.into_claimed(counter.0)));
                    state.reclaim(number);
                }
                Hold::Lock { deadline } => {
                    let entry = block.entry(offset).expect("checked above");
                    entry.hold(Phase::DeferredLocked, deadline);
                    entry.delivery_count = entry.delivery_count.saturating_add(1);
                    out.push(entry.claimed(counter.0));
                    state.note_deadline(number, deadline);
                }
            }
        }
        Ok(())
    }

    fn expire(&self, ticks: Ticks, max_delivery_count: u32, exhausted: &mut Vec<Removed>) -> usize {
        let mut state = lock(&self.0);
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
        lock(&self.0).earliest
    }

    fn peek(&self, from: Counter, max: usize, out: &mut Vec<Peeked>) {
        let state = lock(&self.0);
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

    fn counts(&self) -> Counts {
        let state = lock(&self.0);
        let mut counts = Counts::default();
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
        let state = lock(&self.0);
        let slots =
            state.blocks.iter().filter(|block| block.slots.is_some()).count() + usize::from(state.spare.is_some());
        slots * BLOCK as usize * size_of::<Option<Entry>>() + state.blocks.capacity() * size_of::<Block>()
    }
}

impl NumberedStore for MutexLog {
    fn restore(next: Counter, messages: impl Iterator<Item = Restored>) -> Self {
        let log = Self::new();
        let mut state = lock(&log.0);
        let mut messages = messages.peekable();
        let tail = next.0 - 1;
        // Places are made from the first message on, in whole blocks.
        let first = messages.peek().map_or(tail, |first| first.message.counter.0 - 1);
        state.tail = first / BLOCK * BLOCK;
        state.base = state.tail / BLOCK;
        state.ready_from = state.base;
        let mut restored = messages.next();
        while state.tail < tail {
            let index = state.take_index();
            match restored.take_if(|it| it.message.counter.0 == index + 1) {
                Some(it) => {
                    let message = it.message;
                    let entry = Entry::new(message.record, message.enqueued_at, message.expires_at, it.phase);
                    state.fill(
                        index,
                        Entry {
                            delivery_count: message.delivery_count,
                            generation: it.generation,
                            ..entry
                        },
                    );
                    restored = messages.next();
                }
                None => state.abandon_index(index),
            }
        }
        drop(state);
        log
    }

    fn next(&self) -> Counter {
        Counter(lock(&self.0).tail + 1)
    }

    fn is_settled(&self, before: Counter) -> bool {
        let state = lock(&self.0);
        state.reserved.first().is_none_or(|first| first + 1 >= before.0)
    }

    fn reserve(&self, count: usize) -> Counter {
        let mut state = lock(&self.0);
        let first = state.tail;
        for _ in 0..count {
            let index = state.take_index();
            state.reserved.insert(index);
        }
        Counter(first + 1)
    }

    fn publish(&self, first: Counter, batch: &mut Vec<NewMessage>, enqueued_at: Timestamp) {
        let mut state = lock(&self.0);
        for (index, message) in (first.0 - 1..).zip(batch.drain(..)) {
            state.reserved.remove(&index);
            let entry = Entry::new(message.record, enqueued_at, message.expires_at, Phase::Ready);
            state.fill(index, entry);
        }
    }

    fn publish_scheduled(&self, counter: Counter, message: NewMessage, enqueued_at: Timestamp) {
        let mut state = lock(&self.0);
        let index = counter.0 - 1;
        state.reserved.remove(&index);
        let entry = Entry::new(message.record, enqueued_at, message.expires_at, Phase::Scheduled);
        state.fill(index, entry);
    }

    fn give_up(&self, first: Counter, count: usize) {
        let mut state = lock(&self.0);
        for index in first.0 - 1..first.0 - 1 + count as u64 {
            state.reserved.remove(&index);
            state.abandon_index(index);
        }
    }
}
