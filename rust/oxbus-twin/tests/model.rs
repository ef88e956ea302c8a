// SPDX-License-Identifier: Apache-2.0
//! Random histories: after each step every store gives the results of the model and has the same messages.

mod support;

use oxbus_model::{Counter, Ticks, Timestamp};
use oxbus_store::{
    ClaimMode, ClaimedMessage, LockKey, LockLost, MessagePhase, MessageStore, NewMessage, Outcome, PeekedMessage,
    PhaseCounts, Record, RemovedMessage, SettleResult, SlotLog,
};
use oxbus_twin::MutexLog;
use proptest::prelude::*;
use support::model::{Key, Message, Model, ModelResult, SettleAction};
use support::shared_map::SharedMap;

const STORES: usize = 3;
const HOUR_MS: u64 = 3_600_000;
/// Longest time without a sweep of expired locks.
const UNSWEPT_MS_MAX: u64 = 30 * HOUR_MS;

#[derive(Debug, Clone, Copy)]
enum Step {
    Append {
        n: usize,
        ttl_ms: Option<u64>,
    },
    AppendOne {
        ttl_ms: Option<u64>,
    },
    AppendScheduled,
    TakeScheduled {
        at: usize,
    },
    Claim {
        max: usize,
        hold: LockMode,
    },
    HandOut {
        at: usize,
        hold: LockMode,
    },
    ReleaseCached {
        from: usize,
        n: usize,
    },
    Settle {
        at: usize,
        end: SettleMode,
    },
    SettleMany {
        from: usize,
        n: usize,
        end: SettleMode,
    },
    Complete {
        from: usize,
        n: usize,
    },
    Renew {
        at: usize,
        ms: u64,
    },
    Rekey {
        at: usize,
        ms: u64,
    },
    LockDeferred {
        from: usize,
        n: usize,
        stray: bool,
        hold: LockMode,
    },
    TakeExpired {
        from: usize,
        n: usize,
    },
    Expire {
        max: u32,
    },
    Advance {
        ms: u64,
    },
    LongSleep {
        hours: u64,
    },
    Peek {
        from: u64,
        max: usize,
    },
}

#[derive(Debug, Clone, Copy)]
enum LockMode {
    Lock { ms: u64 },
    Cache,
    Take,
}

#[derive(Debug, Clone, Copy)]
enum SettleMode {
    Complete,
    Abandon { max: u32, replace: bool },
    Release,
    Defer { replace: bool },
    Remove,
}

#[derive(Debug, Clone, Copy)]
struct ModelLock {
    model: Key,
    keys: [LockKey; STORES],
}

struct Stores {
    model: Model,
    under_test: [Box<dyn MessageStore>; STORES],
    held: Vec<ModelLock>,
    now: Timestamp,
    ticks: Ticks,
    unswept_ms: u64,
    bodies: u64,
}

fn plain(removed: &RemovedMessage) -> (u64, Vec<u8>, u32, Timestamp, Timestamp) {
    (
        removed.counter.0,
        removed.record.in_memory().expect("in memory").to_vec(),
        removed.delivery_count,
        removed.enqueued_at,
        removed.expires_at,
    )
}

fn plain_model(message: &Message) -> (u64, Vec<u8>, u32, Timestamp, Timestamp) {
    (
        message.counter,
        message.body.clone(),
        message.count,
        message.enqueued_at,
        message.expires_at,
    )
}

fn same_claim(claimed: &ClaimedMessage, message: &Message, taken: bool) {
    assert_eq!(claimed.key.counter.0, message.counter);
    assert_eq!(&claimed.record.in_memory().expect("in memory")[..], &message.body[..]);
    assert_eq!(claimed.delivery_count, message.count);
    assert_eq!(claimed.enqueued_at, message.enqueued_at);
    assert_eq!(claimed.expires_at, message.expires_at);
    let deadline = if taken {
        Ticks::NEVER
    } else {
        message.deadline.unwrap_or(Ticks::NEVER)
    };
    assert_eq!(claimed.deadline, deadline);
    assert_eq!(
        claimed.deferred,
        matches!(message.phase, MessagePhase::Deferred | MessagePhase::DeferredLocked)
    );
}

impl Stores {
    fn new() -> Self {
        Self {
            model: Model::default(),
            under_test: [
                Box::new(SlotLog::new()),
                Box::new(MutexLog::new()),
                Box::new(SharedMap::default()),
            ],
            held: Vec::new(),
            now: Timestamp(1_700_000_000_000),
            ticks: Ticks(5_000),
            unswept_ms: 0,
            bodies: 0,
        }
    }

    fn body(&mut self) -> Vec<u8> {
        self.bodies += 1;
        let len = (self.bodies % 23) as usize;
        self.bodies.to_le_bytes().into_iter().cycle().take(len).collect()
    }

    fn hold(&self, lock_mode: LockMode) -> ClaimMode {
        match lock_mode {
            LockMode::Lock { ms } => ClaimMode::Lock {
                deadline: self.ticks.plus_ms(ms),
            },
            LockMode::Cache => ClaimMode::Cache,
            LockMode::Take => ClaimMode::Take,
        }
    }

    fn expiry(&self, ttl_ms: Option<u64>) -> Timestamp {
        ttl_ms.map_or(Timestamp::NEVER, |ms| self.now.plus_ms(ms))
    }

    fn pick(&self, at: usize) -> Option<ModelLock> {
        (!self.held.is_empty()).then(|| self.held[at % self.held.len()])
    }

    fn pick_some(&self, from: usize, n: usize) -> Vec<ModelLock> {
        (0..n).filter_map(|step| self.pick(from + step)).collect()
    }

    fn remember(&mut self, model: &[Key], stores: &[Vec<LockKey>]) {
        for (index, key) in model.iter().enumerate() {
            if key.hold != u64::MAX {
                self.held.push(ModelLock {
                    model: *key,
                    keys: std::array::from_fn(|store| stores[store][index]),
                });
            }
        }
        // Stale keys are kept for a while on purpose.
        if self.held.len() > 900 {
            self.held.drain(..300);
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm per step")]
    fn apply(&mut self, step: Step) {
        match step {
            Step::Append { n, ttl_ms } => self.append(n, ttl_ms),
            Step::AppendOne { ttl_ms } => {
                let (body, expires_at) = (self.body(), self.expiry(ttl_ms));
                let first = self
                    .model
                    .append(body.clone(), self.now, expires_at, MessagePhase::Ready);
                for store in &self.under_test {
                    let message = NewMessage {
                        record: Record::from_slice(&body).into(),
                        expires_at,
                    };
                    assert_eq!(store.append_one(message, self.now), first);
                }
            }
            Step::AppendScheduled => {
                let body = self.body();
                let first = self
                    .model
                    .append(body.clone(), self.now, Timestamp::NEVER, MessagePhase::Scheduled);
                for store in &self.under_test {
                    let record = Record::build(body.len(), |bytes| bytes.copy_from_slice(&body));
                    let message = NewMessage {
                        record: record.into(),
                        expires_at: Timestamp::NEVER,
                    };
                    assert_eq!(store.append_scheduled(message, self.now), first);
                }
            }
            Step::TakeScheduled { at } => {
                let scheduled: Vec<u64> = self
                    .model
                    .messages
                    .iter()
                    .filter(|message| message.phase == MessagePhase::Scheduled)
                    .map(|message| message.counter)
                    .collect();
                let counter = if scheduled.is_empty() {
                    at as u64
                } else {
                    scheduled[at % scheduled.len()]
                };
                let expected = self.model.take_scheduled(counter).as_ref().map(plain_model);
                for store in &self.under_test {
                    assert_eq!(store.take_scheduled(Counter(counter)).as_ref().map(plain), expected);
                }
            }
            Step::Claim { max, hold } => self.claim(max, hold),
            Step::HandOut { at, hold } => {
                let Some(held) = self.pick(at) else { return };
                let hold = self.hold(hold);
                let expected = self.model.deliver_cached(held.model, hold);
                let keys: Vec<_> = self
                    .under_test
                    .iter()
                    .zip(held.keys)
                    .map(|(store, key)| store.deliver_cached(key, hold))
                    .collect();
                assert!(
                    keys.iter().all(|key| key.is_some() == expected.is_some()),
                    "{keys:?} {expected:?}"
                );
                if let Some(expected) = expected {
                    self.remember(
                        &[expected],
                        &keys.iter().map(|key| key.iter().copied().collect()).collect::<Vec<_>>(),
                    );
                }
            }
            Step::ReleaseCached { from, n } => {
                let picked = self.pick_some(from, n);
                let expected = self
                    .model
                    .release_cached(&picked.iter().map(|held| held.model).collect::<Vec<_>>());
                for (index, store) in self.under_test.iter().enumerate() {
                    let keys: Vec<_> = picked.iter().map(|held| held.keys[index]).collect();
                    assert_eq!(store.release_cached(&keys), expected);
                }
            }
            Step::Settle { at, end } => {
                if let Some(held) = self.pick(at) {
                    self.settle(held, end);
                }
            }
            Step::SettleMany { from, n, end } => {
                for held in self.pick_some(from, n) {
                    self.settle(held, end);
                }
            }
            Step::Complete { from, n } => {
                let picked = self.pick_some(from, n);
                let mut expected = Vec::new();
                for (index, held) in picked.iter().enumerate() {
                    if self
                        .model
                        .settle(held.model, SettleAction::Complete, self.ticks)
                        .is_none()
                    {
                        expected.push(index);
                    }
                }
                for (index, store) in self.under_test.iter().enumerate() {
                    let keys: Vec<_> = picked.iter().map(|held| held.keys[index]).collect();
                    let mut lost = Vec::new();
                    store.complete(&keys, self.ticks, &mut lost);
                    assert_eq!(lost, expected);
                }
            }
            Step::Renew { at, ms } => {
                let Some(held) = self.pick(at) else { return };
                let deadline = self.ticks.plus_ms(ms);
                let expected = self.model.renew(held.model, deadline, self.ticks);
                for (store, key) in self.under_test.iter().zip(held.keys) {
                    assert_eq!(store.renew(key, deadline, self.ticks).is_ok(), expected);
                }
            }
            Step::Rekey { at, ms } => {
                let Some(held) = self.pick(at) else { return };
                let deadline = self.ticks.plus_ms(ms);
                let expected = self.model.renew(held.model, deadline, self.ticks);
                for (store, key) in self.under_test.iter().zip(held.keys) {
                    let other = key.next();
                    let moved = store.rekey(key, other.generation, Ticks::NEVER, self.ticks);
                    assert_eq!(moved.is_ok(), expected);
                    if expected {
                        assert!(!store.is_claimed_by(key, self.ticks) && store.is_claimed_by(other, self.ticks));
                        assert!(store.settle(key, Outcome::Complete, self.ticks).is_err());
                        let back = store.rekey(other, key.generation, deadline, self.ticks);
                        assert_eq!(back, Ok(Ticks::NEVER));
                    }
                }
            }
            Step::LockDeferred { from, n, stray, hold } => self.lock_deferred(from, n, stray, hold),
            Step::TakeExpired { from, n } => self.take_expired(from, n),
            Step::Expire { max } => self.expire(max),
            Step::Advance { ms } => self.advance(ms),
            Step::LongSleep { hours } => {
                // Beyond the range of a slot's deadline: locks have ended, and the sweep finds them.
                if self.unswept_ms > 0 {
                    self.expire(10);
                }
                self.ticks = self.ticks.plus_ms(hours * HOUR_MS);
                self.now = self.now.plus_ms(hours * HOUR_MS);
                self.check_holds();
                self.expire(10);
            }
            Step::Peek { from, max } => {
                let expected: Vec<_> = self
                    .model
                    .messages
                    .iter()
                    .filter(|message| message.counter >= from)
                    .take(max)
                    .collect();
                for store in &self.under_test {
                    let mut peeked = Vec::new();
                    store.peek(Counter(from), max, &mut peeked);
                    same_peeks(&peeked, &expected);
                }
            }
        }
    }

    fn append(&mut self, n: usize, ttl_ms: Option<u64>) {
        let expires_at = self.expiry(ttl_ms);
        let bodies: Vec<_> = (0..n).map(|_| self.body()).collect();
        let first = self.model.last_counter() + 1;
        for body in &bodies {
            self.model
                .append(body.clone(), self.now, expires_at, MessagePhase::Ready);
        }
        for store in &self.under_test {
            let mut batch: Vec<_> = bodies
                .iter()
                .map(|body| NewMessage {
                    record: Record::from_slice(body).into(),
                    expires_at,
                })
                .collect();
            assert_eq!(store.append(&mut batch, self.now), Counter(first));
            assert!(batch.is_empty());
        }
    }

    fn claim(&mut self, max: usize, hold: LockMode) {
        let hold = self.hold(hold);
        let (claims, gone) = self.model.claim(max, hold, self.now);
        let mut keys = Vec::new();
        for store in &self.under_test {
            let (mut out, mut expired) = (Vec::new(), Vec::new());
            assert_eq!(store.claim(max, hold, self.now, &mut out, &mut expired), claims.len());
            assert_eq!(out.len(), claims.len());
            for (claimed, (_, message)) in out.iter().zip(&claims) {
                same_claim(claimed, message, hold == ClaimMode::Take);
            }
            assert_eq!(
                expired.iter().map(plain).collect::<Vec<_>>(),
                gone.iter().map(plain_model).collect::<Vec<_>>()
            );
            keys.push(out.iter().map(|claimed| claimed.key).collect());
        }
        self.remember(&claims.iter().map(|(key, _)| *key).collect::<Vec<_>>(), &keys);
    }

    fn settle(&mut self, held: ModelLock, end: SettleMode) {
        let replacement = self.body();
        let expected = self.model.settle(
            held.model,
            match end {
                SettleMode::Complete => SettleAction::Complete,
                SettleMode::Abandon { max, replace } => SettleAction::Abandon {
                    max,
                    replacement: replace.then(|| replacement.clone()),
                },
                SettleMode::Release => SettleAction::Release,
                SettleMode::Defer { replace } => SettleAction::Defer {
                    replacement: replace.then(|| replacement.clone()),
                },
                SettleMode::Remove => SettleAction::Remove,
            },
            self.ticks,
        );
        let record = || Record::from_slice(&replacement);
        for (store, key) in self.under_test.iter().zip(held.keys) {
            let outcome = match end {
                SettleMode::Complete => Outcome::Complete,
                SettleMode::Abandon { max, replace } => Outcome::Abandon {
                    max_delivery_count: max,
                    replacement: replace.then(record).map(Into::into),
                },
                SettleMode::Release => Outcome::Release,
                SettleMode::Defer { replace } => Outcome::Defer {
                    replacement: replace.then(record).map(Into::into),
                },
                SettleMode::Remove => Outcome::Remove,
            };
            match (store.settle(key, outcome, self.ticks), &expected) {
                (Err(LockLost), None)
                | (Ok(SettleResult::Completed), Some(ModelResult::Completed))
                | (Ok(SettleResult::Ready), Some(ModelResult::Ready))
                | (Ok(SettleResult::Deferred), Some(ModelResult::Deferred)) => {}
                (Ok(SettleResult::Removed(removed)), Some(ModelResult::Removed(message)))
                | (Ok(SettleResult::Exhausted(removed)), Some(ModelResult::Exhausted(message))) => {
                    assert_eq!(plain(&removed), plain_model(message));
                }
                (settled, expected) => panic!("settled {settled:?}, expected {expected:?}"),
            }
        }
    }

    fn lock_deferred(&mut self, from: usize, n: usize, stray: bool, hold: LockMode) {
        let hold = match self.hold(hold) {
            ClaimMode::Cache => ClaimMode::Take,
            other => other,
        };
        let deferred: Vec<u64> = self
            .model
            .messages
            .iter()
            .filter(|message| message.phase == MessagePhase::Deferred)
            .map(|message| message.counter)
            .collect();
        let mut counters: Vec<u64> = (0..n.min(deferred.len()))
            .map(|step| deferred[(from + step) % deferred.len()])
            .collect();
        if stray {
            counters.push(from as u64);
        }
        let expected = self.model.lock_deferred(&counters, hold, self.now);
        let counters: Vec<_> = counters.into_iter().map(Counter).collect();
        let mut keys = Vec::new();
        for store in &self.under_test {
            let mut out = Vec::new();
            let locked = store.lock_deferred(&counters, hold, self.now, &mut out);
            assert_eq!(
                locked,
                expected.as_ref().map(|_| ()).map_err(|counter| Counter(*counter))
            );
            if let Ok(expected) = &expected {
                assert_eq!(out.len(), expected.len());
                for (claimed, (_, message)) in out.iter().zip(expected) {
                    same_claim(claimed, message, hold == ClaimMode::Take);
                }
            } else {
                assert!(out.is_empty());
            }
            keys.push(out.iter().map(|claimed| claimed.key).collect());
        }
        if let Ok(expected) = expected {
            self.remember(&expected.iter().map(|(key, _)| *key).collect::<Vec<_>>(), &keys);
        }
    }

    /// Uses messages of all phases, and numbers without a message.
    fn take_expired(&mut self, from: usize, n: usize) {
        let counters: Vec<u64> = (from..from + n).map(|counter| counter as u64).collect();
        let expected = self.model.take_expired(&counters, self.now);
        let expected: Vec<_> = expected.iter().map(plain_model).collect();
        let counters: Vec<_> = counters.into_iter().map(Counter).collect();
        for store in &self.under_test {
            let mut expired = Vec::new();
            store.take_expired(&counters, self.now, &mut expired);
            assert_eq!(expired.iter().map(plain).collect::<Vec<_>>(), expected);
        }
    }

    fn expire(&mut self, max: u32) {
        let (ready, gone) = self.model.expire(self.ticks, max);
        for store in &self.under_test {
            let mut exhausted = Vec::new();
            assert_eq!(store.expire(self.ticks, max, &mut exhausted), ready);
            exhausted.sort_by_key(|removed| removed.counter);
            assert_eq!(
                exhausted.iter().map(plain).collect::<Vec<_>>(),
                gone.iter().map(plain_model).collect::<Vec<_>>()
            );
        }
        self.unswept_ms = 0;
    }

    fn advance(&mut self, ms: u64) {
        if self.unswept_ms + ms > UNSWEPT_MS_MAX {
            self.expire(10);
        }
        self.unswept_ms += ms;
        self.ticks = self.ticks.plus_ms(ms);
        self.now = self.now.plus_ms(ms);
    }

    fn check_holds(&self) {
        for held in &self.held {
            let expected = self.model.holds(held.model, self.ticks);
            for (store, key) in self.under_test.iter().zip(held.keys) {
                assert_eq!(store.is_claimed_by(key, self.ticks), expected, "{held:?}");
            }
        }
    }

    fn check(&self) {
        let expected: Vec<_> = self.model.messages.iter().collect();
        let truth = self.model.next_expiry();
        let mut counts = PhaseCounts::default();
        for message in &self.model.messages {
            *match message.phase {
                MessagePhase::Ready => &mut counts.ready,
                MessagePhase::Cached => &mut counts.cached,
                MessagePhase::Locked => &mut counts.locked,
                MessagePhase::Deferred | MessagePhase::DeferredLocked => &mut counts.deferred,
                MessagePhase::Scheduled => &mut counts.scheduled,
            } += 1;
            counts.deferred_locked += u64::from(message.phase == MessagePhase::DeferredLocked);
            counts.record_bytes += message.body.len() as u64;
        }
        for store in &self.under_test {
            let mut peeked = Vec::new();
            store.peek(Counter::FIRST, usize::MAX, &mut peeked);
            same_peeks(&peeked, &expected);
            assert_eq!(store.has_ready(), self.model.has_ready());
            assert!(store.next_expiry() <= truth);
            assert_eq!(store.counts(), counts);
            assert_eq!(store.approximate_count(), counts.messages());
        }
        self.check_holds();
    }
}

fn same_peeks(peeked: &[PeekedMessage], expected: &[&Message]) {
    assert_eq!(peeked.len(), expected.len());
    for (peeked, message) in peeked.iter().zip(expected) {
        assert_eq!(
            (peeked.counter.0, peeked.phase, peeked.delivery_count),
            (message.counter, message.phase, message.count)
        );
        assert_eq!(&peeked.record.in_memory().expect("in memory")[..], &message.body[..]);
        assert_eq!(
            (peeked.enqueued_at, peeked.expires_at),
            (message.enqueued_at, message.expires_at)
        );
    }
}

fn lock_mode() -> impl Strategy<Value = LockMode> {
    prop_oneof![
        4 => (1..120_000_u64).prop_map(|ms| LockMode::Lock { ms }),
        1 => Just(LockMode::Cache),
        1 => Just(LockMode::Take),
    ]
}

fn end() -> impl Strategy<Value = SettleMode> {
    prop_oneof![
        2 => Just(SettleMode::Complete),
        2 => (1..6_u32, any::<bool>()).prop_map(|(max, replace)| SettleMode::Abandon { max, replace }),
        1 => Just(SettleMode::Release),
        3 => any::<bool>().prop_map(|replace| SettleMode::Defer { replace }),
        1 => Just(SettleMode::Remove),
    ]
}

fn ttl() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![3 => Just(None), 1 => (1..200_000_u64).prop_map(Some)]
}

fn step() -> impl Strategy<Value = Step> {
    let any_at = 0..1_000_usize;
    prop_oneof![
        4 => (1..40_usize, ttl()).prop_map(|(n, ttl_ms)| Step::Append { n, ttl_ms }),
        1 => (40..300_usize, ttl()).prop_map(|(n, ttl_ms)| Step::Append { n, ttl_ms }),
        3 => ttl().prop_map(|ttl_ms| Step::AppendOne { ttl_ms }),
        2 => Just(Step::AppendScheduled),
        2 => any_at.clone().prop_map(|at| Step::TakeScheduled { at }),
        8 => (0..40_usize, lock_mode()).prop_map(|(max, hold)| Step::Claim { max, hold }),
        2 => (40..700_usize, lock_mode()).prop_map(|(max, hold)| Step::Claim { max, hold }),
        3 => (any_at.clone(), lock_mode()).prop_map(|(at, hold)| Step::HandOut { at, hold }),
        2 => (any_at.clone(), 0..60_usize).prop_map(|(from, n)| Step::ReleaseCached { from, n }),
        6 => (any_at.clone(), end()).prop_map(|(at, end)| Step::Settle { at, end }),
        2 => (any_at.clone(), 0..80_usize, end()).prop_map(|(from, n, end)| Step::SettleMany { from, n, end }),
        4 => (any_at.clone(), 0..300_usize).prop_map(|(from, n)| Step::Complete { from, n }),
        2 => (any_at.clone(), 0..300_000_u64).prop_map(|(at, ms)| Step::Renew { at, ms }),
        2 => (any_at.clone(), 0..300_000_u64).prop_map(|(at, ms)| Step::Rekey { at, ms }),
        4 => (any_at, 0..12_usize, prop::bool::weighted(0.2), lock_mode())
            .prop_map(|(from, n, stray, hold)| Step::LockDeferred { from, n, stray, hold }),
        2 => (0..800_usize, 0..60_usize).prop_map(|(from, n)| Step::TakeExpired { from, n }),
        3 => (1..6_u32).prop_map(|max| Step::Expire { max }),
        4 => (0..90_000_u64).prop_map(|ms| Step::Advance { ms }),
        1 => Just(Step::Advance { ms: 5 * HOUR_MS }),
        1 => (40..300_u64).prop_map(|hours| Step::LongSleep { hours }),
        2 => (0..800_u64, 0..100_usize).prop_map(|(from, max)| Step::Peek { from, max }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_store_answers_like_the_model(steps in prop::collection::vec(step(), 100)) {
        let mut world = Stores::new();
        for step in steps {
            world.apply(step);
            world.check();
        }
    }
}
