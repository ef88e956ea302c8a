// SPDX-License-Identifier: Apache-2.0
//! Events survive a round trip through bytes.

use std::sync::Arc;

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Identity, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

pub(super) const ENTITY: EntityId = EntityId(7);

fn round_trip(event: &JournalEvent<'_>) {
    let mut bytes = Vec::new();
    event.encode(ENTITY, &mut bytes);
    event.encode(EntityId(u64::MAX), &mut bytes);
    let found: Vec<_> = EventReader::of(&bytes).collect();
    assert_eq!(
        found,
        [Ok((ENTITY, event.clone())), Ok((EntityId(u64::MAX), event.clone()))]
    );
    for len in 1..bytes.len() {
        // Truncation inside an event is an error, and truncation between two events loses the second one. Neither
        // alters an event.
        let whole = EventReader::of(&bytes[..len]).take_while(Result::is_ok).count();
        assert!(whole <= 1, "{len} bytes");
    }
}

pub(super) fn intent([batch, at, entity, piece_bytes]: [u64; 4], pieces: u32, is_done: bool) -> Intent {
    Intent {
        query: "a query".to_owned(),
        batch,
        at: Timestamp(at),
        is_done,
        piece_bytes,
        stages: vec!["stage".to_owned(), "鍵".to_owned()],
        targets: vec![IntentTarget {
            entity: EntityId(entity),
            index: 63,
            pieces,
        }],
    }
}

fn sub_queues() -> impl Strategy<Value = SubQueue> {
    prop_oneof![Just(SubQueue::Main), Just(SubQueue::DeadLetter)]
}

/// Rising numbers, some of them adjacent.
fn numbers() -> impl Strategy<Value = Vec<Counter>> {
    vec((1u64..1 << 40, 1u64..6), 0..6).prop_map(|runs| {
        let runs = runs
            .into_iter()
            .flat_map(|(first, len)| (first..first + len).map(Counter));
        let rising: std::collections::BTreeSet<Counter> = runs.collect();
        rising.into_iter().collect()
    })
}

fn phases() -> impl Strategy<Value = StoredPhase> {
    prop_oneof![
        Just(StoredPhase::Ready),
        Just(StoredPhase::Deferred),
        Just(StoredPhase::Fetched),
        any::<u64>().prop_map(|due| StoredPhase::Scheduled { due: Timestamp(due) }),
        delays(),
    ]
}

fn delays() -> impl Strategy<Value = StoredPhase> {
    (any::<u64>(), any::<bool>()).prop_map(|(until, deferred)| StoredPhase::Delayed {
        until: Timestamp(until),
        deferred,
    })
}

/// The phases in which a lock leaves a message.
fn returned_phases() -> impl Strategy<Value = StoredPhase> {
    prop_oneof![Just(StoredPhase::Ready), Just(StoredPhase::Deferred), delays()]
}

proptest! {
    #[test]
    fn appended_messages_round_trip(
        first: u64, at: u64, messages in vec((any::<u64>(), vec(any::<u8>(), 0..40)), 0..5),
    ) {
        let messages = messages
            .iter()
            .map(|(expires_at, bytes)| AppendedMessage { expires_at: Timestamp(*expires_at), bytes })
            .collect();
        round_trip(&JournalEvent::Append { first: Counter(first), enqueued_at: Timestamp(at), messages });
    }

    #[test]
    fn single_events_round_trip(
        numbers: [u64; 4], small: [u32; 3], flag: bool, sub_queue in sub_queues(), phase in phases(),
        returned in returned_phases(), bytes in vec(any::<u8>(), 0..40),
    ) {
        let [counter, new_counter] = [numbers[0], numbers[1]].map(Counter);
        let [enqueued_at, expires_at] = [numbers[2], numbers[3]].map(Timestamp);
        let [delivery_count, generation, record_generation] = small;
        let handed_out = DeliveryRecord { counter, generation, count_after: delivery_count, deferred: flag };
        for event in [
            JournalEvent::Schedule { counter, due: Timestamp(new_counter.0), enqueued_at, expires_at, bytes: &bytes },
            JournalEvent::Activate { counter, new_counter, enqueued_at, expires_at, bytes: &bytes },
            JournalEvent::HandOut { sub_queue, messages: vec![handed_out.clone(), handed_out] },
            JournalEvent::Return {
                sub_queue, counter, generation, delivery_count, phase: returned,
                record: flag.then_some(RecordChange::Whole(&bytes)),
            },
            JournalEvent::DeadLetter {
                counter, enqueued_at, expires_at, delivery_count,
                record: RecordChange::Edited { front: [1, 2, 3], keep: small[0] as usize, middle: &bytes, tail: small[1] as usize },
            },
            JournalEvent::Keep {
                sub_queue, counter, enqueued_at, expires_at, delivery_count, generation, record_generation, phase,
                record: KeptRecord::Here(&bytes),
            },
            JournalEvent::Keep {
                sub_queue, counter, enqueued_at, expires_at, delivery_count, generation, record_generation, phase,
                record: KeptRecord::Apart { len: bytes.len(), position: u64::from(small[0]) << 8 },
            },
            JournalEvent::Number { next: counter },
            JournalEvent::SessionState { id: "schlüssel 鍵", set_at: enqueued_at, state: flag.then_some(&bytes[..]) },
            JournalEvent::SessionState { id: "", set_at: expires_at, state: None },
            JournalEvent::Seen { identities: vec![(enqueued_at, Identity(u128::MAX)), (expires_at, Identity(small[0].into()))] },
            JournalEvent::Attached { identities: vec![(expires_at, Identity(1)), (enqueued_at, Identity(small[0].into()))] },
            JournalEvent::Consumer { sub_queue, name: "verbraucher 者", record: Arc::default() },
            JournalEvent::Intent { sink: "a sink", intent: intent(numbers, small[0], flag) },
        ] {
            round_trip(&event);
        }
    }

    #[test]
    fn consumers_round_trip(
        values: [u64; 3], starts in vec(any::<u64>().prop_map(Counter), 0..4),
        reservations in vec((any::<[u64; 5]>(), any::<bool>(), vec((any::<u16>(), numbers()), 0..4)), 0..3),
    ) {
        let reservations = reservations.into_iter().map(|([n, stamp, epoch, lock_ms, reserved], expired, parts)| {
            let ranges = |(partition, counters): (u16, Vec<Counter>)| (partition, Ranges::of(counters.into_iter()));
            let parts = parts.into_iter().map(ranges).collect();
            ReservationRecord { n, stamp, epoch, lock_ms, reserved, expired, parts }
        });
        let [epoch, done, stamp] = values;
        let record = ConsumerRecord { epoch, done, stamp, starts, reservations: reservations.collect() };
        round_trip(&JournalEvent::Consumer { sub_queue: SubQueue::Main, name: "c", record: Arc::new(record) });
    }

    #[test]
    fn removals_round_trip(counters in numbers(), sub_queue in sub_queues()) {
        let mut shuffled = counters.clone();
        shuffled.reverse();
        shuffled.extend(counters.first());
        let ranges = Ranges::from_iter(shuffled);
        prop_assert_eq!(&ranges, &Ranges::of(counters.into_iter()));
        round_trip(&JournalEvent::Remove { sub_queue, counters: ranges });
    }

    #[test]
    fn ranges_contain_their_numbers(counters in numbers(), gone in numbers()) {
        let mut ranges = Ranges::of(counters.iter().copied());
        prop_assert_eq!(ranges.counters().collect::<Vec<_>>(), &counters[..]);
        prop_assert_eq!(ranges.len(), counters.len() as u64);
        let left: Vec<_> = counters.iter().copied().filter(|it| !gone.contains(it)).collect();
        prop_assert_eq!(ranges.without(&gone), (counters.len() - left.len()) as u64);
        prop_assert_eq!(ranges, Ranges::of(left.into_iter()));
    }

    #[test]
    fn any_bytes_are_events_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
        let mut state = ShardState::default();
        for found in EventReader::of(&bytes) {
            let Ok((entity, event)) = found else { break };
            // An invalid event is an error: the shard does not open.
            let _ = state.apply(entity, &event);
        }
    }
}
