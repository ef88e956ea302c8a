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

use oxbus_model::sync::whole;

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
            _ if self.is_suspect() => None,
            Level::Written => self.commit_written(lsn, Self::is_suspect),
            Level::Synced => {
                let caller = self.asking.enter();
                if let Some(patience) = caller.patience()
                    && self.outcome(lsn, level).is_none()
                {
                    self.asking.ask();
                    let comes = || self.asking.is_asked() && !self.is_suspect();
                    self.wait(lsn, level, WakeRole::Follows, Some(patience), comes);
                }
                self.commit_synced(lsn, Self::is_suspect)
            }
        };
        here.unwrap_or_else(|| self.commit_aside(lsn, level, wait))
    }

    /// The same by the standby, which goes to the disk whatever it does.
    pub(super) fn commit_here(&self, lsn: Lsn, level: Level) -> Result<(), AppendError> {
        let here = match level {
            Level::Written => self.commit_written(lsn, |_| false),
            Level::Synced => self.commit_synced(lsn, |_| false),
        };
        here.expect("the standby stays")
    }

    /// `None` when the caller is to keep away from the disk.
    fn commit_written(&self, lsn: Lsn, keeps_away: fn(&Self) -> bool) -> Option<Result<(), AppendError>> {
        loop {
            if let Some(result) = self.outcome(lsn, Level::Written) {
                return Some(result);
            }
            if keeps_away(self) {
                return None;
            }
            if let Ok(mut writer) = self.writer.try_lock() {
                self.write_pending(&mut writer, Level::Written);
                drop(writer);
                self.settle_up();
            } else {
                let is_writing = || is_busy(&self.writer) && !keeps_away(self);
                self.wait(lsn, Level::Written, WakeRole::Leads, None, is_writing);
            }
        }
    }

    /// Who comes while somebody writes or syncs waits for that sync: what gathers until then is one frame and one sync,
    /// and nobody is called in between.
    fn commit_synced(&self, lsn: Lsn, keeps_away: fn(&Self) -> bool) -> Option<Result<(), AppendError>> {
        // Who writes is in the way only of what is not written: otherwise those who keep writing would keep us waiting.
        let is_working = || {
            let is_in_the_way = is_busy(&self.syncer) || (self.reached(Level::Written) < lsn && is_busy(&self.writer));
            is_in_the_way && !keeps_away(self)
        };
        // We wrote, and those who wait for a sync were not called because we are going to sync.
        let mut owes_call = false;
        let result = loop {
            if let Some(result) = self.outcome(lsn, Level::Synced) {
                break Some(result);
            }
            if keeps_away(self) {
                break None;
            }
            if is_busy(&self.syncer) {
                self.wait(lsn, Level::Synced, WakeRole::Leads, None, is_working);
            } else if self.reached(Level::Written) < lsn {
                if let Ok(mut writer) = self.writer.try_lock() {
                    self.write_pending(&mut writer, Level::Synced);
                    drop(writer);
                    self.settle(&[Level::Written]);
                    owes_call = true;
                } else {
                    self.wait(lsn, Level::Synced, WakeRole::Leads, None, is_working);
                }
            } else if let Ok(syncing) = self.syncer.try_lock() {
                self.sync_written();
                drop(syncing);
                self.settle_up();
                owes_call = false;
            }
        };
        if owes_call {
            self.settle_up();
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

    /// Waits for a call, at most for `longest`, if somebody is going to call: `is_working` says so while nobody can be
    /// missed, under the mutex that whoever calls takes after its work.
    pub(super) fn wait(
        &self,
        lsn: Lsn,
        level: Level,
        role: WakeRole,
        longest: Option<Duration>,
        is_working: impl FnOnce() -> bool,
    ) {
        let mut buffer = self.buffer();
        if self.reached(level) >= lsn || buffer.failure.is_some() || !is_working() {
            return;
        }
        let seat = buffer.waiters.add(lsn, level, role);
        drop(buffer);
        if !seat.wait(longest) {
            self.buffer().waiters.remove(&seat);
        }
    }

    /// Calls those who wait and runs the callbacks of appends that ended. The caller holds no mutex.
    pub(super) fn settle_up(&self) {
        self.settle(&[Level::Written, Level::Synced]);
    }

    /// The same, but of those who wait on, only for one of `levels` somebody is called to go on: the caller does the rest.
    fn settle(&self, levels: &[Level]) {
        // Who is between its look and its wait holds the buffer.
        let mut buffer = self.buffer();
        let has_failed = buffer.failure.is_some();
        let is_over = |level, lsn| has_failed || self.reached(level) >= lsn;
        let called = buffer.waiters.call(is_over, levels);
        let ended = std::mem::take(&mut buffer.ended);
        drop(buffer);
        for seat in called {
            seat.call();
        }
        for (done, result) in ended {
            done(result);
        }
    }

    /// Runs `work` as the writing thread.
    pub(in crate::file) fn with_writer<R>(&self, work: impl FnOnce(&mut Writer) -> R) -> R {
        let mut writer = whole(self.writer.lock());
        let turn = self.turn();
        let result = work(&mut writer);
        drop(turn);
        drop(writer);
        self.settle_up();
        result
    }
}

impl CommitTarget for GroupCommit {
    fn asking(&self) -> &SyncRequest {
        &self.asking
    }

    /// Other logs are not to wait for this one. Who waits for the entries learns of a failure.
    fn commit_for_others(&self) {
        let last = Lsn(self.next().0 - 1);
        if self.is_suspect() || self.commit_synced(last, Self::is_suspect).is_none() {
            // Who relied on us looks again.
            self.wake();
        }
    }

    fn wake(&self) {
        let called = self.buffer().waiters.call(|_, _| true, &[]);
        for seat in called {
            seat.call();
        }
    }
}
