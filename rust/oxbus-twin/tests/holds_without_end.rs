// SPDX-License-Identifier: Apache-2.0
//! Locks without a deadline: a delivery under the lock of a session, and an internal lock of a message to be moved. A
//! browse distinguishes them, because only the first counts as a delivery.

#[path = "support/shared_map.rs"]
mod shared_map;

use oxbus_model::{Counter, Ticks, Timestamp};
use oxbus_store::{ClaimMode, ClaimedMessage, MessageStore, NewMessage, Outcome, Record, SlotLog};
use oxbus_twin::MutexLog;
use shared_map::SharedMap;

const NOW: Timestamp = Timestamp(1_000);
/// Later than every lock with a deadline.
const AGES: Ticks = Ticks(1 << 50);

fn lock(store: &dyn MessageStore, deadline: Ticks) -> ClaimedMessage {
    let record = Record::from_slice(b"body").into();
    let expires_at = Timestamp::NEVER;
    store.append_one(NewMessage { record, expires_at }, NOW);
    let mut taken = Vec::new();
    store.claim(1, ClaimMode::Lock { deadline }, NOW, &mut taken, &mut Vec::new());
    assert_eq!(taken[0].deadline, deadline);
    taken.remove(0)
}

/// Whether each message is delivered.
fn delivered(store: &dyn MessageStore) -> Vec<bool> {
    let mut found = Vec::new();
    store.peek(Counter(0), usize::MAX, &mut found);
    found.iter().map(|it| it.is_delivered).collect()
}

fn check(store: &dyn MessageStore) {
    let ends = lock(store, Ticks(60_000));
    let open = lock(store, Ticks::OPEN_END);
    let moves = lock(store, Ticks::NEVER);
    assert_eq!(delivered(store), [true, true, false]);

    // Only the first lock ends.
    assert_eq!(store.expire(AGES, u32::MAX, &mut Vec::new()), 1);
    assert!(store.next_expiry() >= Ticks::OPEN_END);
    let holds = [&ends, &open, &moves].map(|it| store.is_claimed_by(it.key, AGES));
    assert_eq!(holds, [false, true, true]);
    assert_eq!(delivered(store), [false, true, false]);

    // Another key replaces it, and is replaced by the original key.
    let own = open.key.next().generation;
    assert_eq!(store.rekey(open.key, own, Ticks::NEVER, AGES), Ok(Ticks::OPEN_END));
    assert_eq!(delivered(store), [false, false, false]);
    assert_eq!(
        store.rekey(open.key.next(), open.key.generation, Ticks::OPEN_END, AGES),
        Ok(Ticks::NEVER)
    );
    assert_eq!(delivered(store), [false, true, false]);
    for held in [&open, &moves] {
        assert!(store.settle(held.key, Outcome::Release, AGES).is_ok());
    }
    assert_eq!(delivered(store), [false, false, false]);
}

/// A deadline whose short form looks like no deadline still ends.
fn check_odd_ends(store: &dyn MessageStore) {
    for behind in [0, 1, 2] {
        let deadline = Ticks((1 << 28) - 1 - behind);
        let mut taken = Vec::new();
        let record = Record::from_slice(b"body").into();
        let expires_at = Timestamp::NEVER;
        store.append_one(NewMessage { record, expires_at }, NOW);
        store.claim(1, ClaimMode::Lock { deadline }, NOW, &mut taken, &mut Vec::new());
        assert_eq!(store.expire(deadline.plus_ms(2), u32::MAX, &mut Vec::new()), 1);
        store.claim(1, ClaimMode::Take, NOW, &mut taken, &mut Vec::new());
    }
}

#[test]
fn slot_log() {
    check(&SlotLog::new());
    check_odd_ends(&SlotLog::new());
}

#[test]
fn mutex_log() {
    check(&MutexLog::new());
    check_odd_ends(&MutexLog::new());
}

#[test]
fn shared_map() {
    check(&SharedMap::default());
    check_odd_ends(&SharedMap::default());
}
