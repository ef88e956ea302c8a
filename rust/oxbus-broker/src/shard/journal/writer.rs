// SPDX-License-Identifier: Apache-2.0
//! The log of a shard as its cells write it: in one order, with what is not there yet to wait for.
//!
//! Numbers of messages are given out and written under one mutex, so the order of the journal is the order of the
//! numbers. Nobody waits for a sync under it; an append may write a full buffer, or make the next file.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use oxbus_model::caps::JOURNAL_BYTES_MAX;
use oxbus_model::options::Durability;
use oxbus_store::Wait;
use oxbus_store::extent::ExtentLocation;
use oxbus_store::shard_log::{AppendError, Level, Lsn, ShardLog, SpaceClass};

use super::fold::fold;
use crate::shard::ShardHealth;
use crate::shard::guarded::{Guarded, StateGuard};

/// The journal of a shard.
pub struct Journal {
    log: Guarded<Arc<dyn ShardLog>>,
    /// What a caller gets that asks for nothing.
    durability: Durability,
    /// Bytes of entries since the last snapshot.
    unsaved_bytes: AtomicU64,
    /// Bytes of the last snapshot.
    snapshot_bytes: AtomicU64,
    /// Called when the journal has grown, or the disk is full: a snapshot may be due.
    grown: OnceLock<GrowthCallback>,
    /// Bytes of entries since the last snapshot at which it is called.
    grown_at: AtomicU64,
    /// Milliseconds from which a wait is logged; 0 for never.
    slow_call_ms: AtomicU64,
}

/// What is called when a snapshot may be due. It must not wait.
pub type GrowthCallback = Arc<dyn Fn() + Send + Sync>;

/// Bytes of entries since the last snapshot, of about so many bytes, at which the next one is begun: early enough that the
/// journal keeps its bound while it is written.
fn due_at(snapshot_bytes: u64) -> u64 {
    JOURNAL_BYTES_MAX.max(snapshot_bytes) / 4 * 3
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal")
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

/// The right to append, and with it the order of numbers.
pub struct AppendGuard<'a> {
    journal: &'a Journal,
    log: StateGuard<'a, Arc<dyn ShardLog>>,
}

impl std::fmt::Debug for PendingEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending")
            .field("lsn", &self.lsn)
            .finish_non_exhaustive()
    }
}

/// An entry that is on its way.
#[derive(Clone)]
#[must_use = "nothing may be acknowledged before it has reached its level"]
pub struct PendingEntry {
    log: Arc<dyn ShardLog>,
    /// Its number.
    pub lsn: Lsn,
    /// Where its bytes can be read back once they are written.
    pub location: Option<ExtentLocation>,
}

impl PendingEntry {
    /// True when it is on its way to the log that is in use.
    pub fn belongs_to(&self, append_guard: &AppendGuard<'_>) -> bool {
        Arc::ptr_eq(&self.log, &append_guard.log)
    }
}

impl Journal {
    /// A journal over a log that holds so many bytes which no snapshot covers, and a snapshot of so many.
    pub fn new(log: Arc<dyn ShardLog>, durability: Durability, unsaved_bytes: u64, snapshot_bytes: u64) -> Self {
        Self {
            log: Guarded::new(log),
            durability,
            unsaved_bytes: AtomicU64::new(unsaved_bytes),
            snapshot_bytes: AtomicU64::new(snapshot_bytes),
            grown: OnceLock::new(),
            grown_at: AtomicU64::new(due_at(snapshot_bytes)),
            slow_call_ms: AtomicU64::new(0),
        }
    }

    /// Has `grown` called when a snapshot may be due. Once.
    pub fn on_growth(&self, grown: GrowthCallback) {
        let _ = self.grown.set(grown);
    }

    /// Has waits that take so many milliseconds or more logged; 0 for none.
    pub fn set_slow_call_ms(&self, ms: u64) {
        self.slow_call_ms.store(ms, Ordering::Relaxed);
    }

    /// Milliseconds from which a wait is logged; 0 for never.
    pub(crate) fn slow_call_ms(&self) -> u64 {
        self.slow_call_ms.load(Ordering::Relaxed)
    }

    #[cold]
    fn notify_growth(&self) {
        if let Some(grown) = self.grown.get() {
            grown();
        }
    }

    /// What a caller gets that asks for nothing.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Bytes of entries since the last snapshot.
    pub fn unsaved_bytes(&self) -> u64 {
        self.unsaved_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the last snapshot.
    pub fn snapshot_bytes(&self) -> u64 {
        self.snapshot_bytes.load(Ordering::Relaxed)
    }

    /// True when enough was written since the last snapshot for one of `snapshot_bytes`: about as much as it has, so that
    /// each byte is written about twice.
    pub fn is_due(&self, snapshot_bytes: u64) -> bool {
        self.unsaved_bytes() >= due_at(snapshot_bytes)
    }

    /// Notes that a snapshot of `snapshot_bytes` holds what was written until `unsaved_bytes` was read.
    pub fn snapshot_written(&self, unsaved_bytes: u64, snapshot_bytes: u64) {
        self.unsaved_bytes.fetch_sub(unsaved_bytes, Ordering::Relaxed);
        self.snapshot_bytes.store(snapshot_bytes, Ordering::Relaxed);
        self.grown_at.store(due_at(snapshot_bytes), Ordering::Relaxed);
    }

    /// True while the disk has no room for entries that add.
    pub fn is_full(&self) -> bool {
        self.log().is_full()
    }

    /// Bytes on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.log().disk_bytes()
    }

    /// The log that is in use.
    pub fn log(&self) -> Arc<dyn ShardLog> {
        self.log.get_cloned()
    }

    /// The last entry, whoever appended it: once it is safe, so is all before it.
    pub fn last(&self) -> PendingEntry {
        let log = self.log();
        PendingEntry {
            lsn: last_of(&*log),
            log,
            location: None,
        }
    }

    /// Takes the right to append to the journal of the shard whose health that is.
    #[inline]
    pub fn lock_for_append<'a>(&'a self, health: &'a ShardHealth) -> AppendGuard<'a> {
        AppendGuard {
            journal: self,
            log: self.log.lock(health),
        }
    }
}

impl Journal {
    /// The same for an entry of so many bytes: waits for its room first, while others may append, when the disk may hang.
    pub fn lock_with_space<'a>(
        &'a self,
        health: &'a ShardHealth,
        room: SpaceClass,
        bytes: usize,
        wait: &Wait<'_>,
    ) -> Result<AppendGuard<'a>, AppendError> {
        loop {
            let append_guard = self.lock_for_append(health);
            if append_guard.log.has_room(bytes, room) {
                return Ok(append_guard);
            }
            let log = append_guard.log();
            drop(append_guard);
            log.make_room(bytes, room, wait)?;
        }
    }
}

impl AppendGuard<'_> {
    /// Appends an entry. An error means that nothing was written.
    pub fn append(&self, room: SpaceClass, entry: &[u8], wait: &Wait<'_>) -> Result<PendingEntry, AppendError> {
        let lsn = self.log.next_lsn();
        // Whoever waits asks for its level; until then the entry is in the buffer like any other.
        let location = match self.log.append(lsn, entry, room, Level::Written, None, wait) {
            Err(AppendError::Full) if room == SpaceClass::Frees && self.fold()? => {
                return self.append(room, entry, wait);
            }
            Err(AppendError::Full) => {
                self.journal.notify_growth();
                return Err(AppendError::Full);
            }
            appended => appended?,
        };
        let bytes = entry.len() as u64;
        let unsaved = self.journal.unsaved_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if unsaved >= self.journal.grown_at.load(Ordering::Relaxed) {
            self.journal.grown_at.store(u64::MAX, Ordering::Relaxed);
            self.journal.notify_growth();
        }
        Ok(PendingEntry {
            log: Arc::clone(&self.log),
            lsn,
            location,
        })
    }

    /// Makes room on a full disk for entries that drain; false when there is none to be made.
    #[cold]
    fn fold(&self) -> Result<bool, AppendError> {
        self.log.fold(&mut |entries| {
            // They were written by this code, and checked when they were read.
            fold(entries).expect("entries of the journal are events")
        })
    }

    /// The log that is in use.
    pub fn log(&self) -> Arc<dyn ShardLog> {
        Arc::clone(&self.log)
    }

    /// The last entry that was appended, to be waited for.
    pub fn pending(&self) -> PendingEntry {
        PendingEntry {
            log: Arc::clone(&self.log),
            lsn: self.last(),
            location: None,
        }
    }

    /// The last entry that was appended.
    pub fn last(&self) -> Lsn {
        last_of(&**self.log)
    }

    /// Goes on with another log: the one before failed.
    pub fn replace(&mut self, log: Arc<dyn ShardLog>) {
        *self.log = log;
        self.journal.unsaved_bytes.store(0, Ordering::Relaxed);
    }
}

impl PendingEntry {
    /// Waits until the entry, and all before it, have reached a level.
    pub fn wait(&self, durability: Durability, wait: &Wait<'_>) -> Result<(), AppendError> {
        self.log.commit(self.lsn, level(durability), wait)
    }

    /// The epoch and the number of the entry, for who leaves it behind.
    pub fn epoch_and_lsn(&self) -> (u64, Lsn) {
        (self.log.epoch(), self.lsn)
    }

    /// True once the entry, and all before it, are synced.
    pub fn is_synced(&self) -> bool {
        self.log.reached(Level::Synced) >= self.lsn
    }

    /// Has the entry brought to a level while the caller waits for others.
    pub fn begin(&self, durability: Durability) {
        if level(durability) == Level::Synced {
            self.log.commit_soon();
        }
    }

    /// The same for an earlier entry of the same log.
    pub fn wait_for(&self, lsn: Lsn, durability: Durability, wait: &Wait<'_>) -> Result<(), AppendError> {
        self.log.commit(lsn.min(self.lsn), level(durability), wait)
    }
}

fn last_of(log: &dyn ShardLog) -> Lsn {
    Lsn(log.next_lsn().0 - 1)
}

fn level(durability: Durability) -> Level {
    match durability {
        Durability::Fsync => Level::Synced,
        Durability::Os | Durability::Memory => Level::Written,
    }
}
