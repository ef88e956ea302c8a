// SPDX-License-Identifier: Apache-2.0
//! The files of an open namespace.
//!
//! For a moment, which is far shorter than a sync, no call appends to any partition and no entity changes: then the
//! last entry of each partition and the catalog are noted. No file is touched meanwhile. Afterwards the entries up to
//! the noted ones are written, and the files that hold them are found. Only snapshots wait until that is done. If a full
//! disk is folded meanwhile, which replaces noted entries by a later one, the entries are noted again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::Wait;
use oxbus_store::file::FileView;
use oxbus_store::shard_log::Lsn;

use super::directory::{loads_of, stages_of};
use super::{Backup, BackupFile, BackupSource, unreadable};
use crate::durable::{Stores, shard_dir};
use crate::entity::Core;
use crate::shard::Shard;
use crate::shard::journal::{AppendGuard, Journal};
use crate::stage::StageRegistry;

/// How long one attempt waits for a partition's journal while it holds those of others.
const ATTEMPT: Duration = Duration::from_millis(5);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(1);

/// The files of an open namespace in a directory, with everything that was acknowledged before the call.
pub(crate) fn of_open(
    core: &Arc<Core>,
    stores: &Stores,
    shards: &[Arc<Shard>],
    registry: &Arc<StageRegistry>,
    wait: &Wait<'_>,
) -> Result<Backup> {
    core.check_open()?;
    if !stores.owns_all() {
        let detail =
            "this process does not own all partitions; open the namespace without partitions_owned to back it up";
        return Err(Error::new(ErrorKind::InvalidOperation, detail));
    }
    let journals: Vec<&Journal> = shards.iter().map(|shard| in_service(shard)).collect::<Result<_>>()?;
    let stage_files = registry.hold_files();
    let mut held = Vec::new();
    for shard in shards {
        held.push(repeat(wait, "a snapshot of a partition takes long", || {
            shard.try_hold_snapshots()
        })?);
    }
    let disk = stores.disk();
    let (catalog, partitions) = loop {
        let noted = repeat(wait, "a partition or the catalog did not answer", || {
            stores.try_copy_catalog(|| note(shards, &journals))
        })?;
        let (catalog, last_entries) = noted.map_err(|error| unreadable("catalog", error))?;
        if let Some(partitions) = view_all(stores, shards, &last_entries, wait)? {
            break (catalog, partitions);
        }
        if wait.is_over() {
            return Err(too_late("a full disk was drained meanwhile"));
        }
    };
    drop(held);
    let mut files = Vec::new();
    for partition in partitions {
        files.extend(partition.into_files()?);
    }
    // A stage that was published by then may be gone. One that is finished later does no harm: no entry names it.
    files.extend(stages_of(&*disk, stores.dir())?);
    let catalog = BackupFile::of_view("", FileView::of_bytes("catalog", catalog));
    files.push(catalog.map_err(|error| unreadable("catalog", error))?);
    Ok(Backup {
        files,
        disk,
        source: BackupSource::Open(Arc::clone(core), stage_files),
    })
}

fn in_service(shard: &Shard) -> Result<&Journal> {
    let is_well = shard.health().serves() && !shard.health().is_stalled();
    shard.journal().filter(|_| is_well).ok_or_else(|| {
        let reason = shard.health().reason().unwrap_or_else(|| "its disk hangs".to_owned());
        let detail = format!(
            "a partition is out of service, so a backup would lack its messages ({reason}); heal it and try again: partition={}",
            shard.id()
        );
        Error::new(ErrorKind::PartitionUnavailable, detail)
    })
}

/// The last entry of each partition, noted while no call appends to any. `None` if that cannot be had at once.
fn note(shards: &[Arc<Shard>], journals: &[&Journal]) -> Option<Vec<Lsn>> {
    let began = oxbus_system::instant();
    let mut guards: Vec<AppendGuard<'_>> = Vec::with_capacity(journals.len());
    for (shard, journal) in shards.iter().zip(journals) {
        guards.push(loop {
            if let Some(guard) = journal.try_lock_for_append(shard.health()) {
                break guard;
            }
            if began.elapsed() > ATTEMPT {
                return None;
            }
            std::thread::yield_now();
        });
    }
    Some(guards.iter().map(AppendGuard::last_lsn).collect())
}

/// Repeats `attempt` until it succeeds or the wait is over.
fn repeat<T>(wait: &Wait<'_>, why: &str, mut attempt: impl FnMut() -> Option<T>) -> Result<T> {
    loop {
        if let Some(done) = attempt() {
            return Ok(done);
        }
        if wait.is_over() {
            return Err(too_late(why));
        }
        std::thread::park_timeout(PAUSE);
    }
}

fn too_late(why: &str) -> Error {
    let detail = format!("the backup could not begin in time, because {why}; try again");
    Error::new(ErrorKind::Timeout, detail)
}

/// The files of a partition, which may be removed meanwhile.
struct PartitionView {
    /// The name of its directory.
    name: String,
    views: Vec<FileView>,
    loads: Vec<BackupFile>,
}

impl PartitionView {
    fn into_files(self) -> Result<Vec<BackupFile>> {
        let prefix = format!("{}/", self.name);
        let made = self.views.into_iter().map(|view| BackupFile::of_view(&prefix, view));
        let files: std::io::Result<Vec<BackupFile>> = made.collect();
        let mut files = files.map_err(|error| unreadable(&self.name, error))?;
        files.extend(self.loads);
        Ok(files)
    }
}

/// The files of all partitions with their entries up to those noted, or `None` if entries must be noted again.
fn view_all(
    stores: &Stores,
    shards: &[Arc<Shard>],
    last_entries: &[Lsn],
    wait: &Wait<'_>,
) -> Result<Option<Vec<PartitionView>>> {
    let views = shards.iter().zip(last_entries);
    views.map(|(shard, last)| view(stores, shard, *last, wait)).collect()
}

/// The files of a partition with its entries up to `last`, or `None` if a full disk was folded since it was noted.
fn view(stores: &Stores, shard: &Shard, last: Lsn, wait: &Wait<'_>) -> Result<Option<PartitionView>> {
    let dir = shard_dir(stores.dir(), shard.id().0);
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let failed = |error| unreadable(&name, error);
    let store = stores
        .shard(shard.id().0)
        .ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
    let Some(views) = store.log().view_until(last, wait).map_err(failed)? else {
        return Ok(None);
    };
    let loads = loads_of(&*stores.disk(), Path::new(&dir), &name)?;
    Ok(Some(PartitionView { name, views, loads }))
}
