// SPDX-License-Identifier: Apache-2.0
//! Syncs in a store: a caller begins one and does not wait inside the store, which takes milliseconds at least and may
//! be away for hours. Each sync covers what was written before it, and several may be in progress.

use std::sync::Arc;

use super::GroupCommit;
use crate::shard_log::Level;

impl GroupCommit {
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
