// SPDX-License-Identifier: Apache-2.0
//! The files of a directory that no process has open.
//!
//! Nothing is opened as a namespace, so no lock ends and no delivery is counted.

use std::io;
use std::path::Path;
use std::sync::Arc;

use oxbus_model::Result;
use oxbus_store::disk::Disk;
use oxbus_store::file::ReadOnlyDisk;

use super::{Backup, BackupFile, BackupSource, unreadable};
use crate::durable::{check_namespace, own, partition_of, shard_dir};
use crate::stage::stages_dir;

/// The files of the namespace in a directory. No process may have it open, and none can open it while the result
/// exists.
pub fn of_directory(dir: &Path) -> Result<Backup> {
    let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk);
    check_namespace(&*disk, dir)?;
    let mut owners = vec![own(dir)?];
    let listed = |dir: &Path| {
        disk.list(dir)
            .map_err(|error| unreadable(&dir.display().to_string(), error))
    };
    let mut files = Vec::new();
    for name in listed(dir)? {
        if let Some(partition) = partition_of(&name) {
            owners.push(own(&shard_dir(dir, partition))?);
            let is_kept = |name: &str| has_suffix(name, &["journal", "snapshot"]);
            files.extend(all_of(&*disk, &dir.join(&name), &format!("{name}/"), is_kept)?);
            files.extend(loads_of(&*disk, &dir.join(&name), &name)?);
        }
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

fn has_suffix(name: &str, suffixes: &[&str]) -> bool {
    suffixes
        .iter()
        .any(|suffix| name.rsplit_once('.').is_some_and(|(_, found)| found == *suffix))
}

/// The files of a directory, which may be missing, in the order of their names. `prefix` is its path in the backup.
fn all_of(disk: &dyn Disk, dir: &Path, prefix: &str, is_kept: impl Fn(&str) -> bool) -> Result<Vec<BackupFile>> {
    let mut names = match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        listed => listed.map_err(|error| unreadable(prefix, error))?,
    };
    names.retain(|name| is_kept(name));
    names.sort_unstable();
    let file_of = |name: String| {
        let made = BackupFile::of_path(disk, prefix, dir.join(&name));
        made.map_err(|error| unreadable(&format!("{prefix}{name}"), error))
    };
    names.into_iter().map(file_of).collect()
}

/// The rows attached to a partition that it has not taken over.
pub(super) fn loads_of(disk: &dyn Disk, shard_dir: &Path, name: &str) -> Result<Vec<BackupFile>> {
    let is_kept = |name: &str| has_suffix(name, &["stage", "name"]);
    all_of(disk, &shard_dir.join("attached"), &format!("{name}/attached/"), is_kept)
}

/// The finished stages.
pub(super) fn stages_of(disk: &dyn Disk, dir: &Path) -> Result<Vec<BackupFile>> {
    all_of(disk, &stages_dir(dir), "stages/", |name| has_suffix(name, &["stage"]))
}
