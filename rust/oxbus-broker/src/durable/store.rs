// SPDX-License-Identifier: Apache-2.0
//! The files of an open namespace.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use oxbus_model::options::Durability;
use oxbus_model::sync::whole;
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
    /// In front of that disk: the catalog, stages and bulk loads. Journals have theirs.
    pub(super) injection: Arc<Injection>,
    /// The catalog, and what it says.
    pub(super) catalog: Mutex<(Catalog, CatalogContents)>,
    /// By partition; `None` for those that are not open here.
    pub(super) shards: Vec<Option<ShardStore>>,
    /// From here on others may own it. Read and set under the catalog's mutex.
    pub(super) closed: AtomicBool,
    /// Dropped when the namespace closes, so that others may own it.
    pub(super) owners: Mutex<Vec<Owner>>,
    pub(super) owns_all: bool,
    /// Somebody may own its directories.
    pub(super) is_local: bool,
    pub(super) durability: Durability,
    pub(super) recovery: Recovery,
    pub(super) waiting_loads: OnceLock<Vec<String>>,
}

/// One of the locks of the files. Each guards a value that is replaced once what it stands for is on disk, so it is whole
/// after a panic.
fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    whole(mutex.lock())
}

impl ShardStore {
    /// The log that is in use.
    pub fn log(&self) -> Arc<FileLog> {
        Arc::clone(&guard(&self.log))
    }

    /// The faults that tests put into its disk.
    pub fn injection(&self) -> &Injection {
        &self.injection
    }

    /// Begins the journal anew with the messages it is given.
    pub fn restart_journal(&self, chunks: Chunks<'_>) -> io::Result<Arc<dyn ShardLog>> {
        let mut log = guard(&self.log);
        if self.closed.load(Ordering::Relaxed) {
            return Err(io::Error::other("the namespace was closed meanwhile"));
        }
        let anew = Arc::new(FileLog::begin_anew(&log, self.options, chunks)?);
        self.flusher.add(&anew);
        *log = Arc::clone(&anew);
        Ok(anew)
    }
}

impl Stores {
    /// Where the namespace is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file system that it is on.
    pub fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// The faults that tests put into the files that are no journals.
    pub fn injection(&self) -> &Injection {
        &self.injection
    }

    /// What tells its files from those of other namespaces.
    pub fn id(&self) -> [u8; 16] {
        guard(&self.catalog).0.store
    }

    /// Owns a partition that is not open here, until what it gives is dropped.
    pub(crate) fn own(&self, partition: u16) -> Result<Option<Owner>> {
        let dir = shard_dir(&self.dir, partition);
        self.is_local.then(|| own(&dir)).transpose()
    }

    /// What a call gets that asks for nothing.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// What opening it found.
    pub fn recovery(&self) -> Recovery {
        Recovery {
            waiting_loads: self.waiting_loads.get().cloned().unwrap_or_default(),
            ..self.recovery.clone()
        }
    }

    /// Notes the bulk loads whose rows could not be taken over, once.
    pub(crate) fn set_waiting_loads(&self, loads: Vec<String>) {
        let _ = self.waiting_loads.set(loads);
    }

    /// The files of a partition, when they are open here.
    pub fn shard(&self, partition: u16) -> Option<&ShardStore> {
        self.shards.get(usize::from(partition))?.as_ref()
    }

    /// What identities are hashed with.
    pub fn identity_key(&self) -> IdentityKey {
        let held = guard(&self.catalog);
        held.1.identity_key(held.0.store)
    }

    /// Bytes of all journals and snapshots on disk.
    pub fn disk_bytes(&self) -> u64 {
        let open = self.shards.iter().flatten();
        open.map(|shard| shard.log().disk_bytes()).sum()
    }

    /// True when this process owns all partitions, and with them the catalog.
    pub fn owns_all(&self) -> bool {
        self.owns_all
    }

    /// Refuses to change entities when others may own partitions: only who owns all knows that the change holds for all.
    pub fn check_owns_all(&self) -> Result<()> {
        if self.owns_all {
            return Ok(());
        }
        let detail = format!(
            "only a process that owns all partitions changes entities; open the namespace without partitions_owned for that: `{}`",
            self.dir.display()
        );
        Err(Error::new(ErrorKind::PartitionUnavailable, detail))
    }

    /// Changes the catalog: durable when this returns, unchanged when it fails before the new one has its name.
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
                "the catalog could not be written ({error}); see to its disk and try again: `{}`",
                Catalog::path(&self.dir).display()
            );
            Error::new(ErrorKind::Storage, detail)
                .with_effect(Effect::Unknown)
                .with_source(error)
        })
    }

    /// Makes an entry of a partition never count, also for the next open; durable when this returns.
    pub fn fence(&self, partition: u16, late: UnconfirmedEntry) -> Result<()> {
        let (epoch, lsn) = (late.epoch, late.lsn.0);
        self.change(|contents| contents.fenced.push(FencedEntry { partition, epoch, lsn }))
    }

    /// Forgets the fenced entries of a partition that its newest snapshot has left out.
    pub fn forget_fenced(&self, partition: u16) {
        let Some(shard) = self.shard(partition) else { return };
        let epoch = shard.log().epoch();
        let is_over = |it: &FencedEntry| it.partition == partition && it.epoch < epoch;
        if guard(&self.catalog).1.fenced.iter().any(is_over) {
            // Should it fail, they are forgotten later.
            let _ = self.change(|contents| contents.fenced.retain(|it| !is_over(it)));
        }
    }

    /// What the catalog says, read again when another process may have changed it. The flag says whether it changed.
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

    /// Ends the journals and gives the directory up.
    pub fn close(&self) {
        for shard in self.shards.iter().flatten() {
            let log = guard(&shard.log);
            shard.closed.store(true, Ordering::Relaxed);
            let last = Arc::clone(&log);
            drop(log);
            // Who waits for an entry learns of a failure; nobody waits here.
            let _ = last.close();
        }
        let catalog = guard(&self.catalog);
        self.closed.store(true, Ordering::Relaxed);
        drop(catalog);
        guard(&self.owners).clear();
    }
}
