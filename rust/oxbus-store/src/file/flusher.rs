// SPDX-License-Identifier: Apache-2.0
//! Syncing what nobody waits for, and making the next file of each log in advance.
//!
//! A few threads look after all logs of a namespace, each after its share, so that one slow disk does not hold up the
//! others' logs. What was only written is synced within the interval plus the time of one round.
//!
//! A log that nobody else holds any more is forgotten. The threads end with the flusher.

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
    /// Whole after a panic: a log is in the list or not, and who needs one that is not has its entries synced himself.
    state: Mutex<FlusherState>,
    stopped: Condvar,
}

#[derive(Debug, Default)]
struct FlusherState {
    /// The logs of each thread.
    logs: Vec<Vec<Weak<FileLog>>>,
    /// How many logs were ever added: the next one goes to the next thread.
    added: usize,
    stop: bool,
}

/// The threads that look after logs.
pub struct Flusher {
    shared: Arc<FlusherShared>,
    threads: Vec<JoinHandle<()>>,
    committers: Committers,
}

impl Flusher {
    /// Starts `threads` threads, each of which makes a round every `interval`.
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

    /// Looks after one more log.
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
            // A panic there was reported by the thread itself.
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
    /// Writes and syncs what was appended, and makes the spare file if it is missing. Who waits for entries learns of a
    /// failure, so it is not told here.
    fn flush(&self) {
        if self.is_stalled() {
            // Other logs are not to wait for this one; who waits for its entries has them synced.
            return;
        }
        let last = Lsn(self.next_lsn().0 - 1);
        if last > self.reached(Level::Synced) {
            let _ = self.commit(last, Level::Synced, &Wait::FOREVER);
        }
        let _ = self.prepare();
    }
}
