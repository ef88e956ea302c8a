// SPDX-License-Identifier: Apache-2.0
//! Who goes to the disk for an entry: the caller itself, or whoever is there already.
//!
//! Few callers do the work themselves, each for all. Where many threads wait, in all logs of a namespace together, the
//! committers do it (`super::super::committers`): a caller that has been served goes its way, and the next sync does not
//! wait until one of the crowd gets a processor.
//!
//! Holds always
//! - as long as somebody waits, somebody is at the disk, was called to go there, or looks up by himself soon;
//! - who ends work at the disk calls all who are served by it, and of the others the first who may lead.

use std::sync::{Arc, Mutex, TryLockError};
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
    /// Waits until an entry has reached a level; goes to the disk for it unless that may hang.
    pub(in crate::file) fn commit(
        self: &Arc<Self>,
        lsn: Lsn,
        level: Level,
        wait: &Wait<'_>,
    ) -> Result<(), AppendError> {
        let here = match level {
            _ if self.is_stalled() => None,
            Level::Written => self.commit_written(lsn, Self::is_stalled),
            Level::Synced => {
                let caller = self.sync_request.register_caller();
                if let Some(max_wait) = caller.max_wait()
                    && self.outcome(lsn, level).is_none()
                {
                    self.sync_request.request();
                    let comes = || self.sync_request.is_pending() && !self.is_stalled();
                    self.wait(lsn, level, WakeRole::Follower, Some(max_wait), comes);
                }
                self.commit_synced(lsn, Self::is_stalled)
            }
        };
        here.unwrap_or_else(|| self.commit_on_standby(lsn, level, wait))
    }

    /// The same by the standby, which goes to the disk whatever it does.
    pub(super) fn commit_on_this_thread(&self, lsn: Lsn, level: Level) -> Result<(), AppendError> {
        let here = match level {
            Level::Written => self.commit_written(lsn, |_| false),
            Level::Synced => self.commit_synced(lsn, |_| false),
        };
        here.expect("the standby stays")
    }

    /// `None` when the caller is to keep away from the disk.
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

    /// Who comes while somebody writes or syncs waits for that sync: what gathers until then is one frame and one sync,
    /// and nobody is called in between.
    fn commit_synced(&self, lsn: Lsn, avoids_disk: fn(&Self) -> bool) -> Option<Result<(), AppendError>> {
        // Who writes is in the way only of what is not written: otherwise those who keep writing would keep us waiting.
        let is_working = || {
            let is_in_the_way = is_busy(&self.syncer) || (self.reached(Level::Written) < lsn && is_busy(&self.writer));
            is_in_the_way && !avoids_disk(self)
        };
        // We wrote, and those who wait for a sync were not called because we are going to sync.
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

    /// How a commit ends, if it does now.
    pub(super) fn outcome(&self, lsn: Lsn, level: Level) -> Option<Result<(), AppendError>> {
        if self.reached(level) >= lsn {
            return Some(Ok(()));
        }
        let failure = self.buffer().failure?;
        // It may have been reached before the failure, after our look.
        let reached = self.reached(level) >= lsn;
        Some(if reached {
            Ok(())
        } else {
            Err(AppendError::Unknown(failure))
        })
    }

    /// Waits for a call, at most for `max_wait`, if somebody is going to call: `is_working` says so while nobody can be
    /// missed, under the mutex that whoever calls takes after its work.
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

    /// Calls those who wait and runs the callbacks of appends that ended. The caller holds no mutex.
    pub(super) fn notify_waiters(&self) {
        self.notify_waiters_at(&[Level::Written, Level::Synced]);
    }

    /// The same, but of those who wait on, only for one of `levels` somebody is called to go on: the caller does the rest.
    fn notify_waiters_at(&self, levels: &[Level]) {
        // Who is between its look and its wait holds the buffer.
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

    /// Runs `work` as the writing thread.
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

    /// Other logs are not to wait for this one. Who waits for the entries learns of a failure.
    fn commit_for_others(&self) {
        let last = Lsn(self.next().0 - 1);
        if self.is_stalled() || self.commit_synced(last, Self::is_stalled).is_none() {
            // Who relied on us looks again.
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
