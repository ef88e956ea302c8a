// SPDX-License-Identifier: Apache-2.0
//! Which thread writes and syncs for an entry.
//!
//! With few callers, the callers do the work themselves, each for all. While many threads wait across all logs of a
//! namespace, the committer threads do it (`super::super::committers`): a served caller can return at once, and the
//! next sync does not have to wait until one of the callers is scheduled.
//!
//! Invariants
//! - while a caller waits, a thread is at the disk, has been woken to go there, or checks again soon;
//! - a thread that ends work at the disk wakes all callers it served, and the first leader among the others.

use std::sync::{Arc, Mutex, TryLockError};
use std::task::Waker;
use std::time::Duration;

use oxbus_model::sync::ignore_poison;

use super::super::committers::{CommitTarget, SyncRequest};
use super::waiters::WakeRole;
use super::{GroupCommit, Writer};
use crate::Wait;
use crate::shard_log::{AppendError, Level, Lsn};

fn is_busy<T>(mutex: &Mutex<T>) -> bool {
    matches!(mutex.try_lock(), Err(TryLockError::WouldBlock))
}

impl GroupCommit {
    /// Waits until an entry has reached a level. Writes and syncs itself unless the disk may hang.
    pub(in crate::file) fn commit(
        self: &Arc<Self>,
        lsn: Lsn,
        level: Level,
        wait: &Wait<'_>,
    ) -> Result<(), AppendError> {
        let here = match level {
            _ if self.is_stalled() || !self.keeps_unsynced => None,
            Level::Written => self.commit_written(lsn, Self::is_stalled),
            Level::Synced => {
                let caller = self.sync_request.register_caller();
                if let Some(max_wait) = caller.max_wait()
                    && self.outcome(lsn, level).is_none()
                {
                    self.sync_request.request();
                    let is_served = || self.sync_request.is_pending() && !self.is_stalled();
                    self.wait(lsn, level, WakeRole::Follower, Some(max_wait), is_served);
                }
                self.commit_synced(lsn, Self::is_stalled)
            }
        };
        here.unwrap_or_else(|| self.commit_elsewhere(lsn, level, wait))
    }

    /// Does what `commit` does, on the standby thread, which always uses the disk.
    pub(super) fn commit_on_this_thread(&self, lsn: Lsn, level: Level) -> Result<(), AppendError> {
        let here = match level {
            Level::Written => self.commit_written(lsn, |_| false),
            Level::Synced => self.commit_synced(lsn, |_| false),
        };
        here.expect("the standby does not avoid the disk")
    }

    /// Returns `None` if the caller must avoid the disk.
    fn commit_written(&self, lsn: Lsn, avoids_disk: fn(&Self) -> bool) -> Option<Result<(), AppendError>> {
        loop {
            if let Some(result) = self.outcome(lsn, Level::Written) {
                return Some(result);
            }
            if avoids_disk(self) {
                return None;
            }
            if let Ok(mut writer) = self.writer.try_lock() {
                self.write_pending(&mut writer, Level::Written);
                drop(writer);
                self.notify_waiters();
            } else {
                let is_writing = || is_busy(&self.writer) && !avoids_disk(self);
                self.wait(lsn, Level::Written, WakeRole::Leader, None, is_writing);
            }
        }
    }

    /// A caller that arrives during a write or sync waits for it. The entries that gather until then share one frame
    /// and one sync, and no waiter is woken in between.
    fn commit_synced(&self, lsn: Lsn, avoids_disk: fn(&Self) -> bool) -> Option<Result<(), AppendError>> {
        // A writer matters only while this entry is unwritten; otherwise a stream of writers could block the sync
        // forever.
        let is_working = || {
            let is_in_the_way = is_busy(&self.syncer) || (self.reached(Level::Written) < lsn && is_busy(&self.writer));
            is_in_the_way && !avoids_disk(self)
        };
        // This thread wrote, and waiters for a sync were not woken because it is going to sync.
        let mut must_notify = false;
        let result = loop {
            if let Some(result) = self.outcome(lsn, Level::Synced) {
                break Some(result);
            }
            if avoids_disk(self) {
                break None;
            }
            if is_busy(&self.syncer) {
                self.wait(lsn, Level::Synced, WakeRole::Leader, None, is_working);
            } else if self.reached(Level::Written) < lsn {
                if let Ok(mut writer) = self.writer.try_lock() {
                    self.write_pending(&mut writer, Level::Synced);
                    drop(writer);
                    self.notify_waiters_at(&[Level::Written]);
                    must_notify = true;
                } else {
                    self.wait(lsn, Level::Synced, WakeRole::Leader, None, is_working);
                }
            } else if let Ok(syncing) = self.syncer.try_lock() {
                self.sync_written();
                drop(syncing);
                self.notify_waiters();
                must_notify = false;
            }
        };
        if must_notify {
            self.notify_waiters();
        }
        result
    }

    /// The outcome of a commit, if it is known.
    pub(super) fn outcome(&self, lsn: Lsn, level: Level) -> Option<Result<(), AppendError>> {
        if self.reached(level) >= lsn {
            return Some(Ok(()));
        }
        let failure = self.buffer().failure?;
        // The level may have been reached between the check above and the failure.
        let reached = self.reached(level) >= lsn;
        Some(if reached {
            Ok(())
        } else {
            Err(AppendError::Unknown(failure))
        })
    }

    /// Waits until woken, at most for `max_wait`. `is_working` returns true if a thread is going to wake this one. It
    /// is evaluated under the buffer's mutex, which that thread locks after its work, so no wake-up is lost.
    pub(super) fn wait(
        &self,
        lsn: Lsn,
        level: Level,
        role: WakeRole,
        max_wait: Option<Duration>,
        is_working: impl FnOnce() -> bool,
    ) {
        let mut buffer = self.buffer();
        if self.reached(level) >= lsn || buffer.failure.is_some() || !is_working() {
            return;
        }
        let waiter = buffer.waiters.add(lsn, level, role);
        drop(buffer);
        if !waiter.wait(max_wait) {
            self.buffer().waiters.remove(&waiter);
        }
    }

    /// Has a suspended call woken when its entry is done, or when it must begin what the entry needs. Returns true if
    /// the entry is done already.
    pub(super) fn wake_later(&self, lsn: Lsn, level: Level, waker: &Waker) -> bool {
        let mut buffer = self.buffer();
        let is_done = self.reached(level) >= lsn || buffer.failure.is_some();
        if !is_done {
            buffer.waiters.add_suspended(lsn, level, waker);
        }
        is_done
    }

    /// Wakes threads whose wait is over and runs due callbacks. The caller holds no mutex.
    pub(super) fn notify_waiters(&self) {
        self.notify_waiters_at(&[Level::Written, Level::Synced]);
    }

    /// Does what `notify_waiters` does, but wakes a leader only for `levels`. The caller does the work of the other
    /// levels.
    pub(super) fn notify_waiters_at(&self, levels: &[Level]) {
        // A thread between its check and its wait holds the buffer's mutex.
        let mut buffer = self.buffer();
        let has_failed = buffer.failure.is_some();
        let is_over = |level, lsn| has_failed || self.reached(level) >= lsn;
        let ready = buffer.waiters.take_ready(is_over, levels);
        let ended = std::mem::take(&mut buffer.ended);
        drop(buffer);
        for waiter in ready {
            waiter.wake();
        }
        for (done, result) in ended {
            done(result);
        }
    }

    pub(in crate::file) fn with_writer<R>(&self, work: impl FnOnce(&mut Writer) -> R) -> R {
        let mut writer = ignore_poison(self.writer.lock());
        let guard = self.enter_disk();
        let result = work(&mut writer);
        drop(guard);
        drop(writer);
        self.notify_waiters();
        result
    }
}

impl CommitTarget for GroupCommit {
    fn sync_request(&self) -> &SyncRequest {
        &self.sync_request
    }

    /// Skips a stalled log, so that other logs do not wait for it. Callers that wait for the entries get a failure.
    fn commit_for_others(&self) {
        let last = Lsn(self.next().0 - 1);
        if self.is_stalled() || self.commit_synced(last, Self::is_stalled).is_none() {
            // Callers that relied on this thread check again.
            self.wake();
        }
    }

    fn wake(&self) {
        let ready = self.buffer().waiters.take_ready(|_, _| true, &[]);
        for waiter in ready {
            waiter.wake();
        }
    }
}
