// SPDX-License-Identifier: Apache-2.0
//! Counting a delivery while the lock stays.

#[path = "support/shared_map.rs"]
mod shared_map;

use oxbus_model::{Counter, Ticks, Timestamp};
use oxbus_store::{ClaimMode, LockLost, MessagePhase, MessageStore, NewMessage, Outcome, Record, SlotLog};
use oxbus_twin::MutexLog;
use shared_map::SharedMap;

const NOW: Timestamp = Timestamp(1_000);
const FOR_EVER: ClaimMode = ClaimMode::Lock { deadline: Ticks::NEVER };

fn check(store: &dyn MessageStore) {
    for _ in 0..2 {
        let record = Record::from_slice(b"body").into();
        let expires_at = Timestamp::NEVER;
        store.append_one(NewMessage { record, expires_at }, NOW);
    }
    let mut held = Vec::new();
    store.claim(2, FOR_EVER, NOW, &mut held, &mut Vec::new());
    let [first, second] = [0, 1].map(|at: usize| held[at].key);

    // The lock keeps its key however often a delivery is counted, even beyond the bounds of the slot's bit fields.
    for _ in 0..4_200 {
        assert_eq!(store.count_delivery(first, Ticks(5)), Ok(()));
    }
    assert!(store.is_claimed_by(first, Ticks(5)) && !store.has_ready());
    let mut found = Vec::new();
    store.peek(Counter(0), 1, &mut found);
    assert_eq!((found[0].delivery_count, found[0].phase), (4_200, MessagePhase::Locked));

    // An ended lock counts no delivery.
    let released = store.settle(second, Outcome::Release, Ticks(5));
    assert!(released.is_ok());
    assert_eq!(store.count_delivery(second, Ticks(5)), Err(LockLost));
    assert_eq!(store.counts().ready, 1);
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
