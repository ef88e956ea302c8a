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
use oxbus_store::{MessagePhase, Record, Wait};

use super::{Cell, CellState};

/// Between two looks whether to leave.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Whose turn it is to activate what is due.
#[derive(Debug, Default)]
pub(super) struct ActivationLock {
    /// Each field is set in one step, so it is whole after a panic.
    state: Mutex<ActivationLockState>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct ActivationLockState {
    is_held: bool,
    /// The latest time at which somebody came by and found it taken.
    requested_until: Timestamp,
}

/// The turn, until it is dropped.
struct ActivationGuard<'a>(Option<&'a ActivationLock>);

impl ActivationLock {
    fn guard(&self) -> MutexGuard<'_, ActivationLockState> {
        whole(self.state.lock())
    }

    /// The turn; `None` when somebody has it, who will look at what is due at `now`.
    fn try_acquire(&self, now: Timestamp) -> Option<ActivationGuard<'_>> {
        let mut state = self.guard();
        if state.is_held {
            state.requested_until = state.requested_until.max(now);
            return None;
        }
        (state.is_held, state.requested_until) = (true, now);
        Some(ActivationGuard(Some(self)))
    }

    /// Waits until nobody has it, unless the caller is to leave.
    fn wait(&self, wait: &Wait<'_>) -> Result<()> {
        let mut state = self.guard();
        while state.is_held {
            if wait.is_over() {
                let detail = "messages that were due before wait for a store that does not answer; make the call again";
                return Err(Error::new(ErrorKind::Timeout, detail));
            }
            let woken = self.released.wait_timeout(state, POLL_INTERVAL);
            state = whole(woken).0;
        }
        Ok(())
    }

    fn release(&self, mut state: MutexGuard<'_, ActivationLockState>) {
        state.is_held = false;
        drop(state);
        self.released.notify_all();
    }
}

impl ActivationGuard<'_> {
    /// Gives the turn back when all is done that anybody wants; else the time at which somebody wants it, and the turn stays.
    fn release_unless_requested(&mut self, done: Timestamp) -> Option<Timestamp> {
        let lock = self.0?;
        let state = lock.guard();
        if state.requested_until > done {
            return Some(state.requested_until);
        }
        self.0 = None;
        lock.release(state);
        None
    }
}

impl Drop for ActivationGuard<'_> {
    fn drop(&mut self) {
        if let Some(lock) = self.0 {
            lock.release(lock.guard());
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
            self.shard.with_cell_state(self.cell_state, count)
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
    pub fn for_each_due<E>(
        &self,
        now: Timestamp,
        mut activate: impl FnMut(Timestamp, Counter) -> std::result::Result<(), E>,
    ) {
        let Some(mut guard) = self.activation.try_acquire(now) else {
            return;
        };
        let mut requested_until = Some(now);
        while let Some(now) = requested_until {
            let due = self.take_due(now);
            for (position, &(due_at, counter)) in due.iter().enumerate() {
                if activate(due_at, counter).is_err() {
                    // The shard is out of service or full: they come due again afterwards.
                    self.reschedule(&due[position..]);
                    return;
                }
            }
            self.reschedule(&[]);
            requested_until = guard.release_unless_requested(now);
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
        self.shard.with_cell_state(self.cell_state, |state| {
            std::iter::from_fn(|| state.schedule.pop_due(now)).collect()
        })
    }

    /// Puts messages back that are due, and notes what is due next.
    fn reschedule(&self, due: &[(Timestamp, Counter)]) {
        self.shard.with_cell_state(self.cell_state, |state| {
            for &(due_at, counter) in due {
                state.schedule.add(due_at, counter);
            }
            self.next_due.store(state.schedule.next_due().0, Ordering::SeqCst);
        });
    }

    /// The record of a scheduled message, and for how long it lives once it is active; `None` when it was cancelled.
    pub fn scheduled(&self, counter: Counter) -> Result<Option<(Record, Option<u64>)>> {
        let Some(found) = self.peek_one(counter).filter(|it| it.phase == MessagePhase::Scheduled) else {
            return Ok(None);
        };
        let lives =
            (found.expires_at != Timestamp::NEVER).then(|| found.expires_at.0.saturating_sub(found.enqueued_at.0));
        Ok(Some((self.load(&found.record)?, lives)))
    }
}
