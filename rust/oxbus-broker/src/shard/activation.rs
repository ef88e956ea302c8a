// SPDX-License-Identifier: Apache-2.0
//! Scheduled messages that come due: each is appended as if it were sent at its time (B-235, B-243).
//!
//! One thread at a time activates what is due in a cell, and has the *turn* until all of it has its numbers. A thread that
//! comes by meanwhile notes how late it is and goes on: the one in turn looks again. Only a sender waits, so that its message
//! comes behind what was due before it.
//!
//! Holds always
//! - `next_due` says that something is due until all of it has numbers: a sender that finds nothing due comes behind it;
//! - the thread in turn rings nobody and forwards nothing: to forward may be to send to this cell.

use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use oxbus_model::sync::whole;
use oxbus_model::{Counter, Error, ErrorKind, Result, Timestamp};
use oxbus_store::{Phase, Record, Wait};

use super::{Cell, CellState};

/// Between two looks whether to leave.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Whose turn it is to activate what is due.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Each field is set in one step, so it is whole after a panic.
    state: Mutex<TurnState>,
    given_back: Condvar,
}

#[derive(Debug, Default)]
struct TurnState {
    is_taken: bool,
    /// The latest time at which somebody came by and found it taken.
    wanted: Timestamp,
}

/// The turn, until it is dropped.
struct Taken<'a>(Option<&'a Turn>);

impl Turn {
    fn guard(&self) -> MutexGuard<'_, TurnState> {
        whole(self.state.lock())
    }

    /// The turn; `None` when somebody has it, who will look at what is due at `now`.
    fn take(&self, now: Timestamp) -> Option<Taken<'_>> {
        let mut state = self.guard();
        if state.is_taken {
            state.wanted = state.wanted.max(now);
            return None;
        }
        (state.is_taken, state.wanted) = (true, now);
        Some(Taken(Some(self)))
    }

    /// Waits until nobody has it, unless the caller is to leave.
    fn wait(&self, wait: &Wait<'_>) -> Result<()> {
        let mut state = self.guard();
        while state.is_taken {
            if wait.is_over() {
                let detail = "messages that were due before wait for a store that does not answer; make the call again";
                return Err(Error::new(ErrorKind::Timeout, detail));
            }
            let woken = self.given_back.wait_timeout(state, LOOK_AGAIN);
            state = whole(woken).0;
        }
        Ok(())
    }

    fn give_back(&self, mut state: MutexGuard<'_, TurnState>) {
        state.is_taken = false;
        drop(state);
        self.given_back.notify_all();
    }
}

impl Taken<'_> {
    /// Gives the turn back when all is done that anybody wants; else the time at which somebody wants it, and the turn stays.
    fn end(&mut self, done: Timestamp) -> Option<Timestamp> {
        let turn = self.0?;
        let state = turn.guard();
        if state.wanted > done {
            return Some(state.wanted);
        }
        self.0 = None;
        turn.give_back(state);
        None
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(turn) = self.0 {
            turn.give_back(turn.guard());
        }
    }
}

impl Cell {
    /// True when messages wait for their time.
    #[inline]
    pub fn has_schedule(&self) -> bool {
        self.next_due.load(Ordering::Acquire) != Timestamp::NEVER.0
    }

    /// Messages that wait for their time.
    pub fn count_scheduled(&self) -> usize {
        let count = |state: &mut CellState| state.schedule.count();
        if self.has_schedule() {
            self.shard.with(self.no, count)
        } else {
            0
        }
    }

    /// True when a scheduled message is due.
    #[inline]
    pub fn has_due(&self, now: Timestamp) -> bool {
        self.next_due.load(Ordering::SeqCst) <= now.0
    }

    /// Has `activate` bring in each message that is due at `now`, the earliest first, unless somebody is at it, who then does
    /// this too. What it refuses comes due again.
    pub fn each_due<E>(
        &self,
        now: Timestamp,
        mut activate: impl FnMut(Timestamp, Counter) -> std::result::Result<(), E>,
    ) {
        let Some(mut turn) = self.activation.take(now) else {
            return;
        };
        let mut wanted = Some(now);
        while let Some(now) = wanted {
            let due = self.take_due(now);
            for (position, &(due_at, counter)) in due.iter().enumerate() {
                if activate(due_at, counter).is_err() {
                    // The shard is out of service or full: they come due again afterwards.
                    self.due_again(&due[position..]);
                    return;
                }
            }
            self.due_again(&[]);
            wanted = turn.end(now);
        }
    }

    /// Waits until all that was due has its numbers: what comes now comes behind it. An error of kind `Timeout` when the store
    /// does not answer and the caller is to leave.
    pub fn wait_activated(&self, wait: &Wait<'_>) -> Result<()> {
        self.activation.wait(wait)
    }

    /// The scheduled messages that are due, out of the schedule: when each was, and which. Until they have their numbers, or
    /// are due again, `next_due` says that they are due.
    fn take_due(&self, now: Timestamp) -> Vec<(Timestamp, Counter)> {
        self.shard.with(self.no, |state| {
            std::iter::from_fn(|| state.schedule.pop_due(now)).collect()
        })
    }

    /// Puts messages back that are due, and notes what is due next.
    fn due_again(&self, due: &[(Timestamp, Counter)]) {
        self.shard.with(self.no, |state| {
            for &(due_at, counter) in due {
                state.schedule.add(due_at, counter);
            }
            self.next_due.store(state.schedule.next_due().0, Ordering::SeqCst);
        });
    }

    /// The record of a scheduled message, and for how long it lives once it is active; `None` when it was cancelled.
    pub fn scheduled(&self, counter: Counter) -> Result<Option<(Record, Option<u64>)>> {
        let Some(found) = self.peek_one(counter).filter(|it| it.phase == Phase::Scheduled) else {
            return Ok(None);
        };
        let lives =
            (found.expires_at != Timestamp::NEVER).then(|| found.expires_at.0.saturating_sub(found.enqueued_at.0));
        Ok(Some((self.load(&found.record)?, lives)))
    }
}
