// SPDX-License-Identifier: Apache-2.0
//! Counting a delivery while the lock stays: the holder starts over, and loses the message at the maximum.

#[path = "support/shared_map.rs"]
mod shared_map;

use oxbus_model::{Counter, Ticks, Timestamp};
use oxbus_store::{ClaimMode, LockLost, MessagePhase, MessageStore, NewMessage, Outcome, Record, SlotLog};
use oxbus_twin::MutexLog;
use shared_map::SharedMap;

const NOW: Timestamp = Timestamp(1_000);
const FOR_EVER: ClaimMode = ClaimMode::Lock { deadline: Ticks::NEVER };

fn check(store: &dyn MessageStore) {
    for _ in 0..3 {
        let record = Record::from_slice(b"body").into();
        let expires_at = Timestamp::NEVER;
        store.append_one(NewMessage { record, expires_at }, NOW);
    }
    let mut held = Vec::new();
    store.claim(3, FOR_EVER, NOW, &mut held, &mut Vec::new());
    let [first, second, third] = [0, 1, 2].map(|at: usize| held[at].key);

    // The lock keeps its key however often a delivery is counted, even beyond the bounds of the slot's bit fields.
    for _ in 0..4_200 {
        assert!(
            store
                .count_delivery(first, u32::MAX, Ticks(5))
                .is_ok_and(|left| left.is_none())
        );
    }
    assert!(store.is_claimed_by(first, Ticks(5)) && !store.has_ready());
    let mut found = Vec::new();
    store.peek(Counter(0), 1, &mut found);
    assert_eq!((found[0].delivery_count, found[0].phase), (4_200, MessagePhase::Locked));

    // The count that reaches the maximum removes the message, as an abandon does.
    assert!(
        store
            .count_delivery(second, 2, Ticks(5))
            .is_ok_and(|left| left.is_none())
    );
    let left = store.count_delivery(second, 2, Ticks(5)).ok().flatten();
    assert_eq!(
        left.map(|it| (it.counter, it.delivery_count)),
        Some((second.counter, 2))
    );
    assert_eq!(store.count_delivery(second, 2, Ticks(5)).err(), Some(LockLost));

    // An ended lock counts no delivery.
    let released = store.settle(third, Outcome::Release, Ticks(5));
    assert!(released.is_ok());
    assert_eq!(store.count_delivery(third, 9, Ticks(5)).err(), Some(LockLost));
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
