// SPDX-License-Identifier: Apache-2.0
//! A thread that writes and syncs in the place of a caller, for as long as the disk may hang.
//!
//! Usually whoever waits does the work (`group_commit`). Who is inside the system then comes back when the system lets it. So
//! once a call of the disk has not come back for a while, a log is **suspect**, and callers hand the work to a standby thread
//! and wait beside it: that wait ends when they leave (`Wait`). A caller that leaves ends the log, so that its entry is
//! decided like that of a failed write: nothing of it happens, unless the process ends before the log is begun anew.
//!
//! Holds always
//! - one standby per log at most; it ends when nothing is asked of it;
//! - `ended <= begun`, and both stand still while a call hangs.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::Wait;
use oxbus_model::sync::whole;

use super::group_commit::{GroupCommit, Role};
use crate::shard_log::{AppendError, Failure, Level, Lsn};

/// Between two questions whether to leave.
const ASK_EVERY: Duration = Duration::from_millis(10);

/// What the standby does next.
#[derive(Debug, Default)]
struct Asked {
    level: Option<Level>,
    spare_bytes: u64,
    /// There is a standby.
    running: bool,
}

/// The standby of a log, and how anybody sees that it is wanted.
#[derive(Debug, Default)]
pub(super) struct Standby {
    /// Whole after a panic: each field is set in one step, and says only what to do next.
    asked: Mutex<Asked>,
    suspect: AtomicBool,
    begun: AtomicU64,
    ended: AtomicU64,
}

/// Somebody is at the disk, until it is dropped.
pub(super) struct Turn<'a>(&'a GroupCommit);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.standby.ended.fetch_add(1, Ordering::Release);
        if std::thread::panicking() {
            // What it had taken to write is lost: nobody may wait for it.
            self.0.end(Failure::Panicked);
        }
    }
}

impl Standby {
    /// Turns at the disk that began, and that ended.
    pub(super) fn turns(&self) -> (u64, u64) {
        let ended = self.ended.load(Ordering::Acquire);
        (self.begun.load(Ordering::Acquire), ended)
    }
}

impl GroupCommit {
    pub(super) fn turn(&self) -> Turn<'_> {
        self.standby.begun.fetch_add(1, Ordering::Release);
        Turn(self)
    }

    /// True while the disk may hang.
    pub(super) fn is_suspect(&self) -> bool {
        self.standby.suspect.load(Ordering::Acquire) || self.disk.may_hang()
    }

    /// Has callers keep away from the disk, or lets them at it again.
    pub(super) fn distrust(&self, suspect: bool) {
        if self.standby.suspect.swap(suspect, Ordering::AcqRel) != suspect {
            // Those who wait for somebody at the disk move over.
            self.wake();
        }
    }

    /// Waits until the standby has brought an entry to a level. Who leaves ends the log.
    pub(super) fn commit_aside(self: &Arc<Self>, lsn: Lsn, level: Level, wait: &Wait<'_>) -> Result<(), AppendError> {
        loop {
            if let Some(result) = self.outcome(lsn, level) {
                return result;
            }
            if wait.is_over() {
                self.end(Failure::Silent);
                continue;
            }
            self.ask(Some(level), 0);
            self.wait(lsn, level, Role::Follows, Some(ASK_EVERY), || true);
        }
    }

    /// One step of a wait for room: asks for it and sleeps for a moment.
    pub(super) fn wait_for_room(self: &Arc<Self>, spare_bytes: u64, wait: &Wait<'_>) -> Result<(), AppendError> {
        if wait.is_over() {
            return Err(AppendError::Late);
        }
        self.ask(Some(Level::Written), spare_bytes);
        // What is in the buffer, or for a spare file a moment.
        let next = self.next();
        let lsn = if spare_bytes == 0 { Lsn(next.0 - 1) } else { next };
        self.wait(lsn, Level::Written, Role::Follows, Some(ASK_EVERY), || true);
        if spare_bytes > 0 && self.is_full() {
            return Err(AppendError::Full);
        }
        Ok(())
    }

    fn ask(self: &Arc<Self>, level: Option<Level>, spare_bytes: u64) {
        let mut asked = whole(self.standby.asked.lock());
        asked.level = asked.level.max(level);
        asked.spare_bytes = asked.spare_bytes.max(spare_bytes);
        if std::mem::replace(&mut asked.running, true) {
            return;
        }
        drop(asked);
        let log = Arc::clone(self);
        let named = std::thread::Builder::new().name("oxbus-standby".to_owned());
        if let Err(error) = named.spawn(move || log.stand_by()) {
            whole(self.standby.asked.lock()).running = false;
            self.end(Failure::of(&error));
        }
    }

    fn stand_by(self: &Arc<Self>) {
        loop {
            let mut asked = whole(self.standby.asked.lock());
            let (level, spare_bytes) = (asked.level.take(), std::mem::take(&mut asked.spare_bytes));
            asked.running = level.is_some() || spare_bytes > 0;
            if !asked.running {
                return;
            }
            drop(asked);
            if spare_bytes > 0
                && let Err(error) = self.with_writer(|writer| self.ensure_spare(writer, spare_bytes))
                && error.kind() != io::ErrorKind::StorageFull
            {
                self.end(Failure::of(&error));
            }
            if let Some(level) = level {
                // Who waits for the entries learns of a failure.
                let _ = self.commit_here(Lsn(self.next().0 - 1), level);
            }
        }
    }
}
