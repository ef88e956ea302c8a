// SPDX-License-Identifier: Apache-2.0
//! Background syncs of entries that no caller waits for, and preparation of each log's next file.
//!
//! A few threads serve all logs of a namespace. Each has its own share, so that one slow disk does not delay all logs.
//! A written entry is synced within the interval plus the time of one round.
//!
//! A log that is no longer referenced elsewhere is dropped from the list. The threads end with the flusher.

use crate::Wait;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use oxbus_model::sync::ignore_poison;

use super::FileLog;
use super::committers::{CommitterLimits, Committers};
use crate::shard_log::{Level, Lsn, ShardLog};

#[derive(Debug, Default)]
struct FlusherShared {
    /// Consistent after a panic: a log is in the list or not. Callers that wait for entries of an unlisted log sync
    /// them.
    state: Mutex<FlusherState>,
    stopped: Condvar,
}

#[derive(Debug, Default)]
struct FlusherState {
    /// The logs of each thread.
    logs: Vec<Vec<Weak<FileLog>>>,
    /// The number of logs ever added, which selects the thread of the next one.
    added: usize,
    stop: bool,
}

/// The flusher threads of a namespace.
pub struct Flusher {
    shared: Arc<FlusherShared>,
    threads: Vec<JoinHandle<()>>,
    committers: Committers,
}

impl Flusher {
    /// Starts `threads` threads, each of which flushes its logs every `interval`.
    pub fn start(threads: usize, interval: Duration) -> std::io::Result<Self> {
        let shared = Arc::new(FlusherShared::default());
        shared.state().logs.resize_with(threads, Vec::new);
        let mut flusher = Self {
            shared,
            threads: Vec::new(),
            committers: Committers::new(CommitterLimits::default()),
        };
        for index in 0..threads {
            let shared = Arc::clone(&flusher.shared);
            let named = std::thread::Builder::new().name(format!("oxbus-flush-{index}"));
            flusher.threads.push(named.spawn(move || shared.run(index, interval))?);
        }
        Ok(flusher)
    }

    /// Adds a log to one of the threads.
    pub fn add(&self, log: &Arc<FileLog>) {
        self.committers.serve(&log.commits);
        let mut state = self.shared.state();
        let index = state.added % state.logs.len().max(1);
        state.added += 1;
        if let Some(logs) = state.logs.get_mut(index) {
            logs.push(Arc::downgrade(log));
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        self.shared.stopped.notify_all();
        for thread in self.threads.drain(..) {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

impl FlusherShared {
    fn state(&self) -> MutexGuard<'_, FlusherState> {
        ignore_poison(self.state.lock())
    }

    fn run(&self, index: usize, interval: Duration) {
        let mut state = self.state();
        while !state.stop {
            state.logs[index].retain(|log| log.strong_count() > 0);
            let logs: Vec<Arc<FileLog>> = state.logs[index].iter().filter_map(Weak::upgrade).collect();
            drop(state);
            for log in &logs {
                log.flush();
            }
            drop(logs);
            state = self.state();
            if !state.stop {
                (state, _) = ignore_poison(self.stopped.wait_timeout(state, interval));
            }
        }
    }
}

impl FileLog {
    /// Writes and syncs all entries, and creates the spare file if it is missing. Errors are ignored here: callers
    /// that wait for the entries get them.
    fn flush(&self) {
        if self.is_stalled() {
            // Skip it, so that other logs do not wait for this one. Callers that wait for its entries use the standby.
            return;
        }
        let last = Lsn(self.next_lsn().0 - 1);
        if last > self.reached(Level::Synced) {
            let _ = self.commit(last, Level::Synced, &Wait::FOREVER);
        }
        let _ = self.prepare();
    }
}
