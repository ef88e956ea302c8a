// SPDX-License-Identifier: Apache-2.0
//! Committers: threads that sync logs for callers. They serve a caller that needs several logs synced, and all callers
//! while many of them wait.
//!
//! A disk runs several syncs in little more time than one, so a caller that needs several logs starts the other syncs
//! here. With many callers the threads take over, because the end of a sync makes many threads runnable and the one
//! that must begin the next sync might be scheduled last. Python threads also need the interpreter lock.
//!
//! A request is a hint. If no thread has begun a commit when its caller needs it, or within the maximum wait, the
//! caller does it, so nothing is lost without these threads. They start on demand.
//!
//! Lock order: buffer of a log, then its slot, then the queue.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use oxbus_model::sync::ignore_poison;

/// Limits of the committer threads.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommitterLimits {
    /// Maximum number of threads.
    pub(super) threads_max: usize,
    /// With this many callers across all logs, callers leave their syncs to the threads.
    pub(super) callers_min: usize,
    /// A caller waits this long before it uses the disk itself, because the threads may hang on other disks.
    pub(super) max_wait: Duration,
}

impl Default for CommitterLimits {
    /// Measured on two cores (docs/decisions/0022).
    fn default() -> Self {
        Self {
            threads_max: 6,
            callers_min: 12,
            max_wait: Duration::from_millis(5),
        }
    }
}

#[derive(Default)]
struct CommittersShared {
    limits: CommitterLimits,
    /// Consistent after a panic: a request is a hint, and if a log is lost from the queue, its caller does the work.
    state: Mutex<CommittersState>,
    changed: Condvar,
    /// The number of callers that need an entry synced.
    callers: AtomicUsize,
}

#[derive(Default)]
struct CommittersState {
    /// Logs to commit: each at most once, and none that a thread is working on.
    queue: VecDeque<Weak<dyn CommitTarget>>,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    stop: bool,
}

/// The committer threads of a namespace.
pub(super) struct Committers(Arc<CommittersShared>);

/// A log that the committer threads can commit.
pub(super) trait CommitTarget: Send + Sync {
    /// The log's request for a commit.
    fn sync_request(&self) -> &SyncRequest;

    /// Syncs all appended entries, unless the disk may hang.
    fn commit_for_others(&self);

    /// Wakes all waiting callers so that they check again.
    fn wake(&self);
}

/// A log's request for a commit.
#[derive(Default)]
pub(super) struct SyncRequest {
    to: OnceLock<(Arc<CommittersShared>, Weak<dyn CommitTarget>)>,
    /// A single value, so it stays consistent after a panic.
    slot: Mutex<CommitSlot>,
}

/// The state of a log's request. At most one thread serves a log, so a disk that hangs blocks one thread per log.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum CommitSlot {
    #[default]
    Idle,
    Queued,
    Served,
    /// Another request arrived while the thread was working.
    ServedAndRequested,
}

/// A caller that needs an entry synced. It is counted until dropped.
pub(super) struct SyncWaiter<'a>(Option<(&'a CommittersShared, usize)>);

impl Committers {
    pub(super) fn new(limits: CommitterLimits) -> Self {
        Self(Arc::new(CommittersShared {
            limits,
            ..CommittersShared::default()
        }))
    }

    /// Accepts requests of a log.
    pub(super) fn serve<L: CommitTarget + 'static>(&self, log: &Arc<L>) {
        let served: Weak<L> = Arc::downgrade(log);
        // A log that is already served keeps its threads.
        let _ = log.sync_request().to.set((Arc::clone(&self.0), served));
    }
}

impl Drop for Committers {
    fn drop(&mut self) {
        let mut state = ignore_poison(self.0.state.lock());
        state.stop = true;
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.0.changed.notify_all();
        for thread in threads {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
        let left = std::mem::take(&mut ignore_poison(self.0.state.lock()).queue);
        for log in left.iter().filter_map(Weak::upgrade) {
            // Callers that relied on the threads do the work themselves.
            log.sync_request().reset();
            log.wake();
        }
    }
}

impl SyncRequest {
    /// Counts a caller until the result is dropped.
    pub(super) fn register_caller(&self) -> SyncWaiter<'_> {
        SyncWaiter(self.to.get().map(|(shared, _)| {
            let before = shared.callers.fetch_add(1, Ordering::Relaxed);
            (&**shared, before + 1)
        }))
    }

    /// Requests that a thread commit the log.
    pub(super) fn request(&self) {
        let Some((shared, log)) = self.to.get() else { return };
        let mut slot = ignore_poison(self.slot.lock());
        *slot = match *slot {
            CommitSlot::Idle if shared.push(Weak::clone(log)) => CommitSlot::Queued,
            CommitSlot::Served => CommitSlot::ServedAndRequested,
            other => other,
        };
    }

    /// True while a thread commits the log or is going to. Callers check it under the mutex of the log's buffer; a
    /// thread that makes it false wakes them afterwards.
    pub(super) fn is_pending(&self) -> bool {
        *ignore_poison(self.slot.lock()) != CommitSlot::Idle
    }

    /// Ends the work of a thread. Returns true if another request arrived and no thread will serve it.
    fn end(&self) -> bool {
        let Some((shared, log)) = self.to.get() else {
            return false;
        };
        let mut slot = ignore_poison(self.slot.lock());
        let requested = *slot == CommitSlot::ServedAndRequested;
        let queued = requested && shared.push(Weak::clone(log));
        *slot = if queued { CommitSlot::Queued } else { CommitSlot::Idle };
        requested && !queued
    }

    /// Withdraws the request: no thread will serve it.
    fn reset(&self) {
        *ignore_poison(self.slot.lock()) = CommitSlot::Idle;
    }
}

/// A thread's work on a log. It ends on drop, even after a panic.
struct CommitSlotGuard<'a>(&'a dyn CommitTarget);

impl<'a> CommitSlotGuard<'a> {
    fn begin(log: &'a dyn CommitTarget) -> Self {
        // Set before the commit, because an entry appended from here on needs a new request.
        *ignore_poison(log.sync_request().slot.lock()) = CommitSlot::Served;
        Self(log)
    }
}

impl Drop for CommitSlotGuard<'_> {
    fn drop(&mut self) {
        if self.0.sync_request().end() {
            self.0.wake();
        }
    }
}

impl SyncWaiter<'_> {
    /// How long the caller waits for a committer, if there are enough callers.
    pub(super) fn max_wait(&self) -> Option<Duration> {
        let (shared, callers) = self.0?;
        (callers >= shared.limits.callers_min).then_some(shared.limits.max_wait)
    }
}

impl Drop for SyncWaiter<'_> {
    fn drop(&mut self) {
        if let Some((shared, _)) = self.0 {
            shared.callers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl CommittersShared {
    /// Queues a log. Returns false if there is no thread for it.
    fn push(self: &Arc<Self>, log: Weak<dyn CommitTarget>) -> bool {
        let mut state = ignore_poison(self.state.lock());
        if state.stop {
            return false;
        }
        state.queue.push_back(log);
        if state.idle < state.queue.len() && state.threads.len() < self.limits.threads_max {
            let named = std::thread::Builder::new().name(format!("oxbus-commit-{}", state.threads.len()));
            let shared = Arc::clone(self);
            // If the thread cannot start, existing threads or the callers do the work.
            state.threads.extend(named.spawn(move || shared.run()).ok());
        }
        if state.threads.is_empty() {
            state.queue.pop_back();
            return false;
        }
        drop(state);
        self.changed.notify_one();
        true
    }

    fn run(&self) {
        while let Some(log) = self.next() {
            let Some(log) = log.upgrade() else { continue };
            let _served = CommitSlotGuard::begin(&*log);
            log.commit_for_others();
        }
    }

    /// Waits for the next log. Returns `None` after a stop.
    fn next(&self) -> Option<Weak<dyn CommitTarget>> {
        let mut state = ignore_poison(self.state.lock());
        loop {
            if state.stop {
                return None;
            }
            if let Some(log) = state.queue.pop_front() {
                return Some(log);
            }
            state.idle += 1;
            state = ignore_poison(self.changed.wait(state));
            state.idle -= 1;
        }
    }
}
