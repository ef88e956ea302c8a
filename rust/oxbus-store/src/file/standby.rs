// SPDX-License-Identifier: Apache-2.0
//! The requests to the standby, a thread that writes and syncs for callers: while the disk may hang, and on a store. It
//! is in `group_commit::stalled_disk`.
//!
//! Invariants
//! - a log has at most one standby thread, which ends when nothing is requested;
//! - `ended <= begun`, and both stay the same while a call hangs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use oxbus_model::sync::ignore_poison;

use crate::shard_log::Level;

/// The work that the standby does next.
#[derive(Debug, Default)]
struct StandbyTask {
    level: Option<Level>,
    spare_bytes: u64,
    /// True if the thread is running.
    running: bool,
}

/// The standby state of a log, and the counts of its disk operations.
#[derive(Debug, Default)]
pub(super) struct Standby {
    /// Consistent after a panic: each field is set in one step and only selects the next task.
    task: Mutex<StandbyTask>,
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
        !std::mem::replace(&mut task.running, true)
    }

    /// Takes the next work. `None` ends the thread, because nothing is requested.
    pub(super) fn next(&self) -> Option<(Option<Level>, u64)> {
        let mut task = ignore_poison(self.task.lock());
        let (level, spare_bytes) = (task.level.take(), std::mem::take(&mut task.spare_bytes));
        task.running = level.is_some() || spare_bytes > 0;
        task.running.then_some((level, spare_bytes))
    }

    /// Records that the thread could not be started.
    pub(super) fn start_failed(&self) {
        ignore_poison(self.task.lock()).running = false;
    }
}
