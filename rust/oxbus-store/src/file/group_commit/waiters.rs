// SPDX-License-Identifier: Apache-2.0
//! Threads that wait for entries of one log, each called by name.
//!
//! Were everybody woken to look, a sync that ends would have sixty threads fight for one mutex, and all but a few go back to
//! sleep. So who ends a write or a sync calls those whose entries it brought there, and of the rest the one that waits
//! max_wait, to go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use crate::shard_log::{Level, Lsn};

/// Where a thread waits, once.
#[derive(Debug)]
pub(super) struct CommitWaiter {
    thread: Thread,
    woken: AtomicBool,
}

/// What a thread does when it is called although its entry is not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeRole {
    /// It may be the one that goes on.
    Leader,
    /// Somebody else does the work.
    Follower,
}

#[derive(Debug)]
struct QueuedWaiter {
    lsn: Lsn,
    level: Level,
    role: WakeRole,
    waiter: Arc<CommitWaiter>,
}

/// Who waits for a log, the max_wait first. Behind the mutex of the buffer.
#[derive(Debug, Default)]
pub(super) struct CommitWaiters(Vec<QueuedWaiter>);

impl CommitWaiters {
    /// Seats this thread; it lets go of the mutex and waits there.
    pub(super) fn add(&mut self, lsn: Lsn, level: Level, role: WakeRole) -> Arc<CommitWaiter> {
        let waiter = Arc::new(CommitWaiter {
            thread: std::thread::current(),
            woken: AtomicBool::new(false),
        });
        self.0.push(QueuedWaiter {
            lsn,
            level,
            role,
            waiter: Arc::clone(&waiter),
        });
        waiter
    }

    /// Takes a thread away that waits no longer.
    pub(super) fn remove(&mut self, waiter: &Arc<CommitWaiter>) {
        self.0.retain(|queued| !Arc::ptr_eq(&queued.waiter, waiter));
    }

    /// Takes out whose wait is over, and of those that go on waiting for one of `levels` the first one that leads.
    pub(super) fn take_ready(
        &mut self,
        is_over: impl Fn(Level, Lsn) -> bool,
        levels: &[Level],
    ) -> Vec<Arc<CommitWaiter>> {
        let over = self.0.extract_if(.., |queued| is_over(queued.level, queued.lsn));
        let mut ready: Vec<_> = over.map(|queued| queued.waiter).collect();
        for level in levels {
            let leads = |queued: &QueuedWaiter| queued.level == *level && queued.role == WakeRole::Leader;
            if let Some(first) = self.0.iter().position(leads) {
                ready.push(self.0.remove(first).waiter);
            }
        }
        ready
    }
}

impl CommitWaiter {
    /// Wakes the thread. The caller holds no mutex that it is going to want.
    pub(super) fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }

    /// Waits for the call, for `max_wait` at most, if that is given; it may end sooner. True when the call came.
    pub(super) fn wait(&self, max_wait: Option<Duration>) -> bool {
        let is_woken = || self.woken.load(Ordering::Acquire);
        match max_wait {
            None => {
                while !is_woken() {
                    std::thread::park();
                }
            }
            Some(max_wait) if !is_woken() => std::thread::park_timeout(max_wait),
            Some(_) => {}
        }
        is_woken()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(waiters: &CommitWaiters) -> Vec<u64> {
        waiters.0.iter().map(|waiter| waiter.lsn.0).collect()
    }

    #[test]
    fn finished_waiters_and_the_first_leader_are_woken() {
        let mut waiters = CommitWaiters::default();
        for (lsn, role) in [
            (3, WakeRole::Follower),
            (4, WakeRole::Leader),
            (1, WakeRole::Leader),
            (5, WakeRole::Leader),
            (2, WakeRole::Follower),
        ] {
            waiters.add(Lsn(lsn), Level::Synced, role);
        }
        let ready = waiters.take_ready(|_, lsn| lsn <= Lsn(2), &[Level::Written, Level::Synced]);
        assert_eq!(ready.len(), 3);
        assert_eq!(left(&waiters), [3, 5], "a follower does not lead");
    }

    #[test]
    fn each_level_wakes_one_leader() {
        let mut waiters = CommitWaiters::default();
        for (lsn, level) in [
            (1, Level::Synced),
            (2, Level::Written),
            (3, Level::Synced),
            (4, Level::Written),
        ] {
            waiters.add(Lsn(lsn), level, WakeRole::Leader);
        }
        assert_eq!(waiters.take_ready(|_, _| false, &[Level::Written]).len(), 1);
        assert_eq!(left(&waiters), [1, 3, 4]);
        assert_eq!(
            waiters.take_ready(|_, _| false, &[Level::Written, Level::Synced]).len(),
            2
        );
        assert_eq!(left(&waiters), [3]);
    }

    #[test]
    fn a_wake_before_the_wait_is_not_lost_and_a_timeout_ends_it() {
        let mut waiters = CommitWaiters::default();
        let waiter = waiters.add(Lsn(1), Level::Synced, WakeRole::Leader);
        for waiter in waiters.take_ready(|_, _| true, &[]) {
            waiter.wake();
        }
        assert!(waiter.wait(None));
        let waiter = waiters.add(Lsn(2), Level::Synced, WakeRole::Follower);
        assert!(!waiter.wait(Some(Duration::ZERO)));
        waiters.remove(&waiter);
        assert_eq!(left(&waiters), [0; 0]);
    }
}
