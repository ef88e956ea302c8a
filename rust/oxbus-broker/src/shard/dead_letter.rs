// SPDX-License-Identifier: Apache-2.0
//! The dead-letter queue of a cell: an ordered map under the shard's mutex, with the interface of a store.
//!
//! Its messages keep their numbers (B-265), ignore time to live (B-254) and are never exhausted (B-179).

use std::sync::Arc;

use oxbus_model::{Counter, Ticks, Timestamp};
use oxbus_store::{
    ClaimMode, ClaimedMessage, LockKey, LockLost, MessageStore, NewMessage, OrderedStore, Outcome, PeekedMessage,
    PhaseCounts, RemovedMessage, SettleResult,
};

use super::{CellStateId, Shard};

/// The dead-letter queue of one cell.
#[derive(Debug)]
pub struct DeadLetters {
    pub(super) shard: Arc<Shard>,
    pub(super) state_id: CellStateId,
}

impl DeadLetters {
    fn with<R>(&self, step: impl FnOnce(&mut OrderedStore) -> R) -> R {
        self.shard
            .with_cell_state(self.state_id, |state| step(&mut state.dead_letters))
    }
}

/// Messages arrive only by dead-lettering (B-260).
const NOT_A_TARGET: &str = "a dead-letter queue accepts messages by number, from its own entity only";

impl MessageStore for DeadLetters {
    fn append(&self, _: &mut Vec<NewMessage>, _: Timestamp) -> Counter {
        unreachable!("{NOT_A_TARGET}")
    }

    fn append_one(&self, _: NewMessage, _: Timestamp) -> Counter {
        unreachable!("{NOT_A_TARGET}")
    }

    fn append_scheduled(&self, _: NewMessage, _: Timestamp) -> Counter {
        unreachable!("{NOT_A_TARGET}")
    }

    fn take_scheduled(&self, _: Counter) -> Option<RemovedMessage> {
        None
    }

    fn claim(
        &self,
        max: usize,
        mode: ClaimMode,
        _: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> usize {
        self.with(|store| store.claim(max, mode, Timestamp(0), out, expired))
    }

    fn claim_these(
        &self,
        counters: &[Counter],
        mode: ClaimMode,
        _: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> usize {
        self.with(|store| store.claim_these(counters, mode, Timestamp(0), out, expired))
    }

    fn has_ready(&self) -> bool {
        self.with(|store| store.has_ready())
    }

    fn deliver_cached(&self, key: LockKey, mode: ClaimMode) -> Option<LockKey> {
        self.with(|store| store.deliver_cached(key, mode))
    }

    fn release_cached(&self, keys: &[LockKey]) -> usize {
        self.with(|store| store.release_cached(keys))
    }

    fn settle(&self, key: LockKey, outcome: Outcome, ticks: Ticks) -> Result<SettleResult, LockLost> {
        self.with(|store| store.settle(key, outcome, ticks))
    }

    fn complete(&self, keys: &[LockKey], ticks: Ticks, lost: &mut Vec<usize>) {
        self.with(|store| store.complete(keys, ticks, lost));
    }

    fn renew(&self, key: LockKey, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost> {
        self.with(|store| store.renew(key, deadline, ticks))
    }

    fn rekey(&self, key: LockKey, generation: u32, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost> {
        self.with(|store| store.rekey(key, generation, deadline, ticks))
    }

    fn count_delivery(&self, key: LockKey, ticks: Ticks) -> Result<(), LockLost> {
        self.with(|store| store.count_delivery(key, ticks))
    }

    fn is_claimed_by(&self, key: LockKey, ticks: Ticks) -> bool {
        self.with(|store| store.is_claimed_by(key, ticks))
    }

    fn lock_deferred(
        &self,
        counters: &[Counter],
        mode: ClaimMode,
        _: Timestamp,
        out: &mut Vec<ClaimedMessage>,
    ) -> Result<(), Counter> {
        self.with(|store| store.lock_deferred(counters, mode, Timestamp(0), out))
    }

    fn take_expired(&self, _: &[Counter], _: Timestamp, _: &mut Vec<RemovedMessage>) {}

    fn expire(&self, ticks: Ticks, _: u32, exhausted: &mut Vec<RemovedMessage>) -> usize {
        self.with(|store| store.expire(ticks, u32::MAX, exhausted))
    }

    fn next_expiry(&self) -> Ticks {
        self.with(|store| store.next_expiry())
    }

    fn peek(&self, from: Counter, max: usize, out: &mut Vec<PeekedMessage>) {
        self.with(|store| store.peek(from, max, out));
    }

    fn counts(&self) -> PhaseCounts {
        self.with(|store| store.counts())
    }

    fn approximate_count(&self) -> u64 {
        self.with(|store| store.len() as u64)
    }

    fn overhead_bytes(&self) -> usize {
        self.with(|store| store.overhead_bytes())
    }
}
