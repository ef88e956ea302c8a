// SPDX-License-Identifier: Apache-2.0
//! Syncs of what is written. A caller of a disk waits inside its sync. A store takes milliseconds at least and may be
//! away for hours, so there a caller only begins a sync. Each covers what was written before it, and several may be in
//! progress.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::GroupCommit;
use crate::disk::DiskFile;
use crate::shard_log::{Level, LogFailure, Lsn};

impl GroupCommit {
    /// Syncs what is written.
    pub(super) fn sync_written(&self) {
        let Some((file, target)) = self.take_unsynced() else {
            return;
        };
        let _guard = self.enter_disk();
        let began = self.sync_begins();
        self.sync_ended(target, file.sync(), began);
    }

    /// The file to sync, and the last entry in it, unless nothing is to be synced.
    fn take_unsynced(&self) -> Option<(Arc<dyn DiskFile>, Lsn)> {
        let mut buffer = self.buffer();
        if buffer.failure.is_some() {
            return None;
        }
        buffer.unsynced.take()
    }

    /// The time, if syncs are timed.
    fn sync_begins(&self) -> Option<Instant> {
        self.sync_times.get().map(|_| oxbus_system::instant())
    }

    /// Records the outcome of a sync of the entries up to `target`.
    fn sync_ended(&self, target: Lsn, synced: io::Result<()>, began: Option<Instant>) {
        match synced {
            Ok(()) => self.advance(Level::Synced, target, None),
            Err(error) => self.fail(LogFailure::of(&error)),
        }
        if let Some((times, began)) = self.sync_times.get().zip(began) {
            times.record(began.elapsed());
        }
    }

    /// Writes what is in the buffer and begins its sync, unless another thread is about to.
    pub(super) fn begin_sync(self: &Arc<Self>) {
        loop {
            let Ok(mut writer) = self.writer.try_lock() else {
                // The thread that writes looks at the buffer again.
                return;
            };
            self.write_pending(&mut writer, Level::Synced);
            drop(writer);
            self.sync_in_background();
            let buffer = self.buffer();
            if buffer.entries == 0 || buffer.failure.is_some() {
                return;
            }
        }
    }

    /// Begins a sync of what is written.
    fn sync_in_background(self: &Arc<Self>) {
        let Some((file, target)) = self.take_unsynced() else {
            return;
        };
        let (log, standby) = (Arc::downgrade(self), Arc::clone(&self.standby));
        standby.begin_operation();
        let began = self.sync_begins();
        file.sync_later(Box::new(move |synced| {
            standby.end_operation();
            // Nobody waits for the entries of a log that is gone.
            if let Some(log) = log.upgrade() {
                log.sync_ended(target, synced, began);
                log.notify_waiters_at(&[]);
            }
        }));
    }
}
