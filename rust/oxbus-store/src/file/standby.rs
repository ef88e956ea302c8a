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

use oxbus_model::sync::whole;

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
    asked: Mutex<StandbyTask>,
    suspect: AtomicBool,
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Standby {
    /// Turns at the disk that began, and that ended.
    pub(super) fn turns(&self) -> (u64, u64) {
        let ended = self.ended.load(Ordering::Acquire);
        (self.begun.load(Ordering::Acquire), ended)
    }

    /// Somebody goes to the disk.
    pub(super) fn begin_turn(&self) {
        self.begun.fetch_add(1, Ordering::Release);
    }

    /// Somebody came back from the disk.
    pub(super) fn end_turn(&self) {
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// True while callers are to keep away from the disk.
    pub(super) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Acquire)
    }

    /// Has callers keep away from the disk, or lets them at it again; true when that is new.
    pub(super) fn distrust(&self, suspect: bool) -> bool {
        self.suspect.swap(suspect, Ordering::AcqRel) != suspect
    }

    /// Asks for a level and for a spare file of so many bytes; true when a standby must be started.
    pub(super) fn ask(&self, level: Option<Level>, spare_bytes: u64) -> bool {
        let mut asked = whole(self.asked.lock());
        asked.level = asked.level.max(level);
        asked.spare_bytes = asked.spare_bytes.max(spare_bytes);
        !std::mem::replace(&mut asked.running, true)
    }

    /// What the standby does next; `None` when it ends, as nothing is asked of it.
    pub(super) fn next(&self) -> Option<(Option<Level>, u64)> {
        let mut asked = whole(self.asked.lock());
        let (level, spare_bytes) = (asked.level.take(), std::mem::take(&mut asked.spare_bytes));
        asked.running = level.is_some() || spare_bytes > 0;
        asked.running.then_some((level, spare_bytes))
    }

    /// The standby did not start.
    pub(super) fn not_started(&self) {
        whole(self.asked.lock()).running = false;
    }
}
