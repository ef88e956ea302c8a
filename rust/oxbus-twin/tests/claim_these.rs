// SPDX-License-Identifier: Apache-2.0
//! Claiming messages by number: messages that are not ready, or not named, are not claimed.

#[path = "support/shared_map.rs"]
mod shared_map;

use oxbus_model::{Counter, Ticks, Timestamp};
use oxbus_store::{
    ClaimMode, ClaimedMessage, MessagePhase, MessageStore, NewMessage, Outcome, Record, RemovedMessage, SlotLog,
};
use oxbus_twin::MutexLog;
use shared_map::SharedMap;

const NOW: Timestamp = Timestamp(1_000);
const LATER: Ticks = Ticks(60_000);
const LOCK: ClaimMode = ClaimMode::Lock { deadline: LATER };

fn message(expires_at: Timestamp) -> NewMessage {
    NewMessage {
        record: Record::from_slice(b"body").into(),
        expires_at,
    }
}

fn numbers(taken: &[ClaimedMessage]) -> Vec<u64> {
    taken.iter().map(|claimed| claimed.key.counter.0).collect()
}

fn claim_counters(
    store: &dyn MessageStore,
    counters: &[u64],
    mode: ClaimMode,
) -> (Vec<ClaimedMessage>, Vec<RemovedMessage>) {
    let counters: Vec<Counter> = counters.iter().copied().map(Counter).collect();
    let (mut out, mut expired) = (Vec::new(), Vec::new());
    let taken = store.claim_these(&counters, mode, NOW, &mut out, &mut expired);
    assert_eq!(taken, out.len());
    (out, expired)
}

fn check(store: &dyn MessageStore) {
    for number in 1..=200 {
        let expires_at = if number == 50 { NOW } else { Timestamp::NEVER };
        store.append_one(message(expires_at), NOW);
    }
    let scheduled = store.append_scheduled(message(Timestamp::NEVER), NOW);
    let mut first = Vec::new();
    store.claim(2, LOCK, NOW, &mut first, &mut Vec::new());
    assert_eq!(numbers(&first), [1, 2]);

    // Locked, expired, scheduled, unknown and repeated numbers are not claimed.
    let (taken, expired) = claim_counters(store, &[2, 3, 50, 100, 3, 200, scheduled.0, 999, 0], LOCK);
    assert_eq!(numbers(&taken), [3, 100, 200]);
    assert_eq!(expired.iter().map(|it| it.counter.0).collect::<Vec<_>>(), [50]);

    // A claim returns the rest, in order.
    let mut rest = Vec::new();
    store.claim(usize::MAX, LOCK, NOW, &mut rest, &mut Vec::new());
    let expected: Vec<u64> = (4..200).filter(|number| ![50, 100].contains(number)).collect();
    assert_eq!(numbers(&rest), expected);
    assert!(!store.has_ready());

    // The locks work like those of a claim: they are settled, released and expire.
    for claimed in &taken {
        let settled = store.settle(claimed.key, Outcome::Release, Ticks(1));
        assert!(settled.is_ok(), "{claimed:?}");
    }
    let (again, _) = claim_counters(store, &[200, 3], ClaimMode::Take);
    assert_eq!(numbers(&again), [200, 3]);
    let (cached, _) = claim_counters(store, &[100], ClaimMode::Cache);
    assert!(store.deliver_cached(cached[0].key, LOCK).is_some());
    let mut found = Vec::new();
    store.peek(Counter(0), usize::MAX, &mut found);
    let locked = found.iter().filter(|it| it.phase == MessagePhase::Locked).count();
    assert_eq!((locked, found.len()), (197, 198));
    assert_eq!(store.expire(LATER, u32::MAX, &mut Vec::new()), 197);
}

#[test]
fn slot_log() {
    check(&SlotLog::new());
}

#[test]
fn mutex_log() {
    check(&MutexLog::new());
}

#[test]
fn ordered_map() {
    check(&SharedMap::default());
}
