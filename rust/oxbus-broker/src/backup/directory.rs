// SPDX-License-Identifier: Apache-2.0
//! The files of a directory that no process has open.
//!
//! Nothing is opened as a namespace, so no lock ends and no delivery is counted.

use std::io;
use std::path::Path;
use std::sync::Arc;

use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::disk::Disk;
use oxbus_store::file::{FileLog, ReadOnlyDisk};

use super::{Backup, BackupFile, BackupSource, unreadable};
use crate::durable::{count_partitions, own, shard_dir};
use crate::stage::stages_dir;

/// The files of the namespace in a directory. No process may have it open, and none can open it while the result
/// exists. Fails if the files of a partition are missing, because its messages would be missing from the backup.
pub fn of_directory(dir: &Path) -> Result<Backup> {
    let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk);
    let partitions = count_partitions(&*disk, dir)?;
    let mut owners = vec![own(dir)?];
    let mut files = Vec::new();
    for partition in 0..partitions {
        let shard_dir = shard_dir(dir, partition);
        let name = shard_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let has_files = FileLog::exists(&*disk, &shard_dir).map_err(|error| unreadable(&name, error))?;
        if !has_files {
            return Err(without_files(partition, &shard_dir));
        }
        owners.push(own(&shard_dir)?);
        let is_kept = |name: &str| has_suffix(name, &["journal", "snapshot"]);
        files.extend(all_of(&*disk, &shard_dir, &format!("{name}/"), is_kept)?);
        files.extend(loads_of(&*disk, &shard_dir, &name)?);
    }
    files.extend(stages_of(&*disk, dir)?);
    let catalog = BackupFile::of_path(&*disk, "", dir.join("catalog"));
    files.push(catalog.map_err(|error| unreadable("catalog", error))?);
    Ok(Backup {
        files,
        disk,
        source: BackupSource::Owned(owners),
    })
}

fn without_files(partition: u16, shard_dir: &Path) -> Error {
    let detail = format!(
        "the files of a partition are missing, so a backup would lack its messages; restore them from a copy and try \
         again: partition={partition} `{}`",
        shard_dir.display()
    );
    Error::new(ErrorKind::PartitionUnavailable, detail)
}

fn has_suffix(name: &str, suffixes: &[&str]) -> bool {
    suffixes
        .iter()
        .any(|suffix| name.rsplit_once('.').is_some_and(|(_, found)| found == *suffix))
}

/// The files of a directory, which may be missing, in the order of their names. `prefix` is its path in the backup.
fn all_of(disk: &dyn Disk, dir: &Path, prefix: &str, is_kept: impl Fn(&str) -> bool) -> Result<Vec<BackupFile>> {
    let found = looked_at(disk, dir, prefix, is_kept)?;
    let each = found.into_iter().map(|(name, made)| {
        let failed = |error| unreadable(&format!("{prefix}{name}"), error);
        made.map_err(failed)
    });
    each.collect()
}

/// As [`all_of`], without those that are gone by the time they are looked at.
fn present_of(disk: &dyn Disk, dir: &Path, prefix: &str, is_kept: impl Fn(&str) -> bool) -> Result<Vec<BackupFile>> {
    let mut files = Vec::new();
    for (name, made) in looked_at(disk, dir, prefix, is_kept)? {
        match made {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            made => files.push(made.map_err(|error| unreadable(&format!("{prefix}{name}"), error))?),
        }
    }
    Ok(files)
}

fn looked_at(
    disk: &dyn Disk,
    dir: &Path,
    prefix: &str,
    is_kept: impl Fn(&str) -> bool,
) -> Result<Vec<(String, io::Result<BackupFile>)>> {
    let mut names = match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        listed => listed.map_err(|error| unreadable(prefix, error))?,
    };
    names.retain(|name| is_kept(name));
    names.sort_unstable();
    let look = |name: String| {
        let made = BackupFile::of_path(disk, prefix, dir.join(&name));
        (name, made)
    };
    Ok(names.into_iter().map(look).collect())
}

/// The rows attached to a partition that it has not taken over.
pub(super) fn loads_of(disk: &dyn Disk, shard_dir: &Path, name: &str) -> Result<Vec<BackupFile>> {
    let is_kept = |name: &str| has_suffix(name, &["stage", "name"]);
    all_of(disk, &shard_dir.join("attached"), &format!("{name}/attached/"), is_kept)
}

/// The finished stages. One that was published meanwhile is gone.
pub(super) fn stages_of(disk: &dyn Disk, dir: &Path) -> Result<Vec<BackupFile>> {
    present_of(disk, &stages_dir(dir), "stages/", |name| has_suffix(name, &["stage"]))
}
