// SPDX-License-Identifier: Apache-2.0
//! Threads that wait for entries of one log, each called by name.
//!
//! Were everybody woken to look, a sync that ends would have sixty threads fight for one mutex, and all but a few go back to
//! sleep. So who ends a write or a sync calls those whose entries it brought there, and of the rest the one that waits
//! longest, to go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use crate::shard_log::{Level, Lsn};

/// Where a thread waits, once.
#[derive(Debug)]
pub(super) struct CommitWaiter {
    thread: Thread,
    called: AtomicBool,
}

/// What a thread does when it is called although its entry is not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeRole {
    /// It may be the one that goes on.
    Leads,
    /// Somebody else does the work.
    Follows,
}

#[derive(Debug)]
struct QueuedWaiter {
    lsn: Lsn,
    level: Level,
    role: WakeRole,
    seat: Arc<CommitWaiter>,
}

/// Who waits for a log, the longest first. Behind the mutex of the buffer.
#[derive(Debug, Default)]
pub(super) struct CommitWaiters(Vec<QueuedWaiter>);

impl CommitWaiters {
    /// Seats this thread; it lets go of the mutex and waits there.
    pub(super) fn add(&mut self, lsn: Lsn, level: Level, role: WakeRole) -> Arc<CommitWaiter> {
        let seat = Arc::new(CommitWaiter {
            thread: std::thread::current(),
            called: AtomicBool::new(false),
        });
        self.0.push(QueuedWaiter {
            lsn,
            level,
            role,
            seat: Arc::clone(&seat),
        });
        seat
    }

    /// Takes a thread away that waits no longer.
    pub(super) fn remove(&mut self, seat: &Arc<CommitWaiter>) {
        self.0.retain(|waiter| !Arc::ptr_eq(&waiter.seat, seat));
    }

    /// Takes out whose wait is over, and of those that go on waiting for one of `levels` the first one that leads.
    pub(super) fn call(&mut self, is_over: impl Fn(Level, Lsn) -> bool, levels: &[Level]) -> Vec<Arc<CommitWaiter>> {
        let over = self.0.extract_if(.., |waiter| is_over(waiter.level, waiter.lsn));
        let mut called: Vec<_> = over.map(|waiter| waiter.seat).collect();
        for level in levels {
            let leads = |waiter: &QueuedWaiter| waiter.level == *level && waiter.role == WakeRole::Leads;
            if let Some(first) = self.0.iter().position(leads) {
                called.push(self.0.remove(first).seat);
            }
        }
        called
    }
}

impl CommitWaiter {
    /// Wakes the thread. The caller holds no mutex that it is going to want.
    pub(super) fn call(&self) {
        self.called.store(true, Ordering::Release);
        self.thread.unpark();
    }

    /// Waits for the call, for `longest` at most, if that is given; it may end sooner. True when the call came.
    pub(super) fn wait(&self, longest: Option<Duration>) -> bool {
        let is_called = || self.called.load(Ordering::Acquire);
        match longest {
            None => {
                while !is_called() {
                    std::thread::park();
                }
            }
            Some(longest) if !is_called() => std::thread::park_timeout(longest),
            Some(_) => {}
        }
        is_called()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(waiters: &CommitWaiters) -> Vec<u64> {
        waiters.0.iter().map(|waiter| waiter.lsn.0).collect()
    }

    #[test]
    fn those_whose_wait_is_over_are_called_and_the_first_of_the_rest() {
        let mut waiters = CommitWaiters::default();
        for (lsn, role) in [
            (3, WakeRole::Follows),
            (4, WakeRole::Leads),
            (1, WakeRole::Leads),
            (5, WakeRole::Leads),
            (2, WakeRole::Follows),
        ] {
            waiters.add(Lsn(lsn), Level::Synced, role);
        }
        let called = waiters.call(|_, lsn| lsn <= Lsn(2), &[Level::Written, Level::Synced]);
        assert_eq!(called.len(), 3);
        assert_eq!(left(&waiters), [3, 5], "a follower does not lead");
    }

    #[test]
    fn each_level_has_its_leader() {
        let mut waiters = CommitWaiters::default();
        for (lsn, level) in [
            (1, Level::Synced),
            (2, Level::Written),
            (3, Level::Synced),
            (4, Level::Written),
        ] {
            waiters.add(Lsn(lsn), level, WakeRole::Leads);
        }
        assert_eq!(waiters.call(|_, _| false, &[Level::Written]).len(), 1);
        assert_eq!(left(&waiters), [1, 3, 4]);
        assert_eq!(waiters.call(|_, _| false, &[Level::Written, Level::Synced]).len(), 2);
        assert_eq!(left(&waiters), [3]);
    }

    #[test]
    fn a_call_before_the_wait_is_not_lost_and_a_time_ends_it() {
        let mut waiters = CommitWaiters::default();
        let seat = waiters.add(Lsn(1), Level::Synced, WakeRole::Leads);
        for seat in waiters.call(|_, _| true, &[]) {
            seat.call();
        }
        assert!(seat.wait(None));
        let seat = waiters.add(Lsn(2), Level::Synced, WakeRole::Follows);
        assert!(!seat.wait(Some(Duration::ZERO)));
        waiters.remove(&seat);
        assert_eq!(left(&waiters), [0; 0]);
    }
}
