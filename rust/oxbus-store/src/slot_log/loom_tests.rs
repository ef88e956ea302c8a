// SPDX-License-Identifier: Apache-2.0
//! Model checks of the races between threads: every interleaving, up to a bound on preemptions.
//!
//! Segments have two slots here. The comment of a test names the step without which it fails.

use oxbus_model::{Counter, Ticks, Timestamp};

use super::SlotLog;
use crate::sync::Arc;
use crate::{
    ClaimMode, ClaimedMessage, LockKey, MessageStore, NewMessage, Outcome, Record, SettleResult, StoredRecord,
};

const NOW: Timestamp = Timestamp(1);
const LOCK: ClaimMode = ClaimMode::Lock { deadline: Ticks(10) };

/// Runs `test` under every interleaving; `LOOM_MAX_PREEMPTIONS` overrides the bound.
pub(crate) fn check(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 20_000;
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(2);
    }
    builder.check(test);
}

fn message(id: u8) -> NewMessage {
    NewMessage {
        record: Record::from_slice(&[id]).into(),
        expires_at: Timestamp::NEVER,
    }
}

fn log_of(messages: u8) -> Arc<SlotLog> {
    let log = SlotLog::new();
    for id in 1..=messages {
        log.append_one(message(id), NOW);
    }
    Arc::new(log)
}

fn claim(log: &SlotLog, max: usize, mode: ClaimMode) -> Vec<ClaimedMessage> {
    let (mut out, mut expired) = (Vec::new(), Vec::new());
    log.claim(max, mode, NOW, &mut out, &mut expired);
    assert!(expired.is_empty());
    out
}

fn numbers(claimed: &[ClaimedMessage]) -> Vec<u64> {
    claimed.iter().map(|claimed| claimed.key.counter.0).collect()
}

fn abandon(log: &SlotLog, key: LockKey, replacement: Option<Record>) {
    let outcome = Outcome::Abandon {
        max_delivery_count: 9,
        replacement: replacement.map(StoredRecord::from),
    };
    assert!(matches!(log.settle(key, outcome, Ticks(1)), Ok(SettleResult::Ready)));
}

/// Fails if lowering the hint keeps its version: the claim raises the hint past a bit that was set after its scan.
#[test]
fn claim_does_not_skip_an_abandoned_message() {
    check(|| {
        let log = log_of(2);
        let locked = claim(&log, 1, LOCK);
        let other = loom::thread::spawn({
            let log = Arc::clone(&log);
            let key = locked[0].key;
            move || abandon(&log, key, None)
        });
        let mut all = numbers(&claim(&log, 2, LOCK));
        other.join().expect("no panic");
        all.extend(numbers(&claim(&log, 2, LOCK)));
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

/// Fails if a slot's state is stored before its ready bit: the slot becomes visible without a bit, and no claim reads
/// it.
#[test]
fn abandon_and_two_publishers_lose_nothing() {
    check(|| {
        let log = log_of(1);
        let locked = claim(&log, 1, LOCK);
        let publish = |id| {
            let log = Arc::clone(&log);
            loom::thread::spawn(move || log.append_one(message(id), NOW))
        };
        let (second, third) = (publish(2), publish(3));
        let mut all = numbers(&claim(&log, 3, LOCK));
        abandon(&log, locked[0].key, None);
        let mut appended = [second.join().expect("no panic").0, third.join().expect("no panic").0];
        appended.sort_unstable();
        assert_eq!(appended, [2, 3]);
        all.extend(numbers(&claim(&log, 3, LOCK)));
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
    });
}

/// Fails without the fence between a publisher's states and its second read of `visible`.
#[test]
fn closing_a_gap_makes_both_messages_visible() {
    check(|| {
        let log = log_of(0);
        let other = loom::thread::spawn({
            let log = Arc::clone(&log);
            move || log.append_one(message(2), NOW)
        });
        log.append_one(message(1), NOW);
        other.join().expect("no panic");
        assert_eq!(numbers(&claim(&log, 2, LOCK)), [1, 2]);
    });
}

/// A claim during the gap does not see the later message on its own, and the next claims find both.
#[test]
fn claim_stops_at_the_gap() {
    check(|| {
        let log = log_of(0);
        let publish = |id| {
            let log = Arc::clone(&log);
            loom::thread::spawn(move || log.append_one(message(id), NOW))
        };
        let (first, second) = (publish(1), publish(2));
        let mut all = numbers(&claim(&log, 2, LOCK));
        first.join().expect("no panic");
        second.join().expect("no panic");
        all.extend(numbers(&claim(&log, 2, LOCK)));
        assert_eq!(all, [1, 2]);
    });
}

/// Exactly one of a complete and an expiry ends the lock, whether or not a renewal succeeds.
#[test]
fn only_one_of_complete_and_expiry_ends_a_renewed_lock() {
    check(|| {
        let log = log_of(1);
        let key = claim(&log, 1, LOCK)[0].key;
        let complete = loom::thread::spawn({
            let log = Arc::clone(&log);
            move || log.settle(key, Outcome::Complete, Ticks(9)).is_ok()
        });
        let expire = loom::thread::spawn({
            let log = Arc::clone(&log);
            move || log.expire(Ticks(10), 9, &mut Vec::new())
        });
        let renewed = log.renew(key, Ticks(20), Ticks(9)).is_ok();
        let completed = complete.join().expect("no panic");
        let expired = expire.join().expect("no panic") == 1;
        assert!(!(completed && expired));
        let counts = log.counts();
        match (completed, expired) {
            (true, _) => assert_eq!(counts.ready + counts.locked, 0),
            (_, true) => assert_eq!((counts.ready, counts.locked), (1, 0)),
            (false, false) => unreachable!("a complete fails only when the expiry succeeds"),
        }
        if !completed && !renewed {
            assert!(expired);
        }
        assert_eq!(claim(&log, 1, LOCK).len(), usize::from(expired));
    });
}

/// Either the old key completes the message, or the new key does.
#[test]
fn only_one_of_complete_and_rekey_succeeds() {
    check(|| {
        let log = log_of(1);
        let key = claim(&log, 1, LOCK)[0].key;
        let complete = loom::thread::spawn({
            let log = Arc::clone(&log);
            move || log.settle(key, Outcome::Complete, Ticks(9)).is_ok()
        });
        let new_key = key.next();
        let rekeyed = log.rekey(key, new_key.generation, Ticks::NEVER, Ticks(9)).is_ok();
        let completed = complete.join().expect("no panic");
        assert_ne!(completed, rekeyed);
        assert_eq!(log.settle(new_key, Outcome::Complete, Ticks(9)).is_ok(), rekeyed);
    });
}

/// Fails without the fence between a claim's slots and its reads of the earliest deadlines.
#[test]
fn sweep_does_not_miss_a_concurrent_lock() {
    check(|| {
        let log = log_of(2);
        claim(&log, 1, LOCK);
        let other = loom::thread::spawn({
            let log = Arc::clone(&log);
            move || log.expire(Ticks(10), 9, &mut Vec::new())
        });
        let later = claim(&log, 1, ClaimMode::Lock { deadline: Ticks(15) });
        other.join().expect("no panic");
        assert_eq!(later.len(), 1);
        assert!(log.next_expiry() <= Ticks(15));
        log.expire(Ticks(15), 9, &mut Vec::new());
        assert_eq!(log.counts().locked, 0);
    });
}

/// Fails if a remover does not check for browsers, or checks before it changes the slot.
#[test]
fn browser_never_reads_a_freed_body() {
    check(|| {
        let log = log_of(1);
        let key = claim(&log, 1, LOCK)[0].key;
        let other = loom::thread::spawn({
            let log = Arc::clone(&log);
            move || {
                let mut peeked = Vec::new();
                log.peek(Counter(1), 1, &mut peeked);
                assert!(
                    peeked
                        .iter()
                        .all(|peeked| peeked.record.in_memory().expect("in memory")[..] == [1])
                );
            }
        });
        assert!(log.settle(key, Outcome::Complete, Ticks(1)).is_ok());
        other.join().expect("no panic");
    });
}

/// A browser reads while a body is replaced, or taken with plain stores.
#[test]
fn browser_never_reads_a_replaced_or_taken_body() {
    check(|| {
        let log = log_of(1);
        let key = claim(&log, 1, LOCK)[0].key;
        let other = loom::thread::spawn({
            let log = Arc::clone(&log);
            move || {
                let mut peeked = Vec::new();
                log.peek(Counter(1), 1, &mut peeked);
                assert!(
                    peeked
                        .iter()
                        .all(|peeked| matches!(peeked.record.in_memory().expect("in memory")[..], [1 | 2]))
                );
            }
        });
        abandon(&log, key, Some(Record::from_slice(&[2])));
        drop(claim(&log, 1, ClaimMode::Take));
        other.join().expect("no panic");
    });
}

/// Of two fetches of the same deferred messages, one gets both messages, or neither gets any.
#[test]
fn deferred_messages_are_fetched_all_or_none() {
    check(|| {
        let log = log_of(2);
        for claimed in claim(&log, 2, LOCK) {
            let deferred = log.settle(claimed.key, Outcome::Defer { replacement: None }, Ticks(1));
            assert!(matches!(deferred, Ok(SettleResult::Deferred)));
        }
        let fetch = |counters: [Counter; 2]| {
            let log = Arc::clone(&log);
            move || {
                let mut out = Vec::new();
                let fetched = log.lock_deferred(&counters, LOCK, NOW, &mut out).is_ok();
                assert_eq!(out.len(), if fetched { 2 } else { 0 });
                fetched
            }
        };
        let other = loom::thread::spawn(fetch([Counter(2), Counter(1)]));
        let mine = fetch([Counter(1), Counter(2)])();
        let theirs = other.join().expect("no panic");
        assert!(!(mine && theirs));
        let mut peeked = Vec::new();
        log.peek(Counter(1), 2, &mut peeked);
        let counted = u32::from(mine || theirs);
        assert!(peeked.iter().all(|peeked| peeked.delivery_count == counted));
    });
}
