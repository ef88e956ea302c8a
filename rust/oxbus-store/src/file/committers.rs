// SPDX-License-Identifier: Apache-2.0
//! Threads that sync logs for others: those that one caller needs beside the one it syncs itself, and all while a crowd of
//! callers waits.
//!
//! A disk takes several syncs in little more time than one, so a caller that needs several logs has the others begun here.
//! A crowd is served from here because the end of a sync sets many threads running, and whoever of them had to begin the next
//! one might come to a processor last; the threads of Python want its lock besides.
//!
//! To ask is a hint. A commit that nobody has begun when its caller comes to it, or waits too long, is the caller's to do, so
//! nothing is lost without these threads. They begin when they are needed.
//!
//! Order of the mutexes: buffer of a log, then its slot, then the queue.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use oxbus_model::sync::ignore_poison;

/// When the threads work.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommitterLimits {
    /// So many threads at most.
    pub(super) threads_max: usize,
    /// With so many callers in all logs together, each leaves its sync to the threads.
    pub(super) callers_min: usize,
    /// So long one of a crowd waits until it goes to the disk itself: the threads may hang with other disks.
    pub(super) max_wait: Duration,
}

impl Default for CommitterLimits {
    /// Chosen on two cores (docs/decisions/0022).
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
    /// Whole after a panic: to ask is a hint, and a caller whose log is forgotten does the work itself.
    state: Mutex<CommittersState>,
    changed: Condvar,
    /// Who is about to have an entry synced.
    callers: AtomicUsize,
}

#[derive(Default)]
struct CommittersState {
    /// Each log at most once, and none that a thread is at.
    queue: VecDeque<Weak<dyn CommitTarget>>,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    stop: bool,
}

/// The threads of a namespace.
pub(super) struct Committers(Arc<CommittersShared>);

/// A log that the threads commit.
pub(super) trait CommitTarget: Send + Sync {
    /// How it asks.
    fn sync_request(&self) -> &SyncRequest;

    /// Syncs what was appended, unless its disk may hang.
    fn commit_for_others(&self);

    /// Has everybody who waits for it look again.
    fn wake(&self);
}

/// How a log asks for a commit.
#[derive(Default)]
pub(super) struct SyncRequest {
    to: OnceLock<(Arc<CommittersShared>, Weak<dyn CommitTarget>)>,
    /// One value, set in one step: it is whole after a panic.
    slot: Mutex<CommitSlot>,
}

/// Where a log stands: at most one thread is at it, so that a disk that hangs holds one thread per log.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum CommitSlot {
    #[default]
    Idle,
    Queued,
    Served,
    /// Somebody asked since the thread began.
    ServedAndRequested,
}

/// A caller that needs an entry synced, until it is dropped.
pub(super) struct SyncWaiter<'a>(Option<(&'a CommittersShared, usize)>);

impl Committers {
    pub(super) fn new(limits: CommitterLimits) -> Self {
        Self(Arc::new(CommittersShared {
            limits,
            ..CommittersShared::default()
        }))
    }

    /// Lets a log ask.
    pub(super) fn serve<L: CommitTarget + 'static>(&self, log: &Arc<L>) {
        let served: Weak<L> = Arc::downgrade(log);
        // A log that is served already keeps its threads.
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
            // A panic there was reported by the thread itself.
            let _ = thread.join();
        }
        let left = std::mem::take(&mut ignore_poison(self.0.state.lock()).queue);
        for log in left.iter().filter_map(Weak::upgrade) {
            // Who relied on the threads does it himself.
            log.sync_request().reset();
            log.wake();
        }
    }
}

impl SyncRequest {
    /// Counts a caller.
    pub(super) fn register_caller(&self) -> SyncWaiter<'_> {
        SyncWaiter(self.to.get().map(|(shared, _)| {
            let before = shared.callers.fetch_add(1, Ordering::Relaxed);
            (&**shared, before + 1)
        }))
    }

    /// Has a thread commit the log.
    pub(super) fn request(&self) {
        let Some((shared, log)) = self.to.get() else { return };
        let mut slot = ignore_poison(self.slot.lock());
        *slot = match *slot {
            CommitSlot::Idle if shared.push(Weak::clone(log)) => CommitSlot::Queued,
            CommitSlot::Served => CommitSlot::ServedAndRequested,
            other => other,
        };
    }

    /// True while a thread is at the log or will be. Who relies on it looks under the mutex of the log's buffer: whoever
    /// makes it false calls those who wait after that.
    pub(super) fn is_pending(&self) -> bool {
        *ignore_poison(self.slot.lock()) != CommitSlot::Idle
    }

    /// A thread has ended; true when somebody asked meanwhile and no thread will come.
    fn end(&self) -> bool {
        let Some((shared, log)) = self.to.get() else {
            return false;
        };
        let mut slot = ignore_poison(self.slot.lock());
        let asked = *slot == CommitSlot::ServedAndRequested;
        let comes = asked && shared.push(Weak::clone(log));
        *slot = if comes { CommitSlot::Queued } else { CommitSlot::Idle };
        asked && !comes
    }

    /// No thread will come.
    fn reset(&self) {
        *ignore_poison(self.slot.lock()) = CommitSlot::Idle;
    }
}

/// A thread is at a log, until it is dropped, also by a panic.
struct CommitSlotGuard<'a>(&'a dyn CommitTarget);

impl<'a> CommitSlotGuard<'a> {
    fn begin(log: &'a dyn CommitTarget) -> Self {
        // First: an entry appended from here on is asked for anew.
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
    /// How long it leaves its sync to the threads, if there are so many callers.
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
    /// Queues a log; false when there is no thread for it.
    fn push(self: &Arc<Self>, log: Weak<dyn CommitTarget>) -> bool {
        let mut state = ignore_poison(self.state.lock());
        if state.stop {
            return false;
        }
        state.queue.push_back(log);
        if state.idle < state.queue.len() && state.threads.len() < self.limits.threads_max {
            let named = std::thread::Builder::new().name(format!("oxbus-commit-{}", state.threads.len()));
            let shared = Arc::clone(self);
            // Without another thread the ones that are there, or the callers, do it.
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

    /// Waits for the next log; `None` at the end.
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
