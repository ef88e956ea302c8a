// SPDX-License-Identifier: Apache-2.0
//! The requests to the standby, a thread that writes and syncs for callers while the disk may hang. It is in
//! `group_commit::stalled_disk`.
//!
//! Invariants
//! - a log has at most one standby thread, which ends when nothing was requested for a while, or with its log;
//! - `ended <= begun`, and both stay the same while a call hangs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use oxbus_model::sync::ignore_poison;

use crate::shard_log::Level;

/// The thread ends when nothing was requested for this long. Starting it takes longer than waking it.
const IDLE_MAX: Duration = Duration::from_secs(1);

/// The work that the standby does next.
#[derive(Debug, Default)]
struct StandbyTask {
    level: Option<Level>,
    spare_bytes: u64,
    /// True if the thread is running.
    running: bool,
    /// True if the log is gone.
    is_over: bool,
}

/// The standby state of a log, and the counts of its disk operations.
#[derive(Debug, Default)]
pub(super) struct Standby {
    /// Consistent after a panic: each field is set in one step and only selects the next task.
    task: Mutex<StandbyTask>,
    requested: Condvar,
    stalled: AtomicBool,
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Standby {
    /// The number of disk operations that began, and the number that ended. The ended count is read first, so that it
    /// never exceeds the begun count.
    pub(super) fn disk_operations(&self) -> (u64, u64) {
        let ended = self.ended.load(Ordering::Acquire);
        (self.begun.load(Ordering::Acquire), ended)
    }

    /// Counts the start of a disk operation.
    pub(super) fn begin_operation(&self) {
        self.begun.fetch_add(1, Ordering::Release);
    }

    /// Counts the end of a disk operation.
    pub(super) fn end_operation(&self) {
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// True while callers must avoid the disk.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Acquire)
    }

    /// Marks the disk as hanging or as working again. Returns whether that is a change.
    pub(super) fn set_stalled(&self, stalled: bool) -> bool {
        self.stalled.swap(stalled, Ordering::AcqRel) != stalled
    }

    /// Requests a level and a spare file of `spare_bytes` bytes. Returns true if the caller must start the thread.
    pub(super) fn request(&self, level: Option<Level>, spare_bytes: u64) -> bool {
        let mut task = ignore_poison(self.task.lock());
        task.level = task.level.max(level);
        task.spare_bytes = task.spare_bytes.max(spare_bytes);
        let must_start = !std::mem::replace(&mut task.running, true);
        drop(task);
        self.requested.notify_one();
        must_start
    }

    /// Waits for the next work and takes it. `None` ends the thread.
    pub(super) fn next(&self) -> Option<(Option<Level>, u64)> {
        let mut task = ignore_poison(self.task.lock());
        let mut waited = false;
        loop {
            let (level, spare_bytes) = (task.level.take(), std::mem::take(&mut task.spare_bytes));
            if level.is_some() || spare_bytes > 0 {
                return Some((level, spare_bytes));
            }
            if task.is_over || waited {
                task.running = false;
                return None;
            }
            let (next, timeout) = ignore_poison(self.requested.wait_timeout(task, IDLE_MAX));
            (task, waited) = (next, timeout.timed_out());
        }
    }

    /// The log is gone: an idle thread ends.
    pub(super) fn end(&self) {
        ignore_poison(self.task.lock()).is_over = true;
        self.requested.notify_one();
    }

    /// Records that the thread could not be started.
    pub(super) fn start_failed(&self) {
        ignore_poison(self.task.lock()).running = false;
    }
}
