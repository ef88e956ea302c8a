// SPDX-License-Identifier: Apache-2.0
//! Decides when a partition writes a snapshot: when its journal reaches its bound, a minute has passed, most of what
//! its files hold was settled, or the disk is full.
//!
//! The bound is the size of the messages, so that each byte is written about twice. A snapshot must free a quarter of
//! what the files hold: messages that are only added are written once, and opening reads them from the journal as fast
//! as from a snapshot. On a full disk a snapshot is written as soon as it fits and frees more than it takes; a small one
//! may borrow a file of the drain reserve.

use std::sync::Arc;
use std::time::Duration;

use oxbus_model::caps::{JOURNAL_BYTES_MAX, SNAPSHOT_INTERVAL_MS};
use oxbus_store::file::FileLog;
use oxbus_store::shard_log::ShardLog;

use super::upkeep::UpkeepTarget;
use crate::clock::Deadline;
use crate::shard::Shard;
use crate::shard::journal::Journal;

/// Bytes that a snapshot on a full disk must free: enough for the next segment.
const GAIN_BYTES_MIN: u64 = 256 << 10;
/// How often the files are compared with the messages.
const COMPARE_INTERVAL: Duration = Duration::from_secs(5);
/// Delay before a failed snapshot is retried.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// When the next snapshot of a partition is due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compaction {
    /// When a snapshot is due even for few new entries.
    due: Deadline,
    /// Bytes of unsaved entries at the last count of the messages.
    counted_at: u64,
    /// Bytes of unsaved entries when a snapshot would have freed nothing on a full disk.
    useless_at: Option<u64>,
    /// When the files are compared with the messages again, and the bytes of unsaved entries at the last time.
    compare: Deadline,
    compared_at: u64,
    /// The next attempt, if the last snapshot failed.
    retry: Option<Deadline>,
}

/// A deadline after the longest interval between two snapshots.
pub(super) fn snapshot_deadline() -> Deadline {
    Deadline::after(Some(Duration::from_millis(SNAPSHOT_INTERVAL_MS)))
}

fn is_over(deadline: Deadline) -> bool {
    deadline.remaining() == Some(Duration::ZERO)
}

/// True if a snapshot of `live` bytes frees a quarter of what the files hold.
fn frees_enough(log: &FileLog, live: u64) -> bool {
    log.replaceable_bytes() / 4 * 3 >= live
}

impl Compaction {
    pub(super) fn new() -> Self {
        Self {
            due: snapshot_deadline(),
            counted_at: 0,
            useless_at: None,
            compare: Deadline::after(Some(COMPARE_INTERVAL)),
            compared_at: 0,
            retry: None,
        }
    }

    /// Writes a snapshot of a healthy partition, if one is due.
    pub(super) fn check(&mut self, shard: &Arc<Shard>, journal: &Journal, log: &FileLog, target: &dyn UpkeepTarget) {
        if self.retry.is_some_and(|retry| !is_over(retry)) {
            return;
        }
        let saved = if log.is_full() {
            self.make_room(shard, journal, log, target)
        } else if self.check_due(shard, journal, log, target) || self.is_mostly_settled(shard, journal, log, target) {
            Some(target.save(shard))
        } else {
            None
        };
        if let Some(saved) = saved {
            *self = Self::new();
            self.retry = (!saved).then(|| Deadline::after(Some(RETRY_AFTER)));
        }
    }

    fn check_due(&mut self, shard: &Arc<Shard>, journal: &Journal, log: &FileLog, target: &dyn UpkeepTarget) -> bool {
        let (unsaved, last) = (journal.unsaved_bytes(), journal.snapshot_bytes());
        let is_late = is_over(self.due) && unsaved > last / 16;
        if is_late {
            self.due = snapshot_deadline();
        } else if !journal.is_due(0) || !self.note_growth(unsaved) {
            return false;
        }
        let live = target.snapshot_bytes(shard);
        // There may be fewer messages than at the last snapshot.
        let is_long = journal.is_due(live.min(last));
        (is_late || is_long) && (journal.keeps_locations() || frees_enough(log, live))
    }

    /// True if the messages take less than half of what the files hold. Settlements take few bytes of entries, so their
    /// number may not suffice for a snapshot.
    fn is_mostly_settled(
        &mut self,
        shard: &Arc<Shard>,
        journal: &Journal,
        log: &FileLog,
        target: &dyn UpkeepTarget,
    ) -> bool {
        let unsaved = journal.unsaved_bytes();
        if unsaved == self.compared_at || !is_over(self.compare) {
            return false;
        }
        (self.compared_at, self.compare) = (unsaved, Deadline::after(Some(COMPARE_INTERVAL)));
        let held = log.replaceable_bytes();
        held > JOURNAL_BYTES_MAX && held - JOURNAL_BYTES_MAX > 2 * target.snapshot_bytes(shard)
    }

    /// Returns true, and notes the new size, if an eighth more was written since the last count. Counting the messages
    /// of many entities takes time, so they are not counted more often.
    fn note_growth(&mut self, unsaved: u64) -> bool {
        let has_grown = unsaved > self.counted_at + self.counted_at / 8;
        if has_grown {
            self.counted_at = unsaved;
        }
        has_grown
    }

    /// Writes a snapshot on a full disk if that frees space. Returns `None` if it would not, or does not fit.
    fn make_room(
        &mut self,
        shard: &Arc<Shard>,
        journal: &Journal,
        log: &FileLog,
        target: &dyn UpkeepTarget,
    ) -> Option<bool> {
        let unsaved = journal.unsaved_bytes();
        if self.useless_at == Some(unsaved) {
            return None;
        }
        let bytes = target.snapshot_bytes(shard);
        if log.replaceable_bytes() < bytes + GAIN_BYTES_MIN {
            self.useless_at = Some(unsaved);
            return None;
        }
        if bytes <= log.lendable_bytes() {
            return Some(log.with_lent_reserve(|| target.save(shard)));
        }
        // Other partitions may free space, so the next check tries again.
        let fits = bytes <= log.free_bytes().unwrap_or(0);
        fits.then(|| {
            let saved = target.save(shard);
            // Sends thus work again at once, not only after the next check.
            let _ = log.prepare();
            saved
        })
    }
}

/// Writes a snapshot of a partition after open if its files are much larger than its messages: each open begins a
/// segment, and many short segments may never reach the bound.
pub(crate) fn compact_opened(shard: &Arc<Shard>, log: &FileLog, target: &dyn UpkeepTarget) {
    if log.replaceable_bytes() > 2 * target.snapshot_bytes(shard) + GAIN_BYTES_MIN {
        // If it fails, the files stay, and they contain everything.
        target.save(shard);
    }
}
