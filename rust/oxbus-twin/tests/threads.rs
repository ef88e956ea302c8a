// SPDX-License-Identifier: Apache-2.0
//! Senders, receivers, a lock sweeper and a browser on one store at the same time.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use oxbus_model::{Counter, Ticks, Timestamp};
use oxbus_store::{
    ClaimMode, LockKey, MessageStore, NewMessage, Outcome, Record, SettleResult, SlotLog, StoredRecord, WaitQueue,
};
use oxbus_twin::MutexLog;

const NOW: Timestamp = Timestamp(1_000);
const MESSAGES: u64 = 60_000;
const SENDERS: u64 = 2;
const RECEIVERS: usize = 3;

fn message(id: u64) -> NewMessage {
    NewMessage {
        record: Record::from_slice(&id.to_le_bytes()).into(),
        expires_at: Timestamp::NEVER,
    }
}

fn id_of(stored: &StoredRecord) -> u64 {
    let record = stored.in_memory().expect("in memory");
    u64::from_le_bytes(record[..].try_into().expect("eight bytes"))
}

fn send(store: &dyn MessageStore, queue: &WaitQueue, sender: u64) {
    let each = MESSAGES / SENDERS;
    let (mut next, end) = (sender * each, (sender + 1) * each);
    let mut batch = Vec::new();
    while next < end {
        let n = (next % 50 + 1).min(end - next);
        if n == 1 {
            store.append_one(message(next), NOW);
        } else {
            batch.extend((next..next + n).map(message));
            store.append(&mut batch, NOW);
        }
        next += n;
        queue.notify(n as usize);
    }
}

/// A small random generator, seeded per thread, that chooses a receiver's next action.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

struct Shared<'a> {
    store: &'a dyn MessageStore,
    queue: &'a WaitQueue,
    ticks: &'a AtomicU64,
    left: &'a AtomicUsize,
}

impl Shared<'_> {
    fn finish(&self, n: usize) {
        if self.left.fetch_sub(n, Ordering::SeqCst) == n {
            self.queue.notify_all();
        }
    }

    /// Claims until every message is completed. Returns the ids that this receiver completed.
    fn receive(&self, seed: u64) -> Vec<u64> {
        let mut dice = Dice(seed);
        let mut done = Vec::new();
        let (mut out, mut expired) = (Vec::new(), Vec::new());
        while self.left.load(Ordering::SeqCst) > 0 {
            let now = Ticks(self.ticks.load(Ordering::SeqCst));
            let cache = dice.roll(5) == 0;
            let hold = if cache {
                ClaimMode::Cache
            } else {
                ClaimMode::Lock {
                    deadline: now.plus_ms(1 + dice.roll(40)),
                }
            };
            let max = 1 + dice.roll(40) as usize;
            if self.store.claim(max, hold, NOW, &mut out, &mut expired) == 0 {
                let mut ticket = self.queue.register();
                if !self.store.has_ready() && self.left.load(Ordering::SeqCst) > 0 {
                    ticket.wait(Some(std::time::Duration::from_millis(5)));
                }
                continue;
            }
            assert!(
                out.is_sorted_by_key(|claimed| claimed.key.counter),
                "one claim is in order"
            );
            if cache {
                for claimed in &mut out {
                    let lock = ClaimMode::Lock {
                        deadline: now.plus_ms(30),
                    };
                    claimed.key = self
                        .store
                        .deliver_cached(claimed.key, lock)
                        .expect("only we know the key");
                }
            }
            self.settle(&mut out, &mut dice, &mut done);
        }
        done
    }

    fn settle(&self, out: &mut Vec<oxbus_store::ClaimedMessage>, dice: &mut Dice, done: &mut Vec<u64>) {
        if dice.roll(2) == 0 {
            let keys: Vec<LockKey> = out.iter().map(|claimed| claimed.key).collect();
            let ticks = Ticks(self.ticks.load(Ordering::SeqCst));
            let mut lost = Vec::new();
            self.store.complete(&keys, ticks, &mut lost);
            let before = done.len();
            for (index, claimed) in out.drain(..).enumerate() {
                if !lost.contains(&index) {
                    done.push(id_of(&claimed.record));
                }
            }
            self.finish(done.len() - before);
            return;
        }
        for claimed in out.drain(..) {
            let ticks = Ticks(self.ticks.load(Ordering::SeqCst));
            match dice.roll(20) {
                0..2 => drop(self.store.renew(claimed.key, ticks.plus_ms(50), ticks)),
                2 => continue,
                _ => {}
            }
            let outcome = match dice.roll(11) {
                0 => Outcome::Abandon {
                    max_delivery_count: u32::MAX,
                    replacement: Some(claimed.record.clone()),
                },
                1 => Outcome::Abandon {
                    max_delivery_count: u32::MAX,
                    replacement: None,
                },
                2 => Outcome::Release,
                3 => Outcome::Defer { replacement: None },
                4 => Outcome::Remove,
                5 => Outcome::Hold {
                    max_delivery_count: u32::MAX,
                    replacement: Some(claimed.record.clone()),
                },
                _ => Outcome::Complete,
            };
            match self.store.settle(claimed.key, outcome, ticks) {
                Ok(SettleResult::Completed) => {
                    done.push(id_of(&claimed.record));
                    self.finish(1);
                }
                Ok(SettleResult::Removed(removed)) => {
                    done.push(id_of(&removed.record));
                    self.finish(1);
                }
                Ok(SettleResult::Ready) => self.queue.notify(1),
                Ok(SettleResult::Deferred) => self.fetch(claimed.key.counter, done),
                Ok(SettleResult::Held(key)) => {
                    let released = self.store.settle(key, Outcome::Release, Ticks::OPEN_END);
                    assert!(
                        matches!(released, Ok(SettleResult::Ready)),
                        "only this thread knows the key"
                    );
                    self.queue.notify(1);
                }
                Ok(SettleResult::Exhausted(_)) => unreachable!("there is no maximum"),
                Err(_) => {}
            }
        }
    }

    fn fetch(&self, counter: Counter, done: &mut Vec<u64>) {
        let mut out = Vec::new();
        self.store
            .lock_deferred(&[counter], ClaimMode::Take, NOW, &mut out)
            .expect("only we know the number");
        done.push(id_of(&out[0].record));
        self.finish(1);
    }
}

/// Sets the flag on drop, also in a panic: the test can fail only after the threads that poll the flag have ended.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn every_message_is_completed_once(store: &dyn MessageStore) {
    let (queue, ticks, left) = (WaitQueue::new(), AtomicU64::new(1), AtomicUsize::new(MESSAGES as usize));
    let over = AtomicBool::new(false);
    let shared = Shared {
        store,
        queue: &queue,
        ticks: &ticks,
        left: &left,
    };
    let mut done: Vec<u64> = Vec::new();
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let queue = &queue;
            scope.spawn(move || send(store, queue, sender));
        }
        let shared = &shared;
        let receivers: Vec<_> = (0..RECEIVERS)
            .map(|seed| scope.spawn(move || shared.receive(seed as u64 + 7)))
            .collect();
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                let now = Ticks(ticks.fetch_add(1, Ordering::SeqCst) + 1);
                let ready = store.expire(now, u32::MAX, &mut Vec::new());
                queue.notify(ready);
                std::thread::yield_now();
            }
        });
        scope.spawn(|| {
            let mut peeked = Vec::new();
            while !over.load(Ordering::SeqCst) {
                store.peek(Counter::FIRST, 500, &mut peeked);
                for pair in peeked.windows(2) {
                    assert!(pair[0].counter < pair[1].counter);
                }
                assert!(peeked.drain(..).all(|peeked| id_of(&peeked.record) < MESSAGES));
                store.counts();
            }
        });
        let _over = SetAtEnd(&over);
        for receiver in receivers {
            done.extend(receiver.join().expect("no receiver panics"));
        }
    });
    assert_eq!(done.len() as u64, MESSAGES);
    assert_eq!(done.iter().collect::<HashSet<_>>().len() as u64, MESSAGES, "none twice");
    assert_eq!(store.counts(), oxbus_store::PhaseCounts::default());
    assert!(!store.has_ready());
}

#[test]
fn slot_log_completes_every_message_once() {
    let store = SlotLog::new();
    every_message_is_completed_once(&store);
    assert!(
        store.overhead_bytes() < 3 * 8_900,
        "an empty log keeps little: {}",
        store.overhead_bytes()
    );
}

#[test]
fn mutex_log_completes_every_message_once() {
    every_message_is_completed_once(&MutexLog::new());
}

/// Without requeues every receiver sees ascending numbers, and each number is seen once.
#[test]
fn numbers_rise_per_receiver() {
    let store = SlotLog::new();
    let done = AtomicU64::new(0);
    let mut seen: Vec<u64> = Vec::new();
    std::thread::scope(|scope| {
        let (store, done) = (&store, &done);
        for sender in 0..SENDERS {
            scope.spawn(move || send(store, &WaitQueue::new(), sender));
        }
        let receivers: Vec<_> = (0..RECEIVERS)
            .map(|_| {
                scope.spawn(move || {
                    let (mut numbers, mut out, mut expired) = (Vec::new(), Vec::new(), Vec::new());
                    while done.load(Ordering::SeqCst) < MESSAGES {
                        let taken = store.claim(7, ClaimMode::Take, NOW, &mut out, &mut expired);
                        done.fetch_add(taken as u64, Ordering::SeqCst);
                        numbers.extend(out.drain(..).map(|claimed| claimed.key.counter.0));
                    }
                    numbers
                })
            })
            .collect();
        for receiver in receivers {
            let numbers = receiver.join().expect("no receiver panics");
            assert!(numbers.is_sorted(), "a receiver saw numbers out of order");
            seen.extend(numbers);
        }
    });
    seen.sort_unstable();
    assert!(seen.into_iter().eq(1..=MESSAGES));
}
