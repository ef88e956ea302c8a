// SPDX-License-Identifier: Apache-2.0
//! The files of an open namespace.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use oxbus_model::options::Durability;
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Effect, Error, ErrorKind, IdentityKey, Result};
use oxbus_store::disk::Disk;
use oxbus_store::file::{Catalog, FileLog, FileLogOptions, Flusher, Owner};
use oxbus_store::injected::Injection;
use oxbus_store::shard_log::{Chunks, ShardLog};

use super::Recovery;
use super::open::{own, shard_dir};
use crate::catalog::CatalogContents;
use crate::catalog::FencedEntry;
use crate::write::UnconfirmedEntry;

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
    /// The catalog and its content.
    pub(super) catalog: Mutex<(Catalog, CatalogContents)>,
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

/// Locks a mutex of this file. Each guards a value that is replaced after the disk has it, so it is valid after a
/// panic.
fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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

    /// The store id, which the files of the namespace carry.
    pub fn id(&self) -> [u8; 16] {
        guard(&self.catalog).0.store
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

    /// The key of the identity hash.
    pub fn identity_key(&self) -> IdentityKey {
        let held = guard(&self.catalog);
        held.1.identity_key(held.0.store)
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

    /// Changes the catalog. The change is durable when this returns. A failure before the rename leaves the catalog
    /// unchanged.
    pub fn change(&self, change: impl FnOnce(&mut CatalogContents)) -> Result<()> {
        self.check_owns_all()?;
        let mut held = guard(&self.catalog);
        if self.closed.load(Ordering::Relaxed) {
            let detail = "the namespace was closed; open it again and make new handles";
            return Err(Error::new(ErrorKind::Closed, detail));
        }
        let (catalog, contents) = &mut *held;
        let mut next = contents.clone();
        change(&mut next);
        let before = catalog.change;
        let written = catalog.write(&*self.disk, &self.dir, next.encode());
        if catalog.change != before {
            *contents = next;
        }
        written.map_err(|error| {
            let detail = format!(
                "the catalog could not be written ({error}); check its disk and try again: `{}`",
                Catalog::path(&self.dir).display()
            );
            Error::new(ErrorKind::Storage, detail)
                .with_effect(Effect::Unknown)
                .with_source(error)
        })
    }

    /// Fences an unconfirmed entry, so that no recovery applies it. The fence is durable when this returns.
    pub fn fence(&self, partition: u16, late: UnconfirmedEntry) -> Result<()> {
        let (epoch, lsn) = (late.epoch, late.lsn.0);
        self.change(|contents| contents.fenced.push(FencedEntry { partition, epoch, lsn }))
    }

    /// Removes the fences of a partition that its newest snapshot made obsolete.
    pub fn forget_fenced(&self, partition: u16) {
        let Some(shard) = self.shard(partition) else { return };
        let epoch = shard.log().epoch();
        let is_over = |it: &FencedEntry| it.partition == partition && it.epoch < epoch;
        if guard(&self.catalog).1.fenced.iter().any(is_over) {
            // If it fails, a later call removes them.
            let _ = self.change(|contents| contents.fenced.retain(|it| !is_over(it)));
        }
    }

    /// Returns the content of the catalog, read again if another process may have changed it. The flag is true if it
    /// changed.
    pub fn contents(&self) -> (CatalogContents, bool) {
        let mut held = guard(&self.catalog);
        if !self.owns_all
            && let Ok(Some(found)) = Catalog::read(&*self.disk, &self.dir)
            && found.change != held.0.change
            && let Ok(contents) = CatalogContents::decode(&found.content)
        {
            *held = (found, contents.clone());
            return (contents, true);
        }
        (held.1.clone(), false)
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
        let catalog = guard(&self.catalog);
        self.closed.store(true, Ordering::Relaxed);
        drop(catalog);
        guard(&self.owners).clear();
    }
}
