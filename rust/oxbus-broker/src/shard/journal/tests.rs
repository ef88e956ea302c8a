// SPDX-License-Identifier: Apache-2.0
//! The state after events, snapshots and folds, against a simple model.

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Identity, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;

use super::round_trips::{ENTITY, intent};
use super::*;

/// Number of bytes at the end of each message that never change.
const BODY: usize = 4;

/// A change of a record that replaces all bytes before the body.
fn edited(front: &[u8]) -> RecordChange<'_> {
    RecordChange::Edited {
        front: front.try_into().expect("three bytes"),
        keep: 0,
        middle: &[],
        tail: BODY,
    }
}

#[test]
fn the_latest_intent_of_a_sink_counts_and_survives_a_snapshot() {
    let mut state = ShardState::default();
    let first = intent([1, 2, 3, 4], 5, false);
    let last = Intent {
        batch: 2,
        is_done: true,
        ..first.clone()
    };
    for (sink, intent) in [("one", &first), ("two", &first), ("one", &last)] {
        let intent = intent.clone();
        state
            .apply(EntityId(0), &JournalEvent::Intent { sink, intent })
            .expect("a valid event");
    }
    assert_eq!(state.entities().count(), 0);
    let mut again = ShardState::default();
    for chunk in state.chunks(1) {
        for event in EventReader::of(&chunk.expect("in memory").bytes) {
            let (entity, event) = event.expect("an event");
            again.apply(entity, &event).expect("a valid event");
        }
    }
    assert_eq!(again, state);
    let known = |sink: &str| again.sinks().get(sink).cloned();
    assert_eq!((known("one"), known("two")), (Some(last), Some(first)));
}

/// A step of a test. `at` selects one of the suitable messages.
#[derive(Debug, Clone)]
enum Step {
    Append(u8),
    Schedule,
    Activate(usize),
    HandOut(usize),
    /// The message returns, with or without new bytes, deferred or not, delayed or not. If `late`, its next delivery
    /// is journaled first.
    Return {
        at: usize,
        bytes: bool,
        deferred: bool,
        delayed: bool,
        late: bool,
    },
    Remove(usize),
    DeadLetter(usize),
    /// Restart from a snapshot.
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1u8..5).prop_map(Step::Append),
        1 => Just(Step::Schedule),
        1 => any::<usize>().prop_map(Step::Activate),
        4 => any::<usize>().prop_map(Step::HandOut),
        4 => (any::<usize>(), any::<[bool; 4]>()).prop_map(|(at, [bytes, deferred, delayed, late])| {
            Step::Return { at, bytes, deferred, delayed, late }
        }),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => any::<usize>().prop_map(Step::DeadLetter),
        1 => Just(Step::Reopen),
    ];
    vec(step, 1..60)
}

/// A message of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ModelMessage {
    number: u64,
    dead: bool,
    bytes: Vec<u8>,
    delivery_count: u32,
    generation: u32,
    phase: StoredPhase,
    out: bool,
}

#[derive(Default)]
struct Model {
    messages: Vec<ModelMessage>,
    last: u64,
    entry: Vec<u8>,
    tag: u8,
}

impl Model {
    fn journal(&mut self, event: &JournalEvent<'_>) {
        event.encode(ENTITY, &mut self.entry);
    }

    fn bytes(&mut self) -> Vec<u8> {
        self.tag = self.tag.wrapping_add(1);
        vec![self.tag; 3]
    }

    fn arrive(&mut self, phase: StoredPhase) -> (u64, Vec<u8>) {
        self.last += 1;
        let mut bytes = self.bytes();
        bytes.extend([!self.tag; BODY]);
        self.messages.push(ModelMessage {
            number: self.last,
            dead: false,
            bytes: bytes.clone(),
            delivery_count: 0,
            generation: 0,
            phase,
            out: false,
        });
        (self.last, bytes)
    }

    fn pick(&mut self, at: usize, fits: impl Fn(&ModelMessage) -> bool) -> Option<usize> {
        let found: Vec<usize> = (0..self.messages.len())
            .filter(|index| fits(&self.messages[*index]))
            .collect();
        (!found.is_empty()).then(|| found[at % found.len()])
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Append(count) => {
                let arrived: Vec<_> = (0..count).map(|_| self.arrive(StoredPhase::Ready)).collect();
                let messages = arrived
                    .iter()
                    .map(|(_, bytes)| AppendedMessage {
                        expires_at: Timestamp::NEVER,
                        bytes,
                    })
                    .collect();
                self.journal(&JournalEvent::Append {
                    first: Counter(arrived[0].0),
                    enqueued_at: Timestamp(5),
                    messages,
                });
            }
            Step::Schedule => {
                let (number, bytes) = self.arrive(StoredPhase::Scheduled { due: Timestamp(9) });
                self.journal(&JournalEvent::Schedule {
                    counter: Counter(number),
                    due: Timestamp(9),
                    enqueued_at: Timestamp(5),
                    expires_at: Timestamp::NEVER,
                    bytes: &bytes,
                });
            }
            Step::Activate(at) => {
                let Some(index) = self.pick(at, |it| matches!(it.phase, StoredPhase::Scheduled { .. })) else {
                    return;
                };
                self.last += 1;
                let new_counter = self.last;
                let message = &mut self.messages[index];
                let counter = Counter(std::mem::replace(&mut message.number, new_counter));
                message.phase = StoredPhase::Ready;
                let bytes = message.bytes.clone();
                self.journal(&JournalEvent::Activate {
                    counter,
                    new_counter: Counter(new_counter),
                    enqueued_at: Timestamp(9),
                    expires_at: Timestamp::NEVER,
                    bytes: &bytes,
                });
            }
            Step::HandOut(at) => {
                let Some(index) = self.pick(at, |it| !it.out && !matches!(it.phase, StoredPhase::Scheduled { .. }))
                else {
                    return;
                };
                let event = self.hand_out(index);
                self.journal(&event);
            }
            Step::Return {
                at,
                bytes,
                deferred,
                delayed,
                late,
            } => self.return_message(at, bytes, (deferred, delayed), late),
            Step::Remove(at) => {
                let Some(index) = self.pick(at, |_| true) else { return };
                let message = self.messages.remove(index);
                self.journal(&JournalEvent::Remove {
                    sub_queue: message.sub_queue(),
                    counters: Ranges::from_iter([Counter(message.number)]),
                });
            }
            Step::DeadLetter(at) => {
                let Some(index) = self.pick(at, |it| it.out && !it.dead) else {
                    return;
                };
                let bytes = self.bytes();
                let message = &mut self.messages[index];
                message.dead = true;
                message.out = false;
                message.generation = 0;
                message.phase = StoredPhase::Ready;
                message.bytes.splice(..3, bytes.clone());
                let (counter, delivery_count) = (Counter(message.number), message.delivery_count);
                self.journal(&JournalEvent::DeadLetter {
                    counter,
                    enqueued_at: Timestamp(5),
                    expires_at: Timestamp::NEVER,
                    delivery_count,
                    record: edited(&bytes),
                });
            }
            Step::Reopen => {}
        }
    }

    fn return_message(&mut self, at: usize, bytes: bool, (deferred, delayed): (bool, bool), late: bool) {
        let Some(index) = self.pick(at, |it| it.out) else {
            return;
        };
        let new = bytes.then(|| self.bytes());
        let message = &mut self.messages[index];
        message.out = false;
        let deferred = deferred && !message.dead;
        let until = Timestamp(100 + u64::from(message.generation));
        let phase = match (deferred, delayed) {
            (deferred, true) => StoredPhase::Delayed { until, deferred },
            (true, false) => StoredPhase::Deferred,
            (false, false) => StoredPhase::Ready,
        };
        message.phase = phase;
        if let Some(new) = &new {
            message.bytes.splice(..3, new.clone());
        }
        let (sub_queue, number) = (message.sub_queue(), message.number);
        let (generation, delivery_count) = (message.generation, message.delivery_count);
        let early = late.then(|| self.hand_out(index));
        if let Some(event) = early {
            self.journal(&event);
        }
        self.journal(&JournalEvent::Return {
            sub_queue,
            counter: Counter(number),
            generation,
            delivery_count,
            phase,
            record: new.as_deref().map(edited),
        });
    }

    fn hand_out(&mut self, index: usize) -> JournalEvent<'static> {
        let message = &mut self.messages[index];
        message.out = true;
        message.generation += 1;
        message.delivery_count += 1;
        // A delay has ended by then.
        let deferred = matches!(
            message.phase,
            StoredPhase::Deferred | StoredPhase::Delayed { deferred: true, .. }
        );
        message.phase = if deferred {
            StoredPhase::Fetched
        } else {
            StoredPhase::Ready
        };
        JournalEvent::HandOut {
            sub_queue: message.sub_queue(),
            messages: vec![DeliveryRecord {
                counter: Counter(message.number),
                generation: message.generation,
                count_after: message.delivery_count,
                deferred,
            }],
        }
    }
}

impl ModelMessage {
    fn sub_queue(&self) -> SubQueue {
        if self.dead {
            SubQueue::DeadLetter
        } else {
            SubQueue::Main
        }
    }
}

fn check(state: &ShardState, model: &Model) {
    let queues = state
        .entities()
        .next()
        .map(|(_, queues)| queues.clone())
        .unwrap_or_default();
    assert_eq!(queues.main.len() + queues.dead_letters.len(), model.messages.len());
    assert_eq!(queues.next, Counter(model.last + 1));
    for message in &model.messages {
        let there = if message.dead {
            &queues.dead_letters
        } else {
            &queues.main
        };
        let kept = there.get(Counter(message.number)).expect("a message");
        assert_eq!(kept.record.in_memory().expect("in memory")[..], message.bytes[..]);
        assert_eq!(
            (kept.delivery_count, kept.generation),
            (message.delivery_count, message.generation)
        );
        assert_eq!(kept.phase, message.phase);
    }
}

/// The entries of all steps, in order.
fn entries_of(steps: &[Step]) -> (Model, Vec<Vec<u8>>) {
    let mut model = Model::default();
    let entries = steps
        .iter()
        .map(|step| {
            model.take(step);
            std::mem::take(&mut model.entry)
        })
        .collect();
    (model, entries)
}

fn apply_all(state: &mut ShardState, entries: &[Vec<u8>]) {
    for found in entries.iter().flat_map(|entry| EventReader::of(entry)) {
        let (entity, event) = found.expect("we wrote it");
        state.apply(entity, &event).expect("a valid event");
    }
}

proptest! {
    /// A snapshot is written while threads continue, so it may contain the effects of later events on some messages.
    #[test]
    fn events_that_a_snapshot_contains_change_nothing(steps in steps(), begin: usize, contains: u64) {
        let (model, entries) = entries_of(&steps);
        let begin = begin % (entries.len() + 1);
        let (mut early, mut late) = (ShardState::default(), ShardState::default());
        apply_all(&mut early, &entries[..begin]);
        apply_all(&mut late, &entries);
        let mut snapshot = ShardState::default();
        // The snapshot takes each number either from the early state or from the late one. The walk sees a moved
        // message in one or both places, never in none.
        for (state, wanted) in [(&early, 0), (&late, 1)] {
            for chunk in state.chunks(1) {
                for found in EventReader::of(&chunk.expect("in memory").bytes) {
                    let (entity, event) = found.expect("we wrote it");
                    let JournalEvent::Keep { counter, .. } = &event else { continue };
                    if contains >> (counter.0 % 64) & 1 == wanted {
                        snapshot.apply(entity, &event).expect("a valid event");
                    }
                }
            }
        }
        apply_all(&mut snapshot, &entries[begin..]);
        snapshot
            .apply(ENTITY, &JournalEvent::Number { next: Counter(model.last + 1) })
            .expect("a valid event");
        check(&snapshot, &model);
    }

    /// Recovery finds the same state after a fold, even if the folded entries are still present.
    #[test]
    fn a_fold_has_the_effect_of_its_entries(steps in steps(), begin: usize) {
        let (model, entries) = entries_of(&steps);
        let (before, folded) = entries.split_at(begin % (entries.len() + 1));
        let sum = fold(folded).expect("events");
        let again = fold(std::slice::from_ref(&sum)).expect("events");
        let next = JournalEvent::Number { next: Counter(model.last + 1) };
        for tail in [vec![sum.clone()], vec![again], [folded, std::slice::from_ref(&sum)].concat(), vec![sum.clone(), sum]] {
            let mut state = ShardState::default();
            apply_all(&mut state, before);
            apply_all(&mut state, &tail);
            state.apply(ENTITY, &next).expect("a valid event");
            check(&state, &model);
        }
    }

    #[test]
    fn the_state_is_that_of_the_model(steps in steps(), chunk_bytes in 1usize..200) {
        let (mut model, mut state) = (Model::default(), ShardState::default());
        for step in &steps {
            model.take(step);
            let entry = std::mem::take(&mut model.entry);
            for found in EventReader::of(&entry) {
                let (entity, event) = found.expect("we wrote it");
                state.apply(entity, &event).expect("a valid event");
            }
            if matches!(step, Step::Reopen) {
                let mut again = ShardState::default();
                for chunk in state.chunks(chunk_bytes) {
                    for found in EventReader::of(&chunk.expect("in memory").bytes) {
                        let (entity, event) = found.expect("we wrote it");
                        again.apply(entity, &event).expect("a valid event");
                    }
                }
                prop_assert_eq!(&again, &state);
                state = again;
            }
            check(&state, &model);
        }
    }
}

#[test]
fn identities_have_their_latest_time() {
    let mut state = ShardState::default();
    let seen = |at: u64, numbers: std::ops::Range<u128>| JournalEvent::Seen {
        identities: numbers.map(|number| (Timestamp(at), Identity(number))).collect(),
    };
    for event in [seen(5, 0..10_000), seen(9, 5..6), seen(5, 0..10)] {
        state.apply(ENTITY, &event).expect("a valid event");
    }
    let mut again = ShardState::default();
    for chunk in state.chunks(100) {
        for found in EventReader::of(&chunk.expect("in memory").bytes) {
            let (entity, event) = found.expect("we wrote it");
            again.apply(entity, &event).expect("a valid event");
        }
    }
    assert_eq!(again, state);
    let seen = again.take(ENTITY).expect("there").seen;
    assert_eq!(seen.len(), 10_000);
    assert_eq!((seen[&Identity(5)], seen[&Identity(6)]), (Timestamp(9), Timestamp(5)));
}

#[test]
fn the_latest_session_state_counts() {
    let mut state = ShardState::default();
    let set = |id, at, state| JournalEvent::SessionState {
        id,
        set_at: Timestamp(at),
        state,
    };
    let events = [
        set("a", 1, Some(&b"first"[..])),
        set("b", 2, Some(b"gone")),
        set("", 3, Some(b"")),
        set("a", 4, Some(b"last")),
        set("b", 5, None),
    ];
    // A snapshot may contain later events, so every event may be applied twice.
    for event in events.iter().chain(&events) {
        state.apply(ENTITY, event).expect("a valid event");
    }
    let mut again = ShardState::default();
    for chunk in state.chunks(1) {
        for found in EventReader::of(&chunk.expect("in memory").bytes) {
            let (entity, event) = found.expect("we wrote it");
            again.apply(entity, &event).expect("a valid event");
        }
    }
    assert_eq!(again, state);
    let states = again.take(ENTITY).expect("there").states;
    let expected = [("", (Timestamp(3), &b""[..])), ("a", (Timestamp(4), b"last"))];
    assert_eq!(states.len(), expected.len());
    for (id, (set_at, state)) in expected {
        assert_eq!(states[id], (set_at, state.to_vec()));
    }
}

#[test]
fn an_impossible_number_is_an_error() {
    let mut state = ShardState::default();
    for first in [0, 1 << 48] {
        let append = JournalEvent::Append {
            first: Counter(first),
            enqueued_at: Timestamp(1),
            messages: vec![AppendedMessage {
                expires_at: Timestamp::NEVER,
                bytes: b"x",
            }],
        };
        let invalid_event = state.apply(ENTITY, &append).expect_err("no such number");
        assert_eq!((invalid_event.entity, invalid_event.counter), (ENTITY, Counter(first)));
    }
    state.retain(|entity| entity != ENTITY);
    assert_eq!(state.entities().count(), 0);
}

#[test]
fn a_fold_of_a_drained_queue_is_short() {
    let mut entries = Vec::new();
    for number in 1..=10_000u64 {
        let mut entry = Vec::new();
        let (counter, sub_queue) = (Counter(number), SubQueue::Main);
        let handed_out = DeliveryRecord {
            counter,
            generation: 1,
            count_after: 1,
            deferred: false,
        };
        let messages = vec![handed_out];
        JournalEvent::HandOut { sub_queue, messages }.encode(ENTITY, &mut entry);
        if number != 5_000 {
            let counters = Ranges::from_iter([counter]);
            JournalEvent::Remove { sub_queue, counters }.encode(ENTITY, &mut entry);
        }
        entries.push(entry);
    }
    let sum = fold(&entries).expect("events");
    assert!(sum.len() < 40, "{} bytes", sum.len());
    assert_eq!(EventReader::of(&sum).count(), 2);
}

#[test]
fn a_change_that_exceeds_the_record_is_an_error() {
    let mut state = ShardState::default();
    let append = JournalEvent::Append {
        first: Counter(1),
        enqueued_at: Timestamp(1),
        messages: vec![AppendedMessage {
            expires_at: Timestamp::NEVER,
            bytes: b"four",
        }],
    };
    state.apply(ENTITY, &append).expect("a valid event");
    let dead = JournalEvent::DeadLetter {
        counter: Counter(1),
        enqueued_at: Timestamp(1),
        expires_at: Timestamp::NEVER,
        delivery_count: 1,
        record: RecordChange::Edited {
            front: [0; 3],
            keep: 1,
            middle: b"x",
            tail: 1,
        },
    };
    assert!(state.apply(ENTITY, &dead).is_err());
}
