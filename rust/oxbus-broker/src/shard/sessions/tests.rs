// SPDX-License-Identifier: Apache-2.0
//! The session index against a simple model, and its edge cases.

use std::collections::{BTreeMap, VecDeque};

use oxbus_model::{Counter, Timestamp};
use oxbus_store::Record;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const LOCK: u64 = 100;
const NEVER: Timestamp = Timestamp(u64::MAX);

fn message(counter: u64, expires_at: Timestamp) -> ClaimedMessage {
    ClaimedMessage {
        key: LockKey {
            counter: Counter(counter),
            generation: 1,
        },
        record: Record::from_slice(b"x").into(),
        delivery_count: 0,
        enqueued_at: Timestamp(counter),
        expires_at,
        deadline: Ticks::NEVER,
        deferred: false,
    }
}

fn insert(index: &mut SessionIndex, id: &str, counter: u64) -> usize {
    let mut wake_ups = SessionWakeUps::default();
    index.insert(id, message(counter, NEVER), &mut wake_ups);
    wake_ups.available
}

fn next(index: &mut SessionIndex) -> Option<Arc<AcceptedSession>> {
    index.accept_next(
        "",
        Ticks(LOCK),
        Timestamp(0),
        &mut SessionSearch::all(),
        &mut Vec::new(),
    )
}

fn pop(index: &mut SessionIndex, accepted: &Arc<AcceptedSession>, ticks: u64) -> Result<Option<u64>, SessionLost> {
    let mut expired = Vec::new();
    let popped = index.pop(accepted, Timestamp(0), Ticks(ticks), false, &mut expired)?;
    Ok(popped.map(|message| message.key.counter.0))
}

#[test]
fn the_longest_waiting_session_is_next() {
    let mut index = SessionIndex::default();
    assert_eq!(insert(&mut index, "a", 1), 1);
    assert_eq!(insert(&mut index, "b", 2), 1);
    assert_eq!(insert(&mut index, "a", 3), 0, "it is already available");
    let a = next(&mut index).expect("session a is available");
    assert_eq!(a.id(), "a");
    assert_eq!(pop(&mut index, &a, 0), Ok(Some(1)));
    index.end(&a, SessionEnd::Closed);
    assert!(index.finish_end(&a), "it has a message left");
    assert_eq!(next(&mut index).map(|it| it.id().to_owned()).as_deref(), Some("b"));
    assert_eq!(next(&mut index).map(|it| it.id().to_owned()).as_deref(), Some("a"));
    assert!(next(&mut index).is_none());
}

/// Regression: a session that was accepted by id and became empty stayed in `available` forever.
#[test]
fn accepting_by_id_leaves_no_trace() {
    let mut index = SessionIndex::default();
    for counter in 1..100 {
        insert(&mut index, "a", counter);
        let held = index.accept("a", "", Ticks(LOCK)).expect("the session is free");
        assert!(!index.has_available());
        assert_eq!(pop(&mut index, &held, 0), Ok(Some(counter)));
        index.end(&held, SessionEnd::Closed);
        assert!(!index.finish_end(&held));
    }
    assert!(!index.has_available());
    assert!(index.list().is_empty());
    assert_eq!(index.overhead_bytes(), 0);
}

#[test]
fn a_session_waits_for_a_delayed_message() {
    let mut index = SessionIndex::default();
    for counter in 1..=3 {
        insert(&mut index, "a", counter);
    }
    let held = next(&mut index).expect("session a is available");
    assert_eq!(pop(&mut index, &held, 0), Ok(Some(1)));
    assert_eq!(pop(&mut index, &held, 0), Ok(Some(2)));
    index.delay("a", Counter(2));
    assert_eq!(insert(&mut index, "a", 1), 0, "it has a holder");
    assert_eq!(
        pop(&mut index, &held, 0),
        Ok(Some(1)),
        "an earlier message does not wait"
    );
    assert_eq!(pop(&mut index, &held, 0), Ok(None));
    index.end(&held, SessionEnd::Closed);
    assert!(!index.finish_end(&held), "nothing can be received");
    assert!(!index.has_available());
    assert_eq!(index.list()[0].messages, 2, "one is delayed");
    // The delay ends: the message is back, or gone.
    assert_eq!(insert(&mut index, "a", 2), 1);
    index.delay("b", Counter(9));
    assert_eq!(index.list().len(), 2);
    for id in ["a", "b"] {
        let mut wake_ups = SessionWakeUps::default();
        index.end_delay(id, Counter(9), &mut wake_ups);
        assert_eq!(wake_ups.available, 0, "{id} was available, or is empty");
    }
    assert_eq!(index.list().len(), 1);
    let held = next(&mut index).expect("session a is available");
    assert_eq!(pop(&mut index, &held, 0), Ok(Some(2)));
    assert_eq!(pop(&mut index, &held, 0), Ok(Some(3)));
}

#[test]
fn a_delay_withdraws_an_available_session() {
    let mut index = SessionIndex::default();
    insert(&mut index, "a", 2);
    index.delay("a", Counter(1));
    assert!(!index.has_available());
    let mut wake_ups = SessionWakeUps::default();
    index.end_delay("a", Counter(1), &mut wake_ups);
    assert_eq!(wake_ups.available, 1);
    assert!(next(&mut index).is_some());
}

#[test]
fn a_session_cannot_be_accepted_while_its_messages_are_returned() {
    let mut index = SessionIndex::default();
    insert(&mut index, "a", 1);
    let held = next(&mut index).expect("session a is available");
    index.end(&held, SessionEnd::Closed);
    assert!(index.accept("a", "", Ticks(LOCK)).is_none());
    assert_eq!(insert(&mut index, "a", 2), 0);
    assert!(!index.has_available());
    assert!(index.finish_end(&held));
    assert!(index.end(&held, SessionEnd::Closed).is_none(), "only once");
}

#[test]
fn a_pinned_session_cannot_be_accepted() {
    let mut index = SessionIndex::default();
    insert(&mut index, "a", 1);
    insert(&mut index, "a", 2);
    let held = next(&mut index).expect("session a is available");
    let mut expired = Vec::new();
    let popped = index.pop(&held, Timestamp(0), Ticks(0), false, &mut expired);
    let popped = popped.expect("it is held").expect("it has a message");
    assert_eq!(index.lock(&held, &popped, Ticks(0)), Ok(()));
    for _ in 0..2 {
        assert_eq!(index.pin(&held, Ticks(0)), Ok(()));
    }
    assert!(index.end(&held, SessionEnd::Expired).is_none(), "later");
    assert!(index.pin(&held, Ticks(0)).is_err());
    assert!(index.accept("a", "", Ticks(LOCK)).is_none());
    let state = SessionState {
        bytes: Arc::from(*b"kept"),
        set_at: Timestamp(0),
    };
    index.set_pinned_state(&held, Some(state));
    assert!(index.unpin(&held).is_none(), "there is another pin");
    let (end, keys) = index.unpin(&held).expect("it was the last pin");
    assert_eq!((end, keys), (SessionEnd::Expired, vec![popped.key]));
    assert!(!index.has_available());
    assert!(index.finish_end(&held));
    assert_eq!(index.states().len(), 1);
}

#[test]
fn an_expired_lock_holds_nothing() {
    let mut index = SessionIndex::default();
    let held = index.accept("a", "", Ticks(LOCK)).expect("the session is free");
    assert_eq!(index.renew(&held, Ticks(2 * LOCK), Ticks(LOCK - 1)), Ok(()));
    assert!(index.expired(Ticks(LOCK)).is_empty());
    assert_eq!(pop(&mut index, &held, LOCK), Ok(None));
    assert_eq!(index.next_deadline(), Ticks(2 * LOCK));
    assert_eq!(index.expired(Ticks(2 * LOCK)).len(), 1);
    assert_eq!(pop(&mut index, &held, 2 * LOCK), Err(SessionLost));
    assert_eq!(index.renew(&held, Ticks(3 * LOCK), Ticks(2 * LOCK)), Err(SessionLost));
    assert!(index.state(&held, Ticks(2 * LOCK)).is_err());
    index.end(&held, SessionEnd::Closed);
    index.finish_end(&held);
    assert_eq!(index.next_deadline(), Ticks::NEVER);
}

#[test]
fn messages_expire_alone_or_with_the_session() {
    for (whole, left) in [(false, vec![1, 3]), (true, vec![])] {
        let mut index = SessionIndex::default();
        for (counter, expires_at) in [(1, NEVER), (2, Timestamp(5)), (3, NEVER)] {
            index.insert("a", message(counter, expires_at), &mut SessionWakeUps::default());
        }
        let held = next(&mut index).expect("session a is available");
        let mut expired = Vec::new();
        let mut got = Vec::new();
        while let Ok(Some(message)) = index.pop(&held, Timestamp(5), Ticks(0), whole, &mut expired) {
            got.push(message.key.counter.0);
        }
        assert_eq!(got, left);
        assert_eq!(expired.len(), 3 - left.len());
    }
}

#[test]
fn a_session_of_expired_messages_is_not_accepted() {
    let mut index = SessionIndex::default();
    index.insert("a", message(1, Timestamp(5)), &mut SessionWakeUps::default());
    insert(&mut index, "b", 2);
    let mut expired = Vec::new();
    let held = index.accept_next("", Ticks(LOCK), Timestamp(5), &mut SessionSearch::all(), &mut expired);
    assert_eq!(held.map(|it| it.id().to_owned()).as_deref(), Some("b"));
    assert_eq!(expired.len(), 1);
    assert_eq!(index.list().len(), 1, "nothing is left of a");
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u8),
    Accept(u8),
    AcceptNext,
    Pop(u8),
    End(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..4u8).prop_map(Step::Insert),
        1 => (0..4u8).prop_map(Step::Accept),
        2 => Just(Step::AcceptNext),
        3 => (0..4u8).prop_map(Step::Pop),
        2 => (0..4u8).prop_map(Step::End),
    ];
    vec(step, 0..80)
}

proptest! {
    #[test]
    fn the_index_matches_the_model(steps in steps()) {
        let mut index = SessionIndex::default();
        let mut ready: BTreeMap<u8, VecDeque<u64>> = BTreeMap::new();
        let mut held: BTreeMap<u8, Arc<AcceptedSession>> = BTreeMap::new();
        let mut waiting: Vec<u8> = Vec::new();
        let name = |id: u8| id.to_string();
        for (counter, step) in (1..).zip(steps) {
            match step {
                Step::Insert(id) => {
                    let new = insert(&mut index, &name(id), counter);
                    ready.entry(id).or_default().push_back(counter);
                    let becomes_available = !held.contains_key(&id) && !waiting.contains(&id);
                    prop_assert_eq!(new, usize::from(becomes_available));
                    if becomes_available {
                        waiting.push(id);
                    }
                }
                Step::Accept(id) => {
                    let accepted = index.accept(&name(id), "", Ticks(LOCK));
                    prop_assert_eq!(accepted.is_some(), !held.contains_key(&id));
                    waiting.retain(|it| *it != id);
                    held.extend(accepted.map(|accepted| (id, accepted)));
                }
                Step::AcceptNext => {
                    let accepted = next(&mut index);
                    let expected = (!waiting.is_empty()).then(|| waiting.remove(0));
                    prop_assert_eq!(accepted.as_ref().map(|it| it.id().to_owned()), expected.map(name));
                    held.extend(expected.zip(accepted));
                }
                Step::Pop(id) => if let Some(accepted) = held.get(&id) {
                    let expected = ready.get_mut(&id).and_then(VecDeque::pop_front);
                    prop_assert_eq!(pop(&mut index, accepted, 0), Ok(expected));
                },
                Step::End(id) => if let Some(accepted) = held.remove(&id) {
                    index.end(&accepted, SessionEnd::Closed);
                    let has_more = ready.get(&id).is_some_and(|it| !it.is_empty());
                    prop_assert_eq!(index.finish_end(&accepted), has_more);
                    if has_more {
                        waiting.push(id);
                    }
                },
            }
            prop_assert_eq!(index.has_available(), !waiting.is_empty());
            let ready_or_held = ready.iter().filter(|(id, it)| !it.is_empty() || held.contains_key(id)).count();
            let empty_but_held = held.keys().filter(|id| !ready.contains_key(id)).count();
            prop_assert_eq!(index.list().len(), ready_or_held + empty_but_held);
        }
    }
}
