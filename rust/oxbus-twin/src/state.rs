// SPDX-License-Identifier: Apache-2.0
//! The state behind the mutex: blocks of slots and their ready bits.

use std::collections::{BTreeSet, VecDeque};

use oxbus_model::{Counter, Ticks, Timestamp};

use oxbus_store::entry::{AfterSettle, StoreEntry};
use oxbus_store::{
    ClaimMode, ClaimedMessage, LockKey, LockLost, MessagePhase, NewMessage, Outcome, RemovedMessage, SettleResult,
};

pub(super) const BLOCK: u64 = 64;

type Slots = Box<[Option<StoreEntry>]>;

#[derive(Debug)]
pub(super) struct Block {
    pub(super) ready: u64,
    pub(super) earliest: Ticks,
    pub(super) live: u32,
    pub(super) slots: Option<Slots>,
}

#[derive(Debug)]
pub(super) struct MutexLogState {
    /// Block number of `blocks[0]`.
    pub(super) base: u64,
    pub(super) blocks: VecDeque<Block>,
    /// Index of the next message, which is its counter minus one.
    pub(super) tail: u64,
    /// No block below this number has a ready message.
    pub(super) ready_from: u64,
    pub(super) earliest: Ticks,
    /// Slots of an emptied block, for reuse.
    pub(super) spare: Option<Slots>,
    /// Reserved indexes. Messages at or above the first one cannot be received.
    pub(super) reserved: BTreeSet<u64>,
}

impl Block {
    pub(super) fn entry(&mut self, offset: usize) -> Option<&mut StoreEntry> {
        self.slots.as_mut()?[offset].as_mut()
    }

    /// Removes the message at `offset`.
    pub(super) fn remove(&mut self, offset: usize) -> Option<StoreEntry> {
        let entry = self.slots.as_mut()?[offset].take()?;
        self.live -= 1;
        Some(entry)
    }
}

impl MutexLogState {
    pub(super) fn append(&mut self, message: NewMessage, enqueued_at: Timestamp, phase: MessagePhase) -> Counter {
        let index = self.take_index();
        self.fill(
            index,
            StoreEntry::new(message.record, enqueued_at, message.expires_at, phase),
        );
        Counter(index + 1)
    }

    /// Takes the next index and reserves its slot.
    pub(super) fn take_index(&mut self) -> u64 {
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

    /// Puts a message into the slot of a taken index.
    pub(super) fn fill(&mut self, index: u64, entry: StoreEntry) {
        let (number, offset) = (index / BLOCK, (index % BLOCK) as usize);
        let phase = entry.phase;
        let block = self.block(number).expect("the slot is reserved");
        block.slots.as_mut().expect("the slot is reserved")[offset] = Some(entry);
        if phase == MessagePhase::Ready {
            // A claim may have moved `ready_from` past this block.
            self.set_ready(number, offset);
        }
    }

    /// Frees the slot of a taken index without a message.
    pub(super) fn abandon_index(&mut self, index: u64) {
        let number = index / BLOCK;
        self.block(number).expect("the slot is reserved").live -= 1;
        self.reclaim(number);
    }

    /// The bits of a block's slots below the first reserved index.
    pub(super) fn visible_bits(&self, number: u64) -> u64 {
        match self.reserved.first() {
            Some(first) if *first < number * BLOCK => 0,
            Some(first) if *first < (number + 1) * BLOCK => (1 << (first % BLOCK)) - 1,
            _ => u64::MAX,
        }
    }

    /// Block number and offset of a counter, or `None` if it is not taken yet or its block is gone.
    pub(super) fn locate(&self, counter: Counter) -> Option<(u64, usize)> {
        let index = counter.0.checked_sub(1).filter(|index| *index < self.tail)?;
        (index / BLOCK >= self.base).then_some((index / BLOCK, (index % BLOCK) as usize))
    }

    pub(super) fn block(&mut self, number: u64) -> Option<&mut Block> {
        self.blocks
            .get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    pub(super) fn locked(&mut self, key: LockKey, ticks: Ticks) -> Option<&mut StoreEntry> {
        let (number, offset) = self.locate(key.counter)?;
        self.block(number)?
            .entry(offset)
            .filter(|entry| entry.is_locked_by(key.generation, ticks))
    }

    pub(super) fn set_ready(&mut self, number: u64, offset: usize) {
        self.block(number).expect("the message is here").ready |= 1 << offset;
        self.ready_from = self.ready_from.min(number);
    }

    pub(super) fn note_deadline(&mut self, number: u64, deadline: Ticks) {
        let block = self.block(number).expect("the message is here");
        block.earliest = block.earliest.min(deadline);
        self.earliest = self.earliest.min(deadline);
    }

    /// Frees the slots of block `number` if it is full and empty of messages, and removes such blocks from the front.
    pub(super) fn reclaim(&mut self, number: u64) {
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

    /// Removes a message from the log.
    pub(super) fn remove(&mut self, counter: Counter) -> RemovedMessage {
        let (number, offset) = self.locate(counter).expect("the message is here");
        let entry = self
            .block(number)
            .and_then(|block| block.remove(offset))
            .expect("the message is here");
        self.reclaim(number);
        entry.into_removed(counter.0)
    }

    /// Applies the result of a settlement to the log.
    pub(super) fn apply(&mut self, counter: Counter, next: AfterSettle) -> SettleResult {
        match next {
            AfterSettle::Ready => {
                let (number, offset) = self.locate(counter).expect("the message is here");
                self.set_ready(number, offset);
                SettleResult::Ready
            }
            AfterSettle::Deferred => SettleResult::Deferred,
            AfterSettle::Held => {
                let (number, offset) = self.locate(counter).expect("the message is here");
                let entry = self.block(number).and_then(|block| block.entry(offset));
                let generation = entry.expect("the message stays").generation;
                SettleResult::Held(LockKey { counter, generation })
            }
            AfterSettle::Completed => {
                self.remove(counter);
                SettleResult::Completed
            }
            AfterSettle::Removed => SettleResult::Removed(self.remove(counter)),
            AfterSettle::Exhausted => SettleResult::Exhausted(self.remove(counter)),
        }
    }

    pub(super) fn settle(&mut self, key: LockKey, outcome: Outcome, ticks: Ticks) -> Result<SettleResult, LockLost> {
        let next = self.locked(key, ticks).ok_or(LockLost)?.settle(outcome);
        Ok(self.apply(key.counter, next))
    }

    pub(super) fn claim(
        &mut self,
        max: usize,
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
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
                match mode {
                    ClaimMode::Take => out.extend(block.remove(offset).map(|entry| entry.into_claimed(counter))),
                    ClaimMode::Cache => {
                        entry.claim(MessagePhase::Cached, Ticks::NEVER);
                        out.push(entry.claimed(counter));
                    }
                    ClaimMode::Lock { deadline } => {
                        entry.claim(MessagePhase::Locked, deadline);
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
        if let ClaimMode::Lock { deadline } = mode
            && locked
        {
            self.earliest = self.earliest.min(deadline);
        }
        taken
    }

    pub(super) fn claim_these(
        &mut self,
        counters: &[Counter],
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> usize {
        let mut taken = 0;
        for &counter in counters {
            let Some((number, offset)) = self.locate(counter) else {
                continue;
            };
            let bit = self.visible_bits(number) & 1 << offset;
            let Some(block) = self.block(number).filter(|block| block.ready & bit != 0) else {
                continue;
            };
            block.ready &= !bit;
            let entry = block.entry(offset).expect("a ready bit names a message");
            if entry.expires_at <= now {
                expired.push(self.remove(counter));
                continue;
            }
            taken += 1;
            match mode {
                ClaimMode::Take => {
                    out.extend(block.remove(offset).map(|entry| entry.into_claimed(counter.0)));
                    self.reclaim(number);
                }
                ClaimMode::Cache => {
                    entry.claim(MessagePhase::Cached, Ticks::NEVER);
                    out.push(entry.claimed(counter.0));
                }
                ClaimMode::Lock { deadline } => {
                    entry.claim(MessagePhase::Locked, deadline);
                    out.push(entry.claimed(counter.0));
                    self.note_deadline(number, deadline);
                }
            }
        }
        taken
    }

    pub(super) fn expire_block(
        &mut self,
        number: u64,
        ticks: Ticks,
        max_delivery_count: u32,
        exhausted: &mut Vec<RemovedMessage>,
    ) -> usize {
        let mut ready = 0;
        let mut earliest = Ticks::NEVER;
        for offset in 0..BLOCK as usize {
            let Some(entry) = self.block(number).and_then(|block| block.entry(offset)) else {
                continue;
            };
            if !matches!(entry.phase, MessagePhase::Locked | MessagePhase::DeferredLocked) {
                continue;
            }
            if entry.deadline > ticks {
                earliest = earliest.min(entry.deadline);
                continue;
            }
            let next = entry.settle(Outcome::Abandon {
                max_delivery_count,
                replacement: None,
            });
            match self.apply(Counter(number * BLOCK + offset as u64 + 1), next) {
                SettleResult::Ready => ready += 1,
                SettleResult::Exhausted(removed) => exhausted.push(removed),
                SettleResult::Completed | SettleResult::Deferred | SettleResult::Held(_) | SettleResult::Removed(_) => {
                }
            }
        }
        if let Some(block) = self.block(number) {
            block.earliest = earliest;
        }
        ready
    }
}
