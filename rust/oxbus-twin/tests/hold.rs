// SPDX-License-Identifier: Apache-2.0
//! Ending a delivery while the message stays locked for its store's owner: for an abandon with a delay.

#[path = "support/shared_map.rs"]
mod shared_map;

use oxbus_model::{Counter, Ticks, Timestamp};
use oxbus_store::{
    ClaimMode, LockKey, LockLost, MessagePhase, MessageStore, NewMessage, Outcome, Record, SettleResult, SlotLog,
};
use oxbus_twin::MutexLog;
use shared_map::SharedMap;

const NOW: Timestamp = Timestamp(1_000);
/// Later than every lock with a deadline.
const AGES: Ticks = Ticks(1 << 50);

fn hold(max_delivery_count: u32, replacement: Option<&[u8]>) -> Outcome {
    Outcome::Hold {
        max_delivery_count,
        replacement: replacement.map(|bytes| Record::from_slice(bytes).into()),
    }
}

fn claim(store: &dyn MessageStore, deadline: Ticks) -> Option<LockKey> {
    let mut taken = Vec::new();
    store.claim(1, ClaimMode::Lock { deadline }, NOW, &mut taken, &mut Vec::new());
    taken.pop().map(|claimed| claimed.key)
}

/// Phase, delivery count, whether it is delivered, and the bytes of the first message.
fn seen(store: &dyn MessageStore) -> (MessagePhase, u32, bool, Vec<u8>) {
    let mut found = Vec::new();
    store.peek(Counter(0), 1, &mut found);
    let message = found.pop().expect("there is a message");
    let bytes = message.record.in_memory().expect("in memory").to_vec();
    (message.phase, message.delivery_count, message.is_delivered, bytes)
}

fn check(store: &dyn MessageStore) {
    let record = Record::from_slice(b"body").into();
    let expires_at = Timestamp::NEVER;
    store.append_one(NewMessage { record, expires_at }, NOW);
    let lock = claim(store, Ticks(60_000)).expect("it is ready");

    // The delivery is counted, and only the new key ends the new lock, which has no deadline.
    let held = match store.settle(lock, hold(9, None), Ticks(1)) {
        Ok(SettleResult::Held(key)) => key,
        other => panic!("{other:?}"),
    };
    assert_eq!(held, lock.next());
    assert_eq!(seen(store), (MessagePhase::Locked, 1, false, b"body".to_vec()));
    assert!(!store.has_ready() && claim(store, Ticks(60_000)).is_none());
    assert_eq!(store.settle(lock, Outcome::Complete, Ticks(1)).err(), Some(LockLost));
    assert_eq!(store.settle(lock, hold(9, None), Ticks(1)).err(), Some(LockLost));
    assert_eq!(store.expire(AGES, 9, &mut Vec::new()), 0);
    assert!(matches!(
        store.settle(held, Outcome::Release, AGES),
        Ok(SettleResult::Ready)
    ));

    // The bytes may change, also with a count beyond the bounds of the slot's bit fields.
    let mut key = claim(store, Ticks::NEVER).expect("it is ready");
    for _ in 0..4_200 {
        key = match store.settle(key, hold(u32::MAX, Some(b"changed")), AGES) {
            Ok(SettleResult::Held(key)) => key,
            other => panic!("{other:?}"),
        };
    }
    assert_eq!(seen(store), (MessagePhase::Locked, 4_201, false, b"changed".to_vec()));
    assert!(store.settle(key, Outcome::Defer { replacement: None }, AGES).is_ok());

    // A deferred message stays deferred, and its delivery was counted at the fetch.
    for (fetches, replacement) in [(1, None), (2, Some(b"again".as_slice()))] {
        let mut fetched = Vec::new();
        let mode = ClaimMode::Lock {
            deadline: AGES.plus_ms(1),
        };
        assert_eq!(store.lock_deferred(&[key.counter], mode, NOW, &mut fetched), Ok(()));
        key = match store.settle(fetched[0].key, hold(u32::MAX, replacement), AGES) {
            Ok(SettleResult::Held(key)) => key,
            other => panic!("{other:?}"),
        };
        let (phase, count, delivered, bytes) = seen(store);
        assert_eq!(
            (phase, count, delivered),
            (MessagePhase::DeferredLocked, 4_201 + fetches, false)
        );
        assert_eq!(bytes, replacement.unwrap_or(b"changed"));
        assert_eq!(
            store.lock_deferred(&[key.counter], mode, NOW, &mut fetched),
            Err(key.counter)
        );
        assert!(matches!(
            store.settle(key, Outcome::Release, AGES),
            Ok(SettleResult::Deferred)
        ));
    }

    // The count that reaches the maximum removes the message, as an abandon does.
    let record = Record::from_slice(b"next").into();
    let next = store.append_one(NewMessage { record, expires_at }, NOW);
    let lock = claim(store, Ticks::NEVER).expect("it is ready");
    match store.settle(lock, hold(1, Some(b"last")), AGES) {
        Ok(SettleResult::Exhausted(removed)) => {
            assert_eq!((removed.counter, removed.delivery_count), (next, 1));
            assert_eq!(removed.record.in_memory().map(|it| it.to_vec()), Some(b"last".to_vec()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(store.counts().messages(), 1);
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
