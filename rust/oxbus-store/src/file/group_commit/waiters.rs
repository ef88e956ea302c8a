// SPDX-License-Identifier: Apache-2.0
//! Threads and suspended calls that wait for entries of one log, woken individually.
//!
//! If the end of a sync woke every thread, dozens of threads would contend for one mutex only to sleep again. Instead,
//! the thread that ends a write or sync wakes the threads whose entries are done. Of the rest it wakes the
//! longest-waiting leader, which continues the work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::thread::Thread;
use std::time::Duration;

use crate::shard_log::{Level, Lsn};

/// One wait of one thread or one suspended call.
#[derive(Debug)]
pub(super) struct CommitWaiter {
    sleeper: Sleeper,
    woken: AtomicBool,
}

#[derive(Debug)]
enum Sleeper {
    Thread(Thread),
    Call(Waker),
}

/// The role of a thread that is woken before its entry is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeRole {
    /// It may write or sync for all.
    Leader,
    /// Another thread does the work.
    Follower,
}

#[derive(Debug)]
struct QueuedWaiter {
    lsn: Lsn,
    level: Level,
    role: WakeRole,
    waiter: Arc<CommitWaiter>,
}

/// The threads and calls that wait for a log, longest-waiting first. Guarded by the buffer's mutex.
#[derive(Debug, Default)]
pub(super) struct CommitWaiters(Vec<QueuedWaiter>);

impl CommitWaiters {
    /// Registers this thread, which then releases the mutex and waits.
    pub(super) fn add(&mut self, lsn: Lsn, level: Level, role: WakeRole) -> Arc<CommitWaiter> {
        self.push(lsn, level, role, Sleeper::Thread(std::thread::current()))
    }

    /// Registers a suspended call as a leader, unless it is still registered: a call also goes on to see whether its
    /// wait is over.
    pub(super) fn add_suspended(&mut self, lsn: Lsn, level: Level, waker: &Waker) {
        let is_same = |queued: &QueuedWaiter| {
            queued.lsn == lsn && matches!(&queued.waiter.sleeper, Sleeper::Call(known) if known.will_wake(waker))
        };
        if !self.0.iter().any(is_same) {
            self.push(lsn, level, WakeRole::Leader, Sleeper::Call(waker.clone()));
        }
    }

    fn push(&mut self, lsn: Lsn, level: Level, role: WakeRole, sleeper: Sleeper) -> Arc<CommitWaiter> {
        let waiter = Arc::new(CommitWaiter {
            sleeper,
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

    /// Removes a thread that stopped waiting.
    pub(super) fn remove(&mut self, waiter: &Arc<CommitWaiter>) {
        self.0.retain(|queued| !Arc::ptr_eq(&queued.waiter, waiter));
    }

    /// Removes and returns the waiters whose wait is over, and for each of `levels` the first remaining leader.
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
    /// Wakes the thread or the call. The caller holds no mutex that they need.
    pub(super) fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        match &self.sleeper {
            Sleeper::Thread(thread) => thread.unpark(),
            Sleeper::Call(waker) => waker.wake_by_ref(),
        }
    }

    /// The thread waits until woken, at most for `max_wait`. It may return early. Returns whether the thread was woken.
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

    fn remaining(waiters: &CommitWaiters) -> Vec<u64> {
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
        assert_eq!(remaining(&waiters), [3, 5], "a follower does not lead");
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
        assert_eq!(remaining(&waiters), [1, 3, 4]);
        assert_eq!(
            waiters.take_ready(|_, _| false, &[Level::Written, Level::Synced]).len(),
            2
        );
        assert_eq!(remaining(&waiters), [3]);
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
        assert_eq!(remaining(&waiters), [0; 0]);
    }
}
