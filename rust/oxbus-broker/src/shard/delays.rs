// SPDX-License-Identifier: Apache-2.0
//! Messages that were abandoned with a delay: locked for their cell alone until the delay ends.
//!
//! The lock has no deadline and its key is in the table of the cell, so no receiver can get or settle the message. The
//! delivery was counted when the delay began. In a session the message keeps its place: later messages wait for it.
//!
//! Invariants
//! - a lock and its entry in the table begin under one guard, so a reader that sees the lock and then takes the guard
//!   finds the entry, unless the delay has ended since;
//! - `next_delay` is never later than the earliest end of a delay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Ticks, Timestamp};
use oxbus_store::{ClaimMode, LockKey, LockLost, MessagePhase, MessageStore, Outcome, PeekedMessage, SettleResult};

use super::{Cell, CellState, ReadyCounts};

/// Lock of delayed messages. It is not a delivery.
const DELAY_LOCK: ClaimMode = ClaimMode::Lock { deadline: Ticks::NEVER };

/// The delay of an abandoned message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delay {
    /// Its end: the earliest time at which the message is available.
    pub until: Timestamp,
    /// The session of the message, if it is received by session.
    pub session: Option<Arc<str>>,
}

/// The delayed messages of a cell.
#[derive(Debug, Default)]
pub struct Delays {
    held: BTreeMap<(SubQueue, Counter), DelayedMessage>,
    ends: BTreeSet<(Timestamp, SubQueue, Counter)>,
}

/// A delayed message.
#[derive(Debug)]
struct DelayedMessage {
    /// Its lock.
    key: LockKey,
    /// True if it is fetched by number.
    is_deferred: bool,
    delay: Delay,
}

/// A message whose delay has ended.
struct EndedDelay {
    sub_queue: SubQueue,
    key: LockKey,
    session: Option<Arc<str>>,
}

impl Delays {
    fn add(&mut self, sub_queue: SubQueue, message: DelayedMessage) {
        let counter = message.key.counter;
        self.ends.insert((message.delay.until, sub_queue, counter));
        self.held.insert((sub_queue, counter), message);
    }

    /// The earliest end of a delay.
    fn next(&self) -> Timestamp {
        self.ends.first().map_or(Timestamp::NEVER, |(until, ..)| *until)
    }

    /// Removes and returns the earliest delay that has ended.
    fn pop_ended(&mut self, now: Timestamp) -> Option<EndedDelay> {
        let &(_, sub_queue, counter) = self.ends.first().filter(|(until, ..)| *until <= now)?;
        self.ends.pop_first();
        let message = self.held.remove(&(sub_queue, counter))?;
        Some(EndedDelay {
            sub_queue,
            key: message.key,
            session: message.delay.session,
        })
    }

    /// The end of the delay that holds this lock.
    fn until(&self, sub_queue: SubQueue, key: LockKey) -> Option<Timestamp> {
        let message = self.held.get(&(sub_queue, key.counter))?;
        (message.key == key).then_some(message.delay.until)
    }

    /// Numbers of messages that are not deferred, and of those that are.
    fn count(&self, sub_queue: SubQueue) -> (u64, u64) {
        let of_queue = self
            .held
            .range((sub_queue, Counter(0))..=(sub_queue, Counter(u64::MAX)));
        of_queue.fold((0, 0), |(ready, deferred), (_, message)| {
            if message.is_deferred {
                (ready, deferred + 1)
            } else {
                (ready + 1, deferred)
            }
        })
    }
}

impl Cell {
    /// True while messages are delayed.
    #[inline]
    pub fn has_delays(&self) -> bool {
        self.next_delay.load(Ordering::Acquire) != Timestamp::NEVER.0
    }

    /// True if a delay has ended.
    #[inline]
    pub(crate) fn has_ended_delay(&self, now: Timestamp) -> bool {
        self.next_delay.load(Ordering::SeqCst) <= now.0
    }

    /// Ends a lock as `outcome`, a [`Outcome::Hold`], requires, and keeps the message until its delay ends.
    pub(crate) fn settle_delayed(
        &self,
        sub_queue: SubQueue,
        key: LockKey,
        outcome: Outcome,
        delay: &Delay,
        ticks: Ticks,
    ) -> Result<SettleResult, LockLost> {
        let (settled, session) = self.shard.with_cell_state(self.state_id, |state| {
            let settled = match sub_queue {
                SubQueue::Main => self.main.settle(key, outcome, ticks),
                SubQueue::DeadLetter => state.dead_letters.settle(key, outcome, ticks),
            }?;
            let session = match settled {
                SettleResult::Held(held) => self.note_delay(state, sub_queue, held, delay.clone()),
                _ => None,
            };
            Ok((settled, session))
        })?;
        if let (SettleResult::Held(held), Some(id)) = (&settled, session) {
            self.hold_session(&id, *held);
        }
        Ok(settled)
    }

    /// Locks a message that recovery found until its delay ends.
    pub(super) fn restore_delay(&self, sub_queue: SubQueue, counter: Counter, delay: &Delay) {
        let store = self.store(sub_queue);
        let mut locked = Vec::new();
        // At time 0 no message has expired. A delayed message is ready or deferred, as recovery restored it.
        store.claim_these(&[counter], DELAY_LOCK, Timestamp(0), &mut locked, &mut Vec::new());
        if locked.is_empty() {
            let _ = store.lock_deferred(&[counter], DELAY_LOCK, Timestamp(0), &mut locked);
        }
        for held in locked.into_iter().map(|claimed| claimed.key) {
            let session = self.shard.with_cell_state(self.state_id, |state| {
                self.note_delay(state, sub_queue, held, delay.clone())
            });
            if let Some(id) = session {
                self.hold_session(&id, held);
            }
        }
    }

    /// Adds a delay to the table. Returns the session that waits for the message, if any.
    fn note_delay(
        &self,
        state: &mut CellState,
        sub_queue: SubQueue,
        key: LockKey,
        mut delay: Delay,
    ) -> Option<Arc<str>> {
        let mut found: Vec<PeekedMessage> = Vec::new();
        match sub_queue {
            SubQueue::Main => self.main.peek(key.counter, 1, &mut found),
            SubQueue::DeadLetter => state.dead_letters.peek(key.counter, 1, &mut found),
        }
        let is_deferred = found.iter().any(|it| it.phase == MessagePhase::DeferredLocked);
        if is_deferred {
            // It is fetched by number, so the order of its session does not include it.
            delay.session = None;
        }
        let session = delay.session.clone();
        self.next_delay.fetch_min(delay.until.0, Ordering::SeqCst);
        let message = DelayedMessage {
            key,
            is_deferred,
            delay,
        };
        state.delays.add(sub_queue, message);
        session
    }

    /// Makes a session wait for a delayed message.
    fn hold_session(&self, id: &str, held: LockKey) {
        let Some(sessions) = self.sessions() else { return };
        sessions.delay(id, held.counter);
        if self.delayed_until(SubQueue::Main, held).is_none() {
            // It has ended meanwhile, perhaps before the session waited for it.
            sessions.end_delay(id, held.counter);
        }
    }

    /// The end of the delay that holds this lock.
    fn delayed_until(&self, sub_queue: SubQueue, key: LockKey) -> Option<Timestamp> {
        if !self.has_delays() {
            return None;
        }
        self.shard
            .with_cell_state(self.state_id, |state| state.delays.until(sub_queue, key))
    }

    /// The end of a message's delay, if it is delayed. `message` was peeked from this cell.
    pub fn delay_of(&self, sub_queue: SubQueue, message: &PeekedMessage) -> Option<Timestamp> {
        let key = LockKey {
            counter: message.counter,
            generation: message.generation,
        };
        // A delivered message is locked by its receiver.
        (!message.is_delivered)
            .then(|| self.delayed_until(sub_queue, key))
            .flatten()
    }

    /// Numbers of delayed messages that are not deferred, and of those that are.
    pub fn count_delayed(&self, sub_queue: SubQueue) -> (u64, u64) {
        if !self.has_delays() {
            return (0, 0);
        }
        self.shard
            .with_cell_state(self.state_id, |state| state.delays.count(sub_queue))
    }

    /// Makes the messages available whose delay has ended. Returns what became ready, and the messages for whose
    /// delays sessions wait: [`Sessions::end_delay`](super::Sessions::end_delay) ends that once they are in their
    /// sessions.
    pub(crate) fn end_delays(&self, now: Timestamp, ticks: Ticks) -> (ReadyCounts, Vec<(Arc<str>, Counter)>) {
        let (mut ready, mut in_sessions) = (ReadyCounts::default(), Vec::new());
        let ended: Vec<EndedDelay> = self.shard.with_cell_state(self.state_id, |state| {
            let ended = std::iter::from_fn(|| state.delays.pop_ended(now)).collect();
            self.next_delay.store(state.delays.next().0, Ordering::SeqCst);
            ended
        });
        for EndedDelay {
            sub_queue,
            key,
            session,
        } in ended
        {
            // Not journaled: the next open finds that the delay has ended.
            let settled = self.store(sub_queue).settle(key, Outcome::Release, ticks);
            if matches!(settled, Ok(SettleResult::Ready)) {
                ready = ready.and(ReadyCounts::of(sub_queue, 1));
            }
            in_sessions.extend(session.map(|id| (id, key.counter)));
        }
        (ready, in_sessions)
    }
}
