// SPDX-License-Identifier: Apache-2.0
//! The ordered map as a store: with a mutex and a counter, as the broker uses it for a sub-queue.

use std::sync::{Mutex, MutexGuard};

use oxbus_model::{Counter, Ticks, Timestamp};
use oxbus_store::{
    ClaimMode, ClaimedMessage, LockKey, LockLost, MessagePhase, MessageStore, NewMessage, OrderedStore, Outcome,
    PeekedMessage, PhaseCounts, RemovedMessage, SettleResult,
};

#[derive(Default)]
pub(crate) struct SharedMap(Mutex<(OrderedStore, u64)>);

impl SharedMap {
    fn lock(&self) -> MutexGuard<'_, (OrderedStore, u64)> {
        self.0.lock().expect("no test panics under it")
    }

    fn put(&self, message: NewMessage, enqueued_at: Timestamp, phase: MessagePhase) -> Counter {
        let mut guard = self.lock();
        guard.1 += 1;
        let counter = Counter(guard.1);
        let NewMessage { record, expires_at } = message;
        let removed = RemovedMessage {
            counter,
            record,
            delivery_count: 0,
            enqueued_at,
            expires_at,
        };
        let inserted = if phase == MessagePhase::Ready {
            guard.0.insert(removed)
        } else {
            guard.0.insert_as(removed, phase)
        };
        assert!(inserted, "the number is new");
        counter
    }
}

impl MessageStore for SharedMap {
    fn append(&self, batch: &mut Vec<NewMessage>, enqueued_at: Timestamp) -> Counter {
        let numbers: Vec<_> = batch
            .drain(..)
            .map(|message| self.put(message, enqueued_at, MessagePhase::Ready))
            .collect();
        numbers[0]
    }
    fn append_one(&self, message: NewMessage, enqueued_at: Timestamp) -> Counter {
        self.put(message, enqueued_at, MessagePhase::Ready)
    }
    fn append_scheduled(&self, message: NewMessage, enqueued_at: Timestamp) -> Counter {
        self.put(message, enqueued_at, MessagePhase::Scheduled)
    }
    fn take_scheduled(&self, counter: Counter) -> Option<RemovedMessage> {
        self.lock().0.take_scheduled(counter)
    }
    fn claim(
        &self,
        max: usize,
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> usize {
        self.lock().0.claim(max, mode, now, out, expired)
    }
    fn claim_these(
        &self,
        counters: &[Counter],
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> usize {
        self.lock().0.claim_these(counters, mode, now, out, expired)
    }
    fn has_ready(&self) -> bool {
        self.lock().0.has_ready()
    }
    fn deliver_cached(&self, key: LockKey, mode: ClaimMode) -> Option<LockKey> {
        self.lock().0.deliver_cached(key, mode)
    }
    fn release_cached(&self, keys: &[LockKey]) -> usize {
        self.lock().0.release_cached(keys)
    }
    fn settle(&self, key: LockKey, outcome: Outcome, ticks: Ticks) -> Result<SettleResult, LockLost> {
        self.lock().0.settle(key, outcome, ticks)
    }
    fn complete(&self, keys: &[LockKey], ticks: Ticks, lost: &mut Vec<usize>) {
        self.lock().0.complete(keys, ticks, lost);
    }
    fn renew(&self, key: LockKey, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost> {
        self.lock().0.renew(key, deadline, ticks)
    }
    fn count_delivery(&self, key: LockKey, ticks: Ticks) -> Result<(), LockLost> {
        self.lock().0.count_delivery(key, ticks)
    }
    fn rekey(&self, key: LockKey, generation: u32, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost> {
        self.lock().0.rekey(key, generation, deadline, ticks)
    }
    fn is_claimed_by(&self, key: LockKey, ticks: Ticks) -> bool {
        self.lock().0.is_claimed_by(key, ticks)
    }
    fn lock_deferred(
        &self,
        counters: &[Counter],
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
    ) -> Result<(), Counter> {
        self.lock().0.lock_deferred(counters, mode, now, out)
    }
    fn take_expired(&self, counters: &[Counter], now: Timestamp, expired: &mut Vec<RemovedMessage>) {
        self.lock().0.take_expired(counters, now, expired);
    }
    fn expire(&self, ticks: Ticks, max_delivery_count: u32, exhausted: &mut Vec<RemovedMessage>) -> usize {
        self.lock().0.expire(ticks, max_delivery_count, exhausted)
    }
    fn next_expiry(&self) -> Ticks {
        self.lock().0.next_expiry()
    }
    fn peek(&self, from: Counter, max: usize, out: &mut Vec<PeekedMessage>) {
        self.lock().0.peek(from, max, out);
    }
    fn counts(&self) -> PhaseCounts {
        self.lock().0.counts()
    }
    fn overhead_bytes(&self) -> usize {
        self.lock().0.overhead_bytes()
    }
}
