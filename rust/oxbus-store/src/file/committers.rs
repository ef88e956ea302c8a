// SPDX-License-Identifier: Apache-2.0
//! Commits that go on beside each other: a caller that needs several logs synced has the others begun here while it does
//! the first itself.
//!
//! To ask is a hint. A commit that nobody has begun when its caller comes to it is the caller's to do, so nothing waits
//! for these threads and nothing is lost without them.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;

use super::FileLog;
use crate::shard_log::{Level, Lsn, ShardLog};

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Each log at most once.
    asked: VecDeque<Weak<FileLog>>,
    stop: bool,
}

/// The threads.
#[derive(Debug)]
pub(super) struct Committers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// How a log asks for a commit.
#[derive(Debug, Default)]
pub(super) struct Asking {
    to: OnceLock<(Arc<Shared>, Weak<FileLog>)>,
    /// It stands in the queue.
    asked: AtomicBool,
}

impl Committers {
    pub(super) fn start(threads: usize) -> io::Result<Self> {
        let mut committers = Self {
            shared: Arc::default(),
            threads: Vec::new(),
        };
        for index in 0..threads {
            let shared = Arc::clone(&committers.shared);
            let named = std::thread::Builder::new().name(format!("oxbus-commit-{index}"));
            committers.threads.push(named.spawn(move || shared.run())?);
        }
        Ok(committers)
    }

    /// Lets a log ask.
    pub(super) fn serve(&self, log: &Arc<FileLog>) {
        // A log that is served already keeps its threads.
        let _ = log.asking.to.set((Arc::clone(&self.shared), Arc::downgrade(log)));
    }
}

impl Drop for Committers {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic there was reported by the thread itself.
            let _ = thread.join();
        }
    }
}

impl Asking {
    /// Has a thread commit the log, if there is one.
    pub(super) fn ask(&self) {
        let Some((shared, log)) = self.to.get() else { return };
        if !self.asked.swap(true, Ordering::AcqRel) {
            shared.state().asked.push_back(Weak::clone(log));
            shared.changed.notify_one();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while let Some(log) = self.next() {
            let Some(log) = log.upgrade() else { continue };
            // First, so that an entry appended from here on is asked for anew.
            log.asking.asked.store(false, Ordering::Release);
            if log.is_suspect() {
                // Other logs are not to wait for this one.
                continue;
            }
            let last = Lsn(log.next_lsn().0 - 1);
            // Who waits for the entries learns of a failure.
            let _ = log.commit(last, Level::Synced);
        }
    }

    /// Waits for the next log; `None` at the end.
    fn next(&self) -> Option<Weak<FileLog>> {
        let mut state = self.state();
        loop {
            if state.stop {
                return None;
            }
            if let Some(log) = state.asked.pop_front() {
                return Some(log);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
