// SPDX-License-Identifier: Apache-2.0
//! Activation of scheduled messages: each due message is appended as if it were sent at its due time (B-235, B-243).
//!
//! One thread at a time activates the due messages of a cell. It holds the activation lock until all of them have
//! numbers. Other threads do not wait: they record the time up to which they need messages activated, and the holder
//! continues up to that time. Only a sender waits, so that its message gets a number after those of the messages that
//! were due.
//!
//! Invariants
//! - `next_due` is not in the future until all due messages have numbers, so a sender that finds nothing due gets a
//!   later number;
//! - the holder notifies no receiver and forwards nothing: a forward may send to this cell.

use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use oxbus_model::sync::ignore_poison;
use oxbus_model::{Counter, Error, ErrorKind, Result, Timestamp};
use oxbus_store::{MessagePhase, Record, Wait};

use super::{Cell, CellState};

/// Interval between checks whether the caller still waits.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Lets one thread at a time activate due messages.
#[derive(Debug, Default)]
pub(super) struct ActivationLock {
    /// Each field is set in one step, so the state is consistent after a panic.
    state: Mutex<ActivationLockState>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct ActivationLockState {
    is_held: bool,
    /// The latest time that another thread asked for while the lock was held.
    requested_until: Timestamp,
}

/// Holds the lock until it is dropped.
struct ActivationGuard<'a>(Option<&'a ActivationLock>);

impl ActivationLock {
    fn guard(&self) -> MutexGuard<'_, ActivationLockState> {
        ignore_poison(self.state.lock())
    }

    /// Takes the lock. Returns `None` if another thread holds it; that thread then also activates what is due at
    /// `now`.
    fn try_acquire(&self, now: Timestamp) -> Option<ActivationGuard<'_>> {
        let mut state = self.guard();
        if state.is_held {
            state.requested_until = state.requested_until.max(now);
            return None;
        }
        (state.is_held, state.requested_until) = (true, now);
        Some(ActivationGuard(Some(self)))
    }

    /// Waits until the lock is free. Fails once `wait` is over.
    fn wait(&self, wait: &Wait<'_>) -> Result<()> {
        let mut state = self.guard();
        while state.is_held {
            if wait.is_over() {
                let detail = "the store does not answer, and earlier due messages wait for it; make the call again";
                return Err(Error::new(ErrorKind::Timeout, detail));
            }
            let woken = self.released.wait_timeout(state, POLL_INTERVAL);
            state = ignore_poison(woken).0;
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
    /// Releases the lock if no call asked for a later time than `done`; otherwise keeps it and returns that time.
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
    /// True while messages are scheduled.
    #[inline]
    pub fn has_schedule(&self) -> bool {
        self.next_due.load(Ordering::Acquire) != Timestamp::NEVER.0
    }

    /// Number of scheduled messages.
    pub fn count_scheduled(&self) -> usize {
        let count = |state: &mut CellState| state.schedule.count();
        if self.has_schedule() {
            self.shard.with_cell_state(self.state_id, count)
        } else {
            0
        }
    }

    /// True if a scheduled message is due.
    #[inline]
    pub fn has_due(&self, now: Timestamp) -> bool {
        self.next_due.load(Ordering::SeqCst) <= now.0
    }

    /// Calls `activate` for each message that is due at `now`, the earliest first. If another thread holds the
    /// activation lock, that thread activates them. A message that `activate` rejects is scheduled again.
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
                    // The shard is out of service or full.
                    self.reschedule(&due[position..]);
                    return;
                }
            }
            self.reschedule(&[]);
            requested_until = guard.release_unless_requested(now);
        }
    }

    /// Waits until all due messages have numbers, so that later ones come after them. Fails with `Timeout` once `wait`
    /// is over.
    pub fn wait_activated(&self, wait: &Wait<'_>) -> Result<()> {
        self.activation.wait(wait)
    }

    /// Removes the due messages from the schedule and returns their due times and numbers. `next_due` does not change
    /// before they have numbers or are scheduled again.
    fn take_due(&self, now: Timestamp) -> Vec<(Timestamp, Counter)> {
        self.shard.with_cell_state(self.state_id, |state| {
            std::iter::from_fn(|| state.schedule.pop_due(now)).collect()
        })
    }

    /// Puts due messages back and updates `next_due`.
    fn reschedule(&self, due: &[(Timestamp, Counter)]) {
        self.shard.with_cell_state(self.state_id, |state| {
            for &(due_at, counter) in due {
                state.schedule.add(due_at, counter);
            }
            self.next_due.store(state.schedule.next_due().0, Ordering::SeqCst);
        });
    }

    /// The record of a scheduled message, and its time to live in ms once it is active; `None` if it was cancelled.
    pub fn scheduled(&self, counter: Counter) -> Result<Option<(Record, Option<u64>)>> {
        let Some(found) = self.peek_one(counter).filter(|it| it.phase == MessagePhase::Scheduled) else {
            return Ok(None);
        };
        let lives =
            (found.expires_at != Timestamp::NEVER).then(|| found.expires_at.0.saturating_sub(found.enqueued_at.0));
        Ok(Some((self.load(&found.record)?, lives)))
    }
}
