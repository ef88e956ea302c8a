// SPDX-License-Identifier: Apache-2.0
//! Writing and syncing while the disk may hang: a standby thread replaces the callers.
//!
//! Usually a caller that waits does the work (`commit`), but a thread inside a system call cannot be cancelled. Once a
//! disk call has not returned for a while, the log is **stalled**: callers give the work to a standby thread, and
//! their own wait ends when it is cancelled or times out (`Wait`). A caller that stops waiting ends the log, so its
//! entry is treated like one of a failed write: it has no effect unless the process ends before the log is restarted.

use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::GroupCommit;
use super::waiters::WakeRole;
use crate::Wait;
use crate::file::committers::CommitTarget;
use crate::shard_log::{AppendError, Level, LogFailure, Lsn};

/// Interval between checks of whether the wait is over.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// A running disk operation. It ends on drop.
pub(in crate::file) struct DiskGuard<'a>(&'a GroupCommit);

impl Drop for DiskGuard<'_> {
    fn drop(&mut self) {
        self.0.standby.end_operation();
        if std::thread::panicking() {
            // The entries it took for writing are lost, so no caller may wait for them.
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

    /// Marks the disk as hanging or as working again.
    pub(in crate::file) fn set_stalled(&self, stalled: bool) {
        if self.standby.set_stalled(stalled) {
            // Callers that wait for another caller switch to the standby.
            self.wake();
        }
    }

    /// Waits until others have brought an entry to a level: the standby, or the store. A caller that stops waiting ends
    /// the log.
    pub(super) fn commit_elsewhere(
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
            self.begin_commit(level);
            // A leader, because a thread that used the writer for something else leaves entries unwritten.
            self.wait(lsn, level, WakeRole::Leader, Some(CHECK_INTERVAL), || true);
        }
    }

    /// One step of a suspended call that waits for an entry, as in `commit_elsewhere`: true if its outcome is known.
    /// Otherwise `waker` is woken when to take the next step.
    pub(in crate::file) fn is_committed(self: &Arc<Self>, lsn: Lsn, level: Level, waker: &Waker) -> bool {
        if self.outcome(lsn, level).is_some() {
            return true;
        }
        self.begin_commit(level);
        self.wake_later(lsn, level, waker)
    }

    /// Has the entries brought to a level, without waiting for the disk.
    pub(in crate::file) fn begin_commit(self: &Arc<Self>, level: Level) {
        if self.keeps_unsynced || self.is_stalled() || self.disk.changes_wait() {
            self.request_standby(Some(level), 0);
        } else {
            self.begin_sync();
        }
    }

    /// One step of a wait for space: requests it and waits for a short time.
    pub(super) fn wait_for_room(self: &Arc<Self>, spare_bytes: u64, wait: &Wait<'_>) -> Result<(), AppendError> {
        if wait.is_over() {
            return Err(AppendError::TimedOut);
        }
        self.request_standby(Some(Level::Written), spare_bytes);
        // Wait for the buffered entries. For a spare file, wait until the interval has passed.
        let next = self.next();
        let lsn = if spare_bytes == 0 { Lsn(next.0 - 1) } else { next };
        self.wait(lsn, Level::Written, WakeRole::Follower, Some(CHECK_INTERVAL), || true);
        if spare_bytes > 0 && self.is_full() {
            return Err(AppendError::Full);
        }
        Ok(())
    }

    pub(in crate::file) fn request_standby(self: &Arc<Self>, level: Option<Level>, spare_bytes: u64) {
        if !self.standby.request(level, spare_bytes) {
            return;
        }
        let (standby, log) = (Arc::clone(&self.standby), Arc::downgrade(self));
        let named = std::thread::Builder::new().name("oxbus-standby".to_owned());
        let work = move || {
            while let Some((level, spare_bytes)) = standby.next() {
                let Some(log) = log.upgrade() else { return };
                log.do_standby_work(level, spare_bytes);
            }
        };
        if let Err(error) = named.spawn(work) {
            self.standby.start_failed();
            self.end(LogFailure::of(&error));
        }
    }

    fn do_standby_work(&self, level: Option<Level>, spare_bytes: u64) {
        if spare_bytes > 0 {
            if let Err(error) = self.with_writer(|writer| self.ensure_spare(writer, spare_bytes))
                && error.kind() != io::ErrorKind::StorageFull
            {
                self.end(LogFailure::of(&error));
            }
            // Callers that wait for the file check again.
            self.wake();
        }
        if let Some(level) = level {
            // Callers that wait for the entries get the failure.
            let _ = self.commit_on_this_thread(Lsn(self.next().0 - 1), level);
        }
    }
}

impl Drop for GroupCommit {
    fn drop(&mut self) {
        self.standby.end();
    }
}
