// SPDX-License-Identifier: Apache-2.0
//! Appends to the log of a shard, in the order of the message numbers.
//!
//! Numbers are assigned and journaled under one mutex, so the order of the journal is the order of the numbers. No
//! thread waits for a sync under this mutex; an append may write a full buffer or create the next file.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use oxbus_model::caps::JOURNAL_BYTES_MAX;
use oxbus_model::options::Durability;
use oxbus_model::sync::ignore_poison;
use oxbus_store::Wait;
use oxbus_store::extent::ExtentLocation;
use oxbus_store::shard_log::{AppendError, Level, Lsn, ShardLog, SpaceClass};
use oxbus_store::suspended::until;

use super::fold::fold;
use crate::shard::ShardHealth;
use crate::shard::guarded::{Guarded, StateGuard};

/// The journal of a shard.
pub struct Journal {
    log: Guarded<Arc<dyn ShardLog>>,
    /// True if messages in memory have their location on disk, too.
    keeps_locations: bool,
    /// Durability of calls that do not request one.
    durability: Durability,
    /// Bytes of entries since the last snapshot.
    unsaved_bytes: AtomicU64,
    /// Bytes that were written for the last snapshot.
    snapshot_bytes: AtomicU64,
    /// Time of the last snapshot; at first, of the open. A panic cannot leave it half set.
    snapshot_at: Mutex<Instant>,
    snapshot_failures: AtomicU64,
    /// Called when a snapshot may be due: the journal has grown or the disk is full.
    growth_callback: OnceLock<GrowthCallback>,
    /// Value of `unsaved_bytes` at which `growth_callback` is called.
    growth_threshold: AtomicU64,
    /// Waits of at least this many milliseconds are logged; 0 logs none.
    slow_call_ms: AtomicU64,
}

/// Called when a snapshot may be due. It must not block.
pub type GrowthCallback = Arc<dyn Fn() + Send + Sync>;

/// Entries before the next snapshot, as a multiple of the last one, if that refers to bodies where they are. It is small
/// beside the messages, and a walk over all of them.
const ENTRIES_PER_SMALL_SNAPSHOT: u64 = 8;

/// After a snapshot of `snapshot_bytes`, the next one begins at this many bytes of entries. So the journal stays
/// within its limit while the snapshot is written.
fn due_at(snapshot_bytes: u64, refers_to_bodies: bool) -> u64 {
    let entries = if refers_to_bodies {
        snapshot_bytes.saturating_mul(ENTRIES_PER_SMALL_SNAPSHOT)
    } else {
        snapshot_bytes
    };
    JOURNAL_BYTES_MAX.max(entries) / 4 * 3
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal")
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

/// The exclusive right to append, and thus to assign numbers.
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

/// An appended entry that may not be durable yet.
#[derive(Clone)]
#[must_use = "a call may be acknowledged only once its entry has reached its level"]
pub struct PendingEntry {
    log: Arc<dyn ShardLog>,
    /// Its number.
    pub lsn: Lsn,
    /// Where its bytes can be read back once they are written.
    pub location: Option<ExtentLocation>,
}

impl PendingEntry {
    /// True if it was appended to the log in use.
    pub fn belongs_to(&self, append_guard: &AppendGuard<'_>) -> bool {
        Arc::ptr_eq(&self.log, &append_guard.log)
    }
}

impl Journal {
    /// A journal over a log with `unsaved_bytes` of entries after a snapshot of `snapshot_bytes`.
    pub fn new(log: Arc<dyn ShardLog>, durability: Durability, unsaved_bytes: u64, snapshot_bytes: u64) -> Self {
        let keeps_locations = log.record_places().is_some();
        Self {
            keeps_locations,
            log: Guarded::new(log),
            durability,
            unsaved_bytes: AtomicU64::new(unsaved_bytes),
            snapshot_bytes: AtomicU64::new(snapshot_bytes),
            snapshot_at: Mutex::new(oxbus_system::instant()),
            snapshot_failures: AtomicU64::new(0),
            growth_callback: OnceLock::new(),
            growth_threshold: AtomicU64::new(due_at(snapshot_bytes, keeps_locations)),
            slow_call_ms: AtomicU64::new(0),
        }
    }

    /// Sets the callback for a due snapshot. Only the first call has an effect.
    pub fn on_growth(&self, callback: GrowthCallback) {
        let _ = self.growth_callback.set(callback);
    }

    /// Logs waits of at least `ms` milliseconds; 0 logs none.
    pub fn set_slow_call_ms(&self, ms: u64) {
        self.slow_call_ms.store(ms, Ordering::Relaxed);
    }

    /// Waits of at least this many milliseconds are logged; 0 logs none.
    pub(crate) fn slow_call_ms(&self) -> u64 {
        self.slow_call_ms.load(Ordering::Relaxed)
    }

    #[cold]
    fn notify_growth(&self) {
        if let Some(callback) = self.growth_callback.get() {
            callback();
        }
    }

    /// True if messages in memory have their location on disk, too, so that snapshots can refer to it.
    pub fn keeps_locations(&self) -> bool {
        self.keeps_locations
    }

    /// Durability of calls that do not request one.
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

    /// True if a snapshot of `snapshot_bytes` is due: the entries since the last one have about as many bytes. So each
    /// byte is written about twice.
    pub fn is_due(&self, snapshot_bytes: u64) -> bool {
        self.unsaved_bytes() >= due_at(snapshot_bytes, self.keeps_locations)
    }

    /// Notes that a snapshot of `snapshot_bytes` covers the entries counted in `unsaved_bytes`.
    pub fn snapshot_written(&self, unsaved_bytes: u64, snapshot_bytes: u64) {
        self.unsaved_bytes.fetch_sub(unsaved_bytes, Ordering::Relaxed);
        self.snapshot_bytes.store(snapshot_bytes, Ordering::Relaxed);
        let threshold = due_at(snapshot_bytes, self.keeps_locations);
        self.growth_threshold.store(threshold, Ordering::Relaxed);
        *ignore_poison(self.snapshot_at.lock()) = oxbus_system::instant();
    }

    /// Time since the last snapshot, or since the open if there was none.
    pub fn snapshot_age(&self) -> Duration {
        ignore_poison(self.snapshot_at.lock()).elapsed()
    }

    /// Notes that a snapshot failed.
    pub fn snapshot_failed(&self) {
        self.snapshot_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of snapshots that failed since the open.
    pub fn snapshot_failures(&self) -> u64 {
        self.snapshot_failures.load(Ordering::Relaxed)
    }

    /// True while the disk has no space for entries that add messages.
    pub fn is_full(&self) -> bool {
        self.log().is_full()
    }

    /// Bytes on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.log().disk_bytes()
    }

    /// The log in use.
    pub fn log(&self) -> Arc<dyn ShardLog> {
        self.log.get_cloned()
    }

    /// The last appended entry. Once it has reached a level, all entries before it have too.
    pub fn last_entry(&self) -> PendingEntry {
        let log = self.log();
        PendingEntry {
            lsn: last_of(&*log),
            log,
            location: None,
        }
    }

    /// Locks the journal for an append. `health` is the health of its shard.
    #[inline]
    pub fn lock_for_append<'a>(&'a self, health: &'a ShardHealth) -> AppendGuard<'a> {
        AppendGuard {
            journal: self,
            log: self.log.lock(health),
        }
    }

    /// Locks the journal without waiting; `None` if another thread holds it.
    pub fn try_lock_for_append<'a>(&'a self, health: &'a ShardHealth) -> Option<AppendGuard<'a>> {
        Some(AppendGuard {
            journal: self,
            log: self.log.try_lock(health)?,
        })
    }
}

impl Journal {
    /// Locks the journal with space for an entry of `bytes` bytes. Waits for the space without the lock.
    pub fn lock_with_space<'a>(
        &'a self,
        health: &'a ShardHealth,
        space_class: SpaceClass,
        bytes: usize,
        wait: &Wait<'_>,
    ) -> Result<AppendGuard<'a>, AppendError> {
        loop {
            let append_guard = self.lock_for_append(health);
            if append_guard.log.has_room(bytes, space_class) {
                return Ok(append_guard);
            }
            let log = append_guard.log();
            drop(append_guard);
            log.make_room(bytes, space_class, wait)?;
        }
    }
}

impl AppendGuard<'_> {
    /// Appends an entry. After an error nothing was written.
    pub fn append(&self, space_class: SpaceClass, entry: &[u8], wait: &Wait<'_>) -> Result<PendingEntry, AppendError> {
        let lsn = self.log.next_lsn();
        // The entry is in the buffer until the caller waits for its durability.
        let location = match self.log.append(lsn, entry, space_class, Level::Written, None, wait) {
            Err(AppendError::Full) if space_class == SpaceClass::Frees && self.fold()? => {
                return self.append(space_class, entry, wait);
            }
            Err(AppendError::Full) => {
                self.journal.notify_growth();
                return Err(AppendError::Full);
            }
            appended => appended?,
        };
        let bytes = entry.len() as u64;
        let unsaved = self.journal.unsaved_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if unsaved >= self.journal.growth_threshold.load(Ordering::Relaxed) {
            self.journal.growth_threshold.store(u64::MAX, Ordering::Relaxed);
            self.journal.notify_growth();
        }
        Ok(PendingEntry {
            log: Arc::clone(&self.log),
            lsn,
            location,
        })
    }

    /// Makes space on a full disk for entries that add nothing. Returns false if it gains none.
    #[cold]
    fn fold(&self) -> Result<bool, AppendError> {
        self.log.fold(&mut |entries| {
            // This process wrote them, or checked them when it read them.
            fold(entries).expect("entries of the journal are valid events")
        })
    }

    /// The log in use.
    pub fn log(&self) -> Arc<dyn ShardLog> {
        Arc::clone(&self.log)
    }

    /// Number of the last appended entry.
    pub fn last_lsn(&self) -> Lsn {
        last_of(&**self.log)
    }

    /// Continues with another log after the current one failed.
    pub fn replace(&mut self, log: Arc<dyn ShardLog>) {
        *self.log = log;
        self.journal.unsaved_bytes.store(0, Ordering::Relaxed);
    }
}

impl PendingEntry {
    /// Waits until the entry and all before it have the given durability.
    pub fn wait(&self, durability: Durability, wait: &Wait<'_>) -> Result<(), AppendError> {
        self.log.commit(self.lsn, level(durability), wait)
    }

    /// Suspends a call until [`PendingEntry::wait`] returns without a wait for a store. Ends at once if the caller's
    /// thread waits.
    pub async fn until_committed(&self, wait: &Wait<'_>) {
        if wait.suspends() {
            until(wait, |waker| self.log.is_committed(self.lsn, Level::Synced, waker)).await;
        }
    }

    /// Epoch and number of the entry, for fencing it later.
    pub fn epoch_and_lsn(&self) -> (u64, Lsn) {
        (self.log.epoch(), self.lsn)
    }

    /// True once the entry and all before it are synced.
    pub fn is_synced(&self) -> bool {
        self.log.reached(Level::Synced) >= self.lsn
    }

    /// Starts a sync if the durability needs one, without waiting for it.
    pub fn begin_sync(&self, durability: Durability) {
        if level(durability) == Level::Synced {
            self.log.commit_soon();
        }
    }

    /// Waits for an earlier entry of the same log.
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
