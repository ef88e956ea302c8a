// SPDX-License-Identifier: Apache-2.0
//! Tests of the slot log alone: segments, overflow, and counts wider than a slot's low bits.

use oxbus_model::{Counter, Ticks, Timestamp};

use super::SlotLog;
use super::segment::{SlotSegment, locate, span};
use super::slot::Slot;
use crate::{ClaimMode, ClaimedMessage, LockKey, LockLost, MessageStore, NewMessage, Outcome, Record, SettleResult};

const NOW: Timestamp = Timestamp(1_000);
const LOCK: ClaimMode = ClaimMode::Lock {
    deadline: Ticks(60_000),
};

fn message(id: u64) -> NewMessage {
    NewMessage {
        record: Record::from_slice(&id.to_le_bytes()).into(),
        expires_at: Timestamp::NEVER,
    }
}

fn log_of(messages: u64) -> SlotLog {
    let log = SlotLog::new();
    let mut batch: Vec<_> = (1..=messages).map(message).collect();
    assert_eq!(log.append(&mut batch, NOW), Counter::FIRST);
    log
}

fn claim(log: &SlotLog, max: usize, mode: ClaimMode) -> Vec<ClaimedMessage> {
    let mut out = Vec::new();
    log.claim(max, mode, NOW, &mut out, &mut Vec::new());
    out
}

fn keys(claimed: &[ClaimedMessage]) -> Vec<LockKey> {
    claimed.iter().map(|claimed| claimed.key).collect()
}

#[test]
fn slot_has_four_words_and_position_follows_from_index() {
    assert_eq!(size_of::<Slot>(), 32);
    let mut next = 0;
    for number in 0..9 {
        let (first, len) = span(number);
        assert_eq!(first, next);
        for offset in 0..len {
            assert_eq!(locate(first + offset), (number, offset as usize));
        }
        next += len;
    }
}

#[test]
fn unused_log_needs_no_memory() {
    let log = SlotLog::new();
    assert_eq!(log.overhead_bytes(), 0);
    log.append_one(message(1), NOW);
    assert!(log.overhead_bytes() < 1_024, "{}", log.overhead_bytes());
}

#[test]
fn segments_are_freed_when_their_messages_are_gone() {
    let log = log_of(3_000);
    let full = log.overhead_bytes();
    assert!(full <= 3_000 * 40 + 2 * size_of::<SlotSegment>(), "{full}");
    let claimed = claim(&log, 3_000, LOCK);
    let mut lost = Vec::new();
    log.complete(&keys(&claimed), Ticks(1), &mut lost);
    assert!(lost.is_empty());
    assert!(log.overhead_bytes() < 10_000, "{}", log.overhead_bytes());
    log.complete(&keys(&claimed), Ticks(1), &mut lost);
    assert_eq!(lost.len(), 3_000);
}

#[test]
fn few_deferred_and_scheduled_messages_move_to_the_overflow_map() {
    let log = log_of(2_000);
    let scheduled = log.append_scheduled(message(2_001), NOW);
    let mut rest: Vec<_> = (2_002..=4_000).map(message).collect();
    log.append(&mut rest, NOW);
    let claimed = claim(&log, 4_000, LOCK);
    let (deferred, others): (Vec<_>, Vec<_>) = claimed
        .into_iter()
        .partition(|claimed| claimed.key.counter.0 % 100 == 0);
    for claimed in &deferred {
        let settled = log.settle(claimed.key, Outcome::Defer { replacement: None }, Ticks(1));
        assert!(matches!(settled, Ok(SettleResult::Deferred)));
    }
    log.complete(&keys(&others), Ticks(1), &mut Vec::new());
    assert!(log.overhead_bytes() < 20_000, "{}", log.overhead_bytes());

    let mut peeked = Vec::new();
    log.peek(Counter::FIRST, usize::MAX, &mut peeked);
    assert_eq!(peeked.len(), 41);
    assert!(peeked.is_sorted_by_key(|peeked| peeked.counter));
    assert!(
        peeked
            .iter()
            .all(|peeked| peeked.record.in_memory().expect("in memory")[..] == peeked.counter.0.to_le_bytes())
    );

    let stale = deferred[0].key;
    assert!(
        matches!(log.settle(stale, Outcome::Complete, Ticks(1)), Err(LockLost)),
        "the first lock is over"
    );
    let mut out = Vec::new();
    let deadline = Ticks(500);
    let fetched = log.lock_deferred(
        &[Counter(100), Counter(4_000)],
        ClaimMode::Lock { deadline },
        NOW,
        &mut out,
    );
    assert_eq!(fetched, Ok(()));
    assert_eq!((out[0].delivery_count, out[0].deferred), (1, true));
    assert_eq!(log.next_expiry(), deadline);
    assert!(log.renew(out[1].key, Ticks(900), Ticks(1)).is_ok());
    assert_eq!(
        log.expire(Ticks(500), 9, &mut Vec::new()),
        0,
        "a deferred message stays deferred"
    );
    assert!(!log.is_claimed_by(out[0].key, Ticks(500)));
    assert!(log.is_claimed_by(out[1].key, Ticks(500)));
    assert!(matches!(
        log.settle(out[1].key, Outcome::Complete, Ticks(500)),
        Ok(SettleResult::Completed)
    ));
    assert_eq!(
        log.take_scheduled(scheduled).expect("still scheduled").counter,
        scheduled
    );
    assert!(log.take_scheduled(scheduled).is_none());
    assert_eq!(log.counts().deferred, 39);
}

#[test]
fn fetch_from_slots_and_overflow_map_takes_all() {
    let log = log_of(400);
    let claimed = claim(&log, 400, LOCK);
    let (deferred, others): (Vec<_>, Vec<_>) = claimed
        .into_iter()
        .partition(|claimed| matches!(claimed.key.counter.0, 100 | 200 | 390..));
    for claimed in &deferred {
        let settled = log.settle(claimed.key, Outcome::Defer { replacement: None }, Ticks(1));
        assert!(matches!(settled, Ok(SettleResult::Deferred)));
    }
    log.complete(&keys(&others), Ticks(1), &mut Vec::new());
    let mut out = Vec::new();
    let error = log.lock_deferred(
        &[Counter(100), Counter(395), Counter(5)],
        ClaimMode::Take,
        NOW,
        &mut out,
    );
    assert_eq!(error, Err(Counter(5)));
    let all: Vec<_> = deferred.iter().map(|claimed| claimed.key.counter).collect();
    assert_eq!(log.lock_deferred(&all, ClaimMode::Take, NOW, &mut out), Ok(()));
    assert!(
        out.iter()
            .zip(&all)
            .all(|(claimed, counter)| claimed.record.in_memory().expect("in memory")[..] == counter.0.to_le_bytes())
    );
    assert_eq!(log.counts(), crate::PhaseCounts::default());
}

#[test]
fn delivery_count_exceeds_the_low_bits() {
    let log = log_of(1);
    for earlier in 0..9_000 {
        let claimed = claim(&log, 1, LOCK);
        assert_eq!(claimed[0].delivery_count, earlier);
        let settled = if earlier % 2 == 0 {
            log.expire(Ticks(60_000), u32::MAX, &mut Vec::new()) == 1
        } else {
            let abandon = Outcome::Abandon {
                max_delivery_count: u32::MAX,
                replacement: None,
            };
            matches!(log.settle(claimed[0].key, abandon, Ticks(1)), Ok(SettleResult::Ready))
        };
        assert!(settled);
    }
    let claimed = claim(&log, 1, LOCK);
    let abandon = Outcome::Abandon {
        max_delivery_count: 9_001,
        replacement: None,
    };
    let Ok(SettleResult::Exhausted(removed)) = log.settle(claimed[0].key, abandon, Ticks(1)) else {
        panic!("the delivery count reached the maximum")
    };
    assert_eq!(removed.delivery_count, 9_001);
    assert_eq!(removed.enqueued_at, NOW);
}

#[test]
fn delivery_count_of_deferred_message_exceeds_the_low_bits() {
    let log = log_of(1);
    let key = claim(&log, 1, LOCK)[0].key;
    assert!(matches!(
        log.settle(key, Outcome::Defer { replacement: None }, Ticks(1)),
        Ok(SettleResult::Deferred)
    ));
    for fetch in 1..=9_000 {
        let mut out = Vec::new();
        log.lock_deferred(&[Counter(1)], LOCK, NOW, &mut out).expect("deferred");
        assert_eq!(out[0].delivery_count, fetch);
        assert!(matches!(
            log.settle(out[0].key, Outcome::Release, Ticks(1)),
            Ok(SettleResult::Deferred)
        ));
    }
}

#[test]
fn bodies_are_freed_with_the_log() {
    let shared = Record::from_slice(b"shared");
    let log = SlotLog::new();
    for _ in 0..400 {
        log.append_one(
            NewMessage {
                record: shared.clone().into(),
                expires_at: Timestamp::NEVER,
            },
            NOW,
        );
    }
    let claimed = claim(&log, 100, LOCK);
    log.complete(&keys(&claimed[..50]), Ticks(1), &mut Vec::new());
    drop(claimed);
    drop(log);
    // The address sanitizer reports a body that is freed twice or never.
    assert_eq!(&shared[..], b"shared");
}

#[test]
fn unknown_keys_are_lost() {
    let log = log_of(20);
    for counter in [0, 1, 20, 21, 17, 5_000, u64::MAX] {
        let key = LockKey {
            counter: Counter(counter),
            generation: 1,
        };
        assert!(matches!(log.settle(key, Outcome::Complete, Ticks(1)), Err(LockLost)));
        assert!(log.renew(key, Ticks(9), Ticks(1)).is_err());
        assert!(!log.is_claimed_by(key, Ticks(1)));
        assert_eq!(log.deliver_cached(key, LOCK), None);
        assert_eq!(log.release_cached(&[key]), 0);
        let mut lost = Vec::new();
        log.complete(&[key], Ticks(1), &mut lost);
        assert_eq!(lost, [0]);
        assert!(log.take_scheduled(Counter(counter)).is_none());
    }
}

#[test]
fn record_head_is_zero_until_filled_and_tail_is_copied() {
    for head_len in 0..70 {
        for tail_len in 0..70 {
            let tail: Vec<u8> = (1..=tail_len).collect();
            let fill = |head: &mut [u8]| {
                assert_eq!(head, vec![0; head_len]);
                head.fill(255);
            };
            let record = Record::with_tail(head_len, fill, &tail);
            assert_eq!(record.len(), head_len + tail.len());
            assert_eq!(record[..head_len], vec![255; head_len]);
            assert_eq!(record[head_len..], tail);
        }
    }
}
