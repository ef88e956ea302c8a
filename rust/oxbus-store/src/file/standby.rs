// SPDX-License-Identifier: Apache-2.0
//! What is asked of a thread that writes and syncs in the place of a caller, for as long as the disk may hang.
//!
//! The thread itself is in `group_commit::stalled_disk`.
//!
//! Holds always
//! - one standby per log at most; it ends when nothing is asked of it;
//! - `ended <= begun`, and both stand still while a call hangs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use oxbus_model::sync::ignore_poison;

use crate::shard_log::Level;

/// What the standby does next.
#[derive(Debug, Default)]
struct StandbyTask {
    level: Option<Level>,
    spare_bytes: u64,
    /// There is a standby.
    running: bool,
}

/// The standby of a log, and how anybody sees that it is wanted.
#[derive(Debug, Default)]
pub(super) struct Standby {
    /// Whole after a panic: each field is set in one step, and says only what to do next.
    task: Mutex<StandbyTask>,
    stalled: AtomicBool,
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Standby {
    /// Turns at the disk that began, and that ended.
    pub(super) fn disk_operations(&self) -> (u64, u64) {
        let ended = self.ended.load(Ordering::Acquire);
        (self.begun.load(Ordering::Acquire), ended)
    }

    /// Somebody goes to the disk.
    pub(super) fn begin_operation(&self) {
        self.begun.fetch_add(1, Ordering::Release);
    }

    /// Somebody came back from the disk.
    pub(super) fn end_operation(&self) {
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// True while callers are to keep away from the disk.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Acquire)
    }

    /// Has callers keep away from the disk, or lets them at it again; true when that is new.
    pub(super) fn set_stalled(&self, stalled: bool) -> bool {
        self.stalled.swap(stalled, Ordering::AcqRel) != stalled
    }

    /// Asks for a level and for a spare file of so many bytes; true when a standby must be started.
    pub(super) fn request(&self, level: Option<Level>, spare_bytes: u64) -> bool {
        let mut task = ignore_poison(self.task.lock());
        task.level = task.level.max(level);
        task.spare_bytes = task.spare_bytes.max(spare_bytes);
        !std::mem::replace(&mut task.running, true)
    }

    /// What the standby does next; `None` when it ends, as nothing is asked of it.
    pub(super) fn next(&self) -> Option<(Option<Level>, u64)> {
        let mut task = ignore_poison(self.task.lock());
        let (level, spare_bytes) = (task.level.take(), std::mem::take(&mut task.spare_bytes));
        task.running = level.is_some() || spare_bytes > 0;
        task.running.then_some((level, spare_bytes))
    }

    /// The standby did not start.
    pub(super) fn start_failed(&self) {
        ignore_poison(self.task.lock()).running = false;
    }
}
