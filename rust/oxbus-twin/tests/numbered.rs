// SPDX-License-Identifier: Apache-2.0
//! Reserved numbers and restored stores: the slot log and the mutex log.

use std::collections::BTreeMap;

use oxbus_model::{Counter, Ticks, Timestamp};
use oxbus_store::{
    ClaimMode, LockKey, MessagePhase, MessageStore, NewMessage, NumberedStore, Outcome, Record, RemovedMessage,
    RestoredMessage, SlotLog,
};
use oxbus_twin::MutexLog;
use proptest::prelude::*;

const NOW: Timestamp = Timestamp(1_000);
const LATER: Ticks = Ticks(60_000);

fn message(body: u64) -> NewMessage {
    NewMessage {
        record: Record::from_slice(&body.to_le_bytes()).into(),
        expires_at: Timestamp::NEVER,
    }
}

fn claim(store: &impl MessageStore, max: usize) -> Vec<LockKey> {
    let mut out = Vec::new();
    store.claim(max, ClaimMode::Lock { deadline: LATER }, NOW, &mut out, &mut Vec::new());
    out.into_iter().map(|claimed| claimed.key).collect()
}

fn counters(keys: &[LockKey]) -> Vec<u64> {
    keys.iter().map(|key| key.counter.0).collect()
}

fn check_gap<S: NumberedStore>(store: &S) {
    assert_eq!(store.next(), Counter(1));
    let first = store.reserve(2);
    let second = store.reserve(1);
    let third = store.reserve(3);
    assert_eq!(
        (first, second, third, store.next()),
        (Counter(1), Counter(3), Counter(4), Counter(7))
    );
    store.publish(third, &mut vec![message(4), message(5), message(6)], NOW);
    assert!(!store.has_ready(), "1 is not there yet");
    assert!(!store.is_decided(Counter(2)));
    store.publish(first, &mut vec![message(1), message(2)], NOW);
    assert_eq!(counters(&claim(store, 10)), [1, 2]);
    assert!(store.is_decided(Counter(3)) && !store.is_decided(Counter(4)));
    store.give_up(second, 1);
    assert!(store.is_decided(store.next()));
    let keys = claim(store, 10);
    assert_eq!(counters(&keys), [4, 5, 6]);
    let mut lost = Vec::new();
    store.complete(&keys, Ticks(0), &mut lost);
    assert!(lost.is_empty());
    let counts = store.counts();
    assert_eq!((counts.ready, counts.locked), (0, 2));
}

#[test]
fn a_gap_holds_back_later_messages_in_the_slot_log() {
    check_gap(&SlotLog::new());
}

#[test]
fn a_gap_holds_back_later_messages_in_the_mutex_log() {
    check_gap(&MutexLog::new());
}

#[test]
fn abandoned_numbers_leave_no_segment_behind() {
    let log = SlotLog::new();
    for _ in 0..100 {
        let first = log.reserve(300);
        log.give_up(first, 300);
    }
    assert!(!log.has_ready());
    assert_eq!(log.next(), Counter(30_001));
    // One segment may be in partial use.
    assert!(
        log.overhead_bytes() < 2 * 256 * 32 + 4_096,
        "{} bytes",
        log.overhead_bytes()
    );
}

/// A message of the model: its phase, deliveries and generation.
type MessageEntry = (MessagePhase, u32, u32);

fn messages() -> impl Strategy<Value = BTreeMap<u64, MessageEntry>> {
    let phase = prop_oneof![6 => Just(MessagePhase::Ready), 1 => Just(MessagePhase::Deferred), 1 => Just(MessagePhase::Scheduled)];
    let one = (phase, 0u32..5_000, 0u32..1_000);
    prop_oneof![
        prop::collection::btree_map(1u64..60, one.clone(), 0..40),
        prop::collection::btree_map(1u64..5_000, one.clone(), 0..80),
        prop::collection::btree_map(90_000_000u64..90_000_900, one, 0..200),
    ]
}

fn restored(messages: &BTreeMap<u64, MessageEntry>, next: u64) -> (Counter, Vec<RestoredMessage>) {
    let all = messages
        .iter()
        .map(|(counter, (phase, delivery_count, generation))| RestoredMessage {
            message: RemovedMessage {
                counter: Counter(*counter),
                record: Record::from_slice(&counter.to_le_bytes()).into(),
                delivery_count: *delivery_count,
                enqueued_at: NOW,
                expires_at: Timestamp::NEVER,
            },
            phase: *phase,
            generation: *generation,
        });
    (Counter(next), all.collect())
}

/// Uses every operation on a restored store and compares the results with its messages.
fn check<S: NumberedStore>(messages: &BTreeMap<u64, MessageEntry>, gap: u64) {
    let next = messages.keys().last().map_or(1, |last| last + 1) + gap;
    let (counter, all) = restored(messages, next);
    let store = S::restore(counter, all.into_iter());
    assert_eq!(store.next(), counter);
    assert!(store.is_decided(counter));

    let mut peeked = Vec::new();
    store.peek(Counter(0), usize::MAX, &mut peeked);
    let seen: BTreeMap<u64, MessageEntry> = peeked
        .iter()
        .map(|it| (it.counter.0, (it.phase, it.delivery_count, it.generation)))
        .collect();
    assert_eq!(&seen, messages);

    // New messages come after the restored ones.
    assert_eq!(store.append(&mut vec![message(1), message(2)], NOW), counter);
    let keys = claim(&store, usize::MAX);
    let of_phase = |wanted| {
        messages
            .iter()
            .filter(move |(_, messages)| messages.0 == wanted)
            .map(|(counter, _)| *counter)
    };
    let expected: Vec<u64> = of_phase(MessagePhase::Ready).chain([next, next + 1]).collect();
    assert_eq!(counters(&keys), expected);
    for key in &keys {
        let before = messages.get(&key.counter.0).map_or(0, |messages| messages.2);
        assert_eq!(key.generation, before + 1, "a key from before the restore is invalid");
    }
    let deferred: Vec<Counter> = of_phase(MessagePhase::Deferred).map(Counter).collect();
    let mut fetched = Vec::new();
    store
        .lock_deferred(&deferred, ClaimMode::Lock { deadline: LATER }, NOW, &mut fetched)
        .expect("all are deferred");
    for claimed in fetched {
        let (_, count, generation) = messages[&claimed.key.counter.0];
        assert_eq!(
            (claimed.delivery_count, claimed.key.generation),
            (count + 1, generation + 1)
        );
        store
            .settle(claimed.key, Outcome::Complete, Ticks(0))
            .expect("it is ours");
    }
    for counter in of_phase(MessagePhase::Scheduled) {
        let taken = store.take_scheduled(Counter(counter)).expect("it is scheduled");
        assert_eq!(taken.delivery_count, messages[&counter].1);
    }
    let mut lost = Vec::new();
    store.complete(&keys, Ticks(0), &mut lost);
    assert!(lost.is_empty());
    let counts = store.counts();
    assert_eq!(counts.ready + counts.locked + counts.deferred + counts.scheduled, 0);
}

proptest! {
    #[test]
    fn a_store_is_restored_with_its_messages(messages in messages(), gap in 0u64..2_000) {
        check::<SlotLog>(&messages, gap);
        check::<MutexLog>(&messages, gap);
    }
}
