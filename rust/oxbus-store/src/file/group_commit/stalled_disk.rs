// SPDX-License-Identifier: Apache-2.0
//! What callers do while the disk may hang: a standby thread writes and syncs in their place.
//!
//! Usually whoever waits does the work (`commit`). Who is inside the system then comes back when the system lets it. So once a
//! call of the disk has not come back for a while, a log is **suspect**, and callers hand the work to a standby thread and
//! wait beside it: that wait ends when they leave (`Wait`). A caller that leaves ends the log, so that its entry is decided
//! like that of a failed write: nothing of it happens, unless the process ends before the log is begun anew.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::GroupCommit;
use super::waiters::WakeRole;
use crate::Wait;
use crate::file::committers::CommitTarget;
use crate::shard_log::{AppendError, Level, LogFailure, Lsn};

/// Between two questions whether to leave.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Somebody is at the disk, until it is dropped.
pub(in crate::file) struct DiskGuard<'a>(&'a GroupCommit);

impl Drop for DiskGuard<'_> {
    fn drop(&mut self) {
        self.0.standby.end_operation();
        if std::thread::panicking() {
            // What it had taken to write is lost: nobody may wait for it.
            self.0.end(LogFailure::Panicked);
        }
    }
}

impl GroupCommit {
    pub(in crate::file) fn enter_disk(&self) -> DiskGuard<'_> {
        self.standby.begin_operation();
        DiskGuard(self)
    }

    /// True while the disk may hang.
    pub(in crate::file) fn is_stalled(&self) -> bool {
        self.standby.is_stalled() || self.disk.may_hang()
    }

    /// Has callers keep away from the disk, or lets them at it again.
    pub(in crate::file) fn set_stalled(&self, stalled: bool) {
        if self.standby.set_stalled(stalled) {
            // Those who wait for somebody at the disk move over.
            self.wake();
        }
    }

    /// Waits until the standby has brought an entry to a level. Who leaves ends the log.
    pub(super) fn commit_on_standby(
        self: &Arc<Self>,
        lsn: Lsn,
        level: Level,
        wait: &Wait<'_>,
    ) -> Result<(), AppendError> {
        loop {
            if let Some(result) = self.outcome(lsn, level) {
                return result;
            }
            if wait.is_over() {
                self.end(LogFailure::Unresponsive);
                continue;
            }
            self.request_standby(Some(level), 0);
            self.wait(lsn, level, WakeRole::Follower, Some(CHECK_INTERVAL), || true);
        }
    }

    /// One step of a wait for room: asks for it and sleeps for a moment.
    pub(super) fn wait_for_room(self: &Arc<Self>, spare_bytes: u64, wait: &Wait<'_>) -> Result<(), AppendError> {
        if wait.is_over() {
            return Err(AppendError::TimedOut);
        }
        self.request_standby(Some(Level::Written), spare_bytes);
        // What is in the buffer, or for a spare file a moment.
        let next = self.next();
        let lsn = if spare_bytes == 0 { Lsn(next.0 - 1) } else { next };
        self.wait(lsn, Level::Written, WakeRole::Follower, Some(CHECK_INTERVAL), || true);
        if spare_bytes > 0 && self.is_full() {
            return Err(AppendError::Full);
        }
        Ok(())
    }

    fn request_standby(self: &Arc<Self>, level: Option<Level>, spare_bytes: u64) {
        if !self.standby.request(level, spare_bytes) {
            return;
        }
        let log = Arc::clone(self);
        let named = std::thread::Builder::new().name("oxbus-standby".to_owned());
        if let Err(error) = named.spawn(move || log.run_standby()) {
            self.standby.start_failed();
            self.end(LogFailure::of(&error));
        }
    }

    fn run_standby(self: &Arc<Self>) {
        while let Some((level, spare_bytes)) = self.standby.next() {
            if spare_bytes > 0
                && let Err(error) = self.with_writer(|writer| self.ensure_spare(writer, spare_bytes))
                && error.kind() != io::ErrorKind::StorageFull
            {
                self.end(LogFailure::of(&error));
            }
            if let Some(level) = level {
                // Who waits for the entries learns of a failure.
                let _ = self.commit_on_this_thread(Lsn(self.next().0 - 1), level);
            }
        }
    }
}
