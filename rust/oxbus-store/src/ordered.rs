// SPDX-License-Identifier: Apache-2.0
//! Messages in an ordered map. Their numbers may be sparse and arrive in any order.
//!
//! Dead-letter sub-queues and the overflow of a slot log use this map. Its owner guards it with a mutex. Each method
//! does what the method of the same name in [`MessageStore`](crate::MessageStore) does. The caller assigns the
//! numbers, so [`insert`](OrderedStore::insert) replaces append.
//!
//! Invariants
//! - `ready` contains exactly the counters of the ready messages;
//! - `deadlines` contains exactly (deadline, counter) of the locked messages;
//! - every call except `counts` therefore takes logarithmic time per message.
//!
//! A dead-letter queue ignores time to live and delivery counts: its owner passes `Timestamp(0)` as `now`
//! and `u32::MAX` as maximum (B-179).

use std::collections::{BTreeMap, BTreeSet, btree_map};

use oxbus_model::{Counter, Ticks, Timestamp};

use crate::entry::{AfterSettle, StoreEntry};
#[cfg(not(loom))]
use crate::extent::ExtentLocation;
use crate::{
    ClaimMode, ClaimedMessage, LockKey, LockLost, MessagePhase, Outcome, PeekedMessage, PhaseCounts, RemovedMessage,
    SettleResult,
};
#[cfg(not(loom))]
use crate::{Record, StoredRecord};

/// Messages by counter.
#[derive(Debug, Default)]
pub struct OrderedStore {
    entries: BTreeMap<u64, StoreEntry>,
    ready: BTreeSet<u64>,
    deadlines: BTreeSet<(u64, u64)>,
}

impl OrderedStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores a message under its number, ready. Returns false and stores nothing if the number is in use.
    pub fn insert(&mut self, message: RemovedMessage) -> bool {
        self.insert_as(message, MessagePhase::Ready)
    }

    /// Stores a message under its number, ready, deferred or scheduled. Returns false and stores nothing if the number
    /// is in use.
    pub fn insert_as(&mut self, message: RemovedMessage, phase: MessagePhase) -> bool {
        self.insert_with(message, phase, 0)
    }

    /// Does what [`insert_as`](Self::insert_as) does, and sets the generation of the latest claim, so that earlier
    /// keys do not match.
    pub fn insert_with(&mut self, message: RemovedMessage, phase: MessagePhase, generation: u32) -> bool {
        debug_assert!(
            matches!(
                phase,
                MessagePhase::Ready | MessagePhase::Deferred | MessagePhase::Scheduled
            ),
            "a claimed message cannot be inserted"
        );
        let btree_map::Entry::Vacant(vacant) = self.entries.entry(message.counter.0) else {
            return false;
        };
        vacant.insert(StoreEntry {
            delivery_count: message.delivery_count,
            generation,
            ..StoreEntry::new(message.record, message.enqueued_at, message.expires_at, phase)
        });
        if phase == MessagePhase::Ready {
            self.ready.insert(message.counter.0);
        }
        true
    }

    /// Replaces a message's bytes with their location on disk, if the bytes are still `record`.
    #[cfg(not(loom))]
    pub fn spill(&mut self, counter: Counter, record: &Record, location: ExtentLocation) {
        if let Some(entry) = self.entries.get_mut(&counter.0)
            && entry.record.in_memory().is_some_and(|current| current.is_same(record))
        {
            entry.record = StoredRecord::on_disk(record.len(), location);
        }
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// See [`MessageStore::take_scheduled`](crate::MessageStore::take_scheduled).
    pub fn take_scheduled(&mut self, counter: Counter) -> Option<RemovedMessage> {
        let btree_map::Entry::Occupied(found) = self.entries.entry(counter.0) else {
            return None;
        };
        (found.get().phase == MessagePhase::Scheduled).then(|| found.remove().into_removed(counter.0))
    }

    /// See [`MessageStore::claim`](crate::MessageStore::claim).
    pub fn claim(
        &mut self,
        max: usize,
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> usize {
        let mut taken = 0;
        while taken < max
            && let Some(counter) = self.ready.pop_first()
        {
            taken += usize::from(self.claim_ready(counter, mode, now, out, expired));
        }
        taken
    }

    /// See [`MessageStore::claim_these`](crate::MessageStore::claim_these).
    pub fn claim_these(
        &mut self,
        counters: &[Counter],
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> usize {
        let mut taken = 0;
        for counter in counters {
            if self.ready.remove(&counter.0) {
                taken += usize::from(self.claim_ready(counter.0, mode, now, out, expired));
            }
        }
        taken
    }

    /// Claims a ready message that the caller took out of `ready`. Returns false if it is expired.
    fn claim_ready(
        &mut self,
        counter: u64,
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> bool {
        let btree_map::Entry::Occupied(mut found) = self.entries.entry(counter) else {
            unreachable!("`ready` contains only counters of messages")
        };
        if found.get().expires_at <= now {
            expired.push(found.remove().into_removed(counter));
            return false;
        }
        match mode {
            ClaimMode::Take => out.push(found.remove().into_claimed(counter)),
            ClaimMode::Cache => {
                found.get_mut().claim(MessagePhase::Cached, Ticks::NEVER);
                out.push(found.get().claimed(counter));
            }
            ClaimMode::Lock { deadline } => {
                found.get_mut().claim(MessagePhase::Locked, deadline);
                out.push(found.get().claimed(counter));
                self.deadlines.insert((deadline.0, counter));
            }
        }
        true
    }

    /// See [`MessageStore::has_ready`](crate::MessageStore::has_ready).
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// See [`MessageStore::deliver_cached`](crate::MessageStore::deliver_cached).
    pub fn deliver_cached(&mut self, key: LockKey, mode: ClaimMode) -> Option<LockKey> {
        let counter = key.counter.0;
        let btree_map::Entry::Occupied(mut found) = self.entries.entry(counter) else {
            return None;
        };
        if !found.get().is_cached_by(key.generation) {
            return None;
        }
        match mode {
            ClaimMode::Take => {
                found.remove();
                return Some(key);
            }
            ClaimMode::Cache => found.get_mut().claim(MessagePhase::Cached, Ticks::NEVER),
            ClaimMode::Lock { deadline } => {
                found.get_mut().claim(MessagePhase::Locked, deadline);
                self.deadlines.insert((deadline.0, counter));
            }
        }
        Some(LockKey {
            counter: key.counter,
            generation: found.get().generation,
        })
    }

    /// See [`MessageStore::release_cached`](crate::MessageStore::release_cached).
    pub fn release_cached(&mut self, keys: &[LockKey]) -> usize {
        let mut released = 0;
        for key in keys {
            if let Some(entry) = self.entries.get_mut(&key.counter.0)
                && entry.is_cached_by(key.generation)
            {
                entry.phase = MessagePhase::Ready;
                self.ready.insert(key.counter.0);
                released += 1;
            }
        }
        released
    }

    /// See [`MessageStore::settle`](crate::MessageStore::settle).
    pub fn settle(&mut self, key: LockKey, outcome: Outcome, ticks: Ticks) -> Result<SettleResult, LockLost> {
        let counter = key.counter.0;
        let entry = self
            .entries
            .get_mut(&counter)
            .filter(|entry| entry.is_locked_by(key.generation, ticks))
            .ok_or(LockLost)?;
        self.deadlines.remove(&(entry.deadline.0, counter));
        let next = entry.settle(outcome);
        Ok(self.finish_settle(counter, next))
    }

    /// See [`MessageStore::complete`](crate::MessageStore::complete).
    pub fn complete(&mut self, keys: &[LockKey], ticks: Ticks, lost: &mut Vec<usize>) {
        for (index, key) in keys.iter().enumerate() {
            if self.settle(*key, Outcome::Complete, ticks).is_err() {
                lost.push(index);
            }
        }
    }

    /// See [`MessageStore::renew`](crate::MessageStore::renew).
    pub fn renew(&mut self, key: LockKey, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost> {
        let counter = key.counter.0;
        let entry = self
            .entries
            .get_mut(&counter)
            .filter(|entry| entry.is_locked_by(key.generation, ticks))
            .ok_or(LockLost)?;
        self.deadlines.remove(&(entry.deadline.0, counter));
        self.deadlines.insert((deadline.0, counter));
        Ok(std::mem::replace(&mut entry.deadline, deadline))
    }

    /// See [`MessageStore::rekey`](crate::MessageStore::rekey).
    pub fn rekey(&mut self, key: LockKey, generation: u32, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost> {
        let before = self.renew(key, deadline, ticks)?;
        if let Some(entry) = self.entries.get_mut(&key.counter.0) {
            entry.generation = generation;
        }
        Ok(before)
    }

    /// See [`MessageStore::count_delivery`](crate::MessageStore::count_delivery).
    pub fn count_delivery(&mut self, key: LockKey, ticks: Ticks) -> Result<(), LockLost> {
        let entry = self.entries.get_mut(&key.counter.0);
        let entry = entry
            .filter(|entry| entry.is_locked_by(key.generation, ticks))
            .ok_or(LockLost)?;
        entry.delivery_count = entry.delivery_count.saturating_add(1);
        Ok(())
    }

    /// See [`MessageStore::is_claimed_by`](crate::MessageStore::is_claimed_by).
    pub fn is_claimed_by(&self, key: LockKey, ticks: Ticks) -> bool {
        self.entries
            .get(&key.counter.0)
            .is_some_and(|entry| entry.is_locked_by(key.generation, ticks) || entry.is_cached_by(key.generation))
    }

    /// See [`MessageStore::lock_deferred`](crate::MessageStore::lock_deferred).
    pub fn lock_deferred(
        &mut self,
        counters: &[Counter],
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
    ) -> Result<(), Counter> {
        for (index, counter) in counters.iter().enumerate() {
            if !self.is_deferred(*counter, now) || counters[..index].contains(counter) {
                return Err(*counter);
            }
        }
        for counter in counters {
            let claimed = self.lock_one_deferred(*counter, mode).expect("checked above");
            out.push(claimed);
        }
        Ok(())
    }

    /// True if the message is deferred, not locked, and not expired.
    pub(crate) fn is_deferred(&self, counter: Counter, now: Timestamp) -> bool {
        self.entries
            .get(&counter.0)
            .is_some_and(|entry| entry.phase == MessagePhase::Deferred && entry.expires_at > now)
    }

    /// Locks or takes one deferred message.
    pub(crate) fn lock_one_deferred(&mut self, counter: Counter, mode: ClaimMode) -> Option<ClaimedMessage> {
        let counter = counter.0;
        match mode {
            ClaimMode::Cache => panic!("a deferred message is locked or taken, never cached"),
            ClaimMode::Take => Some(self.entries.remove(&counter)?.into_claimed(counter)),
            ClaimMode::Lock { deadline } => {
                let entry = self.entries.get_mut(&counter)?;
                entry.claim(MessagePhase::DeferredLocked, deadline);
                let counted = u32::from(deadline < Ticks::NEVER);
                entry.delivery_count = entry.delivery_count.saturating_add(counted);
                self.deadlines.insert((deadline.0, counter));
                Some(entry.claimed(counter))
            }
        }
    }

    /// See [`MessageStore::take_expired`](crate::MessageStore::take_expired).
    pub fn take_expired(&mut self, counters: &[Counter], now: Timestamp, expired: &mut Vec<RemovedMessage>) {
        expired.extend(
            counters
                .iter()
                .filter_map(|counter| self.take_one_expired(*counter, now)),
        );
    }

    /// Removes one message that is deferred, not locked, and expired.
    pub(crate) fn take_one_expired(&mut self, counter: Counter, now: Timestamp) -> Option<RemovedMessage> {
        let entry = self.entries.get(&counter.0)?;
        (entry.phase == MessagePhase::Deferred && entry.expires_at <= now).then(|| self.remove(counter.0))
    }

    /// See [`MessageStore::expire`](crate::MessageStore::expire).
    pub fn expire(&mut self, ticks: Ticks, max_delivery_count: u32, exhausted: &mut Vec<RemovedMessage>) -> usize {
        let mut ready = 0;
        while let Some((deadline, counter)) = self.deadlines.first().copied()
            && deadline <= ticks.0
        {
            self.deadlines.pop_first();
            let entry = self
                .entries
                .get_mut(&counter)
                .expect("`deadlines` contains only counters of messages");
            let next = entry.settle(Outcome::Abandon {
                max_delivery_count,
                replacement: None,
            });
            match self.finish_settle(counter, next) {
                SettleResult::Ready => ready += 1,
                SettleResult::Exhausted(removed) => exhausted.push(removed),
                SettleResult::Completed | SettleResult::Deferred | SettleResult::Held(_) | SettleResult::Removed(_) => {
                }
            }
        }
        ready
    }

    /// See [`MessageStore::next_expiry`](crate::MessageStore::next_expiry).
    pub fn next_expiry(&self) -> Ticks {
        self.deadlines
            .first()
            .map_or(Ticks::NEVER, |(deadline, _)| Ticks(*deadline))
    }

    /// See [`MessageStore::peek`](crate::MessageStore::peek).
    pub fn peek(&self, from: Counter, max: usize, out: &mut Vec<PeekedMessage>) {
        self.peek_before(from, Counter(u64::MAX), max, out);
    }

    /// Pushes up to `max` messages of `from .. before` to `out`.
    pub(crate) fn peek_before(&self, from: Counter, before: Counter, max: usize, out: &mut Vec<PeekedMessage>) {
        if from < before {
            out.extend(
                self.entries
                    .range(from.0..before.0)
                    .take(max)
                    .map(|(counter, entry)| entry.peeked(*counter)),
            );
        }
    }

    /// See [`MessageStore::counts`](crate::MessageStore::counts).
    pub fn counts(&self) -> PhaseCounts {
        let mut counts = PhaseCounts::default();
        for entry in self.entries.values() {
            counts.add(entry.phase, entry.record.len());
        }
        counts
    }

    /// See [`MessageStore::overhead_bytes`](crate::MessageStore::overhead_bytes). An estimate: a map does not report
    /// the size of its nodes.
    pub fn overhead_bytes(&self) -> usize {
        let entry = size_of::<StoreEntry>() + size_of::<u64>();
        self.entries.len() * entry
            + self.ready.len() * size_of::<u64>()
            + self.deadlines.len() * size_of::<(u64, u64)>()
    }

    fn finish_settle(&mut self, counter: u64, next: AfterSettle) -> SettleResult {
        match next {
            AfterSettle::Ready => {
                self.ready.insert(counter);
                SettleResult::Ready
            }
            AfterSettle::Deferred => SettleResult::Deferred,
            AfterSettle::Held => {
                self.deadlines.insert((Ticks::NEVER.0, counter));
                let generation = self.entries.get(&counter).map_or(0, |entry| entry.generation);
                let counter = Counter(counter);
                SettleResult::Held(LockKey { counter, generation })
            }
            AfterSettle::Completed => {
                self.entries.remove(&counter);
                SettleResult::Completed
            }
            AfterSettle::Removed => SettleResult::Removed(self.remove(counter)),
            AfterSettle::Exhausted => SettleResult::Exhausted(self.remove(counter)),
        }
    }

    fn remove(&mut self, counter: u64) -> RemovedMessage {
        self.entries
            .remove(&counter)
            .expect("the caller found the message")
            .into_removed(counter)
    }
}
