// SPDX-License-Identifier: Apache-2.0
//! The files of an open namespace.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use oxbus_model::options::Durability;
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::disk::Disk;
use oxbus_store::file::{FileLog, FileLogOptions, Flusher, Owner};
use oxbus_store::injected::Injection;
use oxbus_store::shard_log::{Chunks, ShardLog};

use super::Recovery;
use super::held_catalog::HeldCatalog;
use super::open::{own, shard_dir};

/// The files of one shard.
pub struct ShardStore {
    pub(super) log: Mutex<Arc<FileLog>>,
    pub(super) options: FileLogOptions,
    pub(super) flusher: Arc<Flusher>,
    pub(super) injection: Arc<Injection>,
    /// Read and set under the log's mutex.
    pub(super) closed: AtomicBool,
}

/// The files of a namespace.
pub struct Stores {
    pub(super) dir: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
    /// Faults of `disk`, which serves the catalog, stages and bulk loads. Journals have their own.
    pub(super) injection: Arc<Injection>,
    pub(super) catalog: Mutex<HeldCatalog>,
    /// By partition; `None` for partitions that are not open here.
    pub(super) shards: Vec<Option<ShardStore>>,
    /// Once set, another process may own the namespace. Read and set under the catalog's mutex.
    pub(super) closed: AtomicBool,
    /// Ownership locks, dropped when the namespace closes.
    pub(super) owners: Mutex<Vec<Owner>>,
    pub(super) owns_all: bool,
    /// True if the disk is a real file system, whose directories have ownership locks.
    pub(super) is_local: bool,
    pub(super) durability: Durability,
    pub(super) recovery: Recovery,
    pub(super) waiting_loads: OnceLock<Vec<String>>,
}

/// Locks a mutex of [`Stores`]. Each guards a value that is replaced after the disk has it, so it is valid after a
/// panic.
pub(super) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    ignore_poison(mutex.lock())
}

impl ShardStore {
    /// The current log.
    pub fn log(&self) -> Arc<FileLog> {
        Arc::clone(&guard(&self.log))
    }

    /// Faults that tests inject into its disk.
    pub fn injection(&self) -> &Injection {
        &self.injection
    }

    /// Starts a new journal from a snapshot and makes it the current log.
    pub fn restart_journal(&self, chunks: Chunks<'_>) -> io::Result<Arc<dyn ShardLog>> {
        let mut log = guard(&self.log);
        if self.closed.load(Ordering::Relaxed) {
            return Err(io::Error::other("the namespace is closed"));
        }
        let restarted = Arc::new(FileLog::restart(&log, self.options, chunks)?);
        self.flusher.add(&restarted);
        *log = Arc::clone(&restarted);
        Ok(restarted)
    }
}

impl Stores {
    /// The directory of the namespace.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file system of the directory.
    pub fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// Faults that tests inject into all files but the journals.
    pub fn injection(&self) -> &Injection {
        &self.injection
    }

    /// Takes ownership of a partition that is not open here until the result is dropped.
    pub(crate) fn own(&self, partition: u16) -> Result<Option<Owner>> {
        let dir = shard_dir(&self.dir, partition);
        self.is_local.then(|| own(&dir)).transpose()
    }

    /// Durability of calls that do not ask for a level.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// The result of recovery at open.
    pub fn recovery(&self) -> Recovery {
        Recovery {
            waiting_loads: self.waiting_loads.get().cloned().unwrap_or_default(),
            ..self.recovery.clone()
        }
    }

    /// Sets the bulk loads that could not be taken over. Only the first call counts.
    pub(crate) fn set_waiting_loads(&self, loads: Vec<String>) {
        let _ = self.waiting_loads.set(loads);
    }

    /// The files of a partition that is open here.
    pub fn shard(&self, partition: u16) -> Option<&ShardStore> {
        self.shards.get(usize::from(partition))?.as_ref()
    }

    /// Bytes of all journals and snapshots on disk.
    pub fn disk_bytes(&self) -> u64 {
        let open = self.shards.iter().flatten();
        open.map(|shard| shard.log().disk_bytes()).sum()
    }

    /// True if this process owns all partitions, and with them the catalog.
    pub fn owns_all(&self) -> bool {
        self.owns_all
    }

    /// Fails unless this process owns all partitions: a change of entities must hold for all of them.
    pub fn check_owns_all(&self) -> Result<()> {
        if self.owns_all {
            return Ok(());
        }
        let detail = format!(
            "only a process that owns all partitions can change entities; open the namespace without partitions_owned: `{}`",
            self.dir.display()
        );
        Err(Error::new(ErrorKind::PartitionUnavailable, detail))
    }

    /// Closes the journals and releases the directory.
    pub fn close(&self) {
        for shard in self.shards.iter().flatten() {
            let log = guard(&shard.log);
            shard.closed.store(true, Ordering::Relaxed);
            let last = Arc::clone(&log);
            drop(log);
            // Calls that wait for an entry get the error themselves.
            let _ = last.close();
        }
        let mut catalog = guard(&self.catalog);
        if !self.closed.swap(true, Ordering::Relaxed) {
            self.settle_catalog(&mut catalog);
        }
        drop(catalog);
        self.disk.release();
        guard(&self.owners).clear();
    }
}
