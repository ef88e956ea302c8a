// SPDX-License-Identifier: Apache-2.0
//! Tells whether a directory is a namespace, empty, damaged, or something else.
//!
//! An operator may delete a directory that is reported as "not a namespace". A directory with partitions is never
//! reported that way: if its catalog is damaged or missing, its messages may be intact.

use std::io;
use std::path::Path;

use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::disk::Disk;
use oxbus_store::file::{Catalog, CatalogBytes, FileLog, HeaderError, OpenError};

use super::open::storage_error;
use crate::catalog::CatalogContents;

/// A catalog and its content.
pub(super) type FoundCatalog = (Catalog, CatalogBytes);

/// The partition in the name of a shard directory.
pub(crate) fn partition_of(name: &str) -> Option<u16> {
    name.strip_prefix("shard-")?.parse().ok()
}

/// The catalog in a directory; `None` if the directory is missing or empty.
pub(super) fn find_catalog(disk: &dyn Disk, dir: &Path) -> Result<Option<FoundCatalog>> {
    let names = match disk.list(dir) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(not_a_namespace(dir, "it is a file"));
        }
        Err(error) => return Err(storage_error(dir, "read", error)),
    };
    check_no_backup(dir, &names)?;
    match Catalog::read(disk, dir) {
        Ok(Some(found)) => Ok(Some(found)),
        Ok(None) if names.iter().all(|name| is_from_interrupted_create(disk, dir, name)) => Ok(None),
        Ok(None) if has_shards(&names) => Err(unreadable_catalog(dir, "is missing")),
        Ok(None) => Err(not_a_namespace(dir, "it has other files and no catalog")),
        Err(OpenError::Io(error)) => Err(storage_error(&Catalog::path(dir), "read", error)),
        Err(OpenError::Header { path, error }) => Err(match error {
            HeaderError::Newer { version } => {
                let detail = format!(
                    "the namespace was written by a newer version of oxbus; open it with that one: format={version} `{}`",
                    path.display()
                );
                Error::new(ErrorKind::InvalidOperation, detail)
            }
            HeaderError::Foreign if !has_shards(&names) => {
                not_a_namespace(dir, "its catalog is a file of something else")
            }
            HeaderError::Foreign | HeaderError::Damaged | HeaderError::Misplaced => {
                unreadable_catalog(dir, "is damaged")
            }
        }),
        Err(error @ OpenError::Damaged { .. }) => {
            Err(Error::new(ErrorKind::Corrupt, error.to_string()).with_source(error))
        }
    }
}

/// Fails if the directory is a backup, whose files may be shared with others, or an unfinished restore.
fn check_no_backup(dir: &Path, names: &[String]) -> Result<()> {
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let dir = dir.display();
    let detail = if has("restore.unfinished") {
        format!("the restore into this directory did not end; run `oxbus restore BACKUP {dir}` again")
    } else if has("catalog.copy") {
        format!("the directory is a backup; write it into another directory by `oxbus restore {dir} DIR`")
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::InvalidOperation, detail))
}

/// Fails unless there is a namespace with a readable catalog in `dir`.
pub(crate) fn check_namespace(disk: &dyn Disk, dir: &Path) -> Result<()> {
    catalog_of(disk, dir).map(drop)
}

/// The number of partitions of the namespace in `dir`. Fails if there is none.
pub(crate) fn count_partitions(disk: &dyn Disk, dir: &Path) -> Result<u16> {
    let (_, bytes) = catalog_of(disk, dir)?;
    Ok(CatalogContents::decode(&bytes)?.partitions)
}

fn catalog_of(disk: &dyn Disk, dir: &Path) -> Result<FoundCatalog> {
    if let Some(found) = find_catalog(disk, dir)? {
        return Ok(found);
    }
    let detail = format!(
        "there is no namespace in the directory; name another one: `{}`",
        dir.display()
    );
    Err(Error::new(ErrorKind::InvalidOperation, detail))
}

/// True if the file is one that creating a namespace writes before its catalog: a file of an empty shard.
fn is_from_interrupted_create(disk: &dyn Disk, dir: &Path, name: &str) -> bool {
    if !name.starts_with("shard-") {
        return name == "owner" || name == "catalog.tmp";
    }
    let first = |name: &String| FileLog::is_first_file(name) || name == "owner";
    disk.list(&dir.join(name)).is_ok_and(|names| names.iter().all(first))
}

/// True if there are shard directories, which only a namespace has.
fn has_shards(names: &[String]) -> bool {
    names.iter().any(|name| partition_of(name).is_some())
}

/// The error of a namespace with messages but an unreadable catalog.
pub(super) fn unreadable_catalog(dir: &Path, what: &str) -> Error {
    let detail = format!(
        "the catalog of the namespace {what}, but its messages may be intact; keep the directory, and restore the catalog from a \
         copy, or copy the messages into a new namespace by `oxbus salvage {}`: `{}`",
        dir.display(),
        Catalog::path(dir).display()
    );
    Error::new(ErrorKind::Corrupt, detail)
}

fn not_a_namespace(dir: &Path, why: &str) -> Error {
    let detail = format!(
        "the path is not a namespace: {why}; give an empty directory or one that does not exist: `{}`",
        dir.display()
    );
    Error::new(ErrorKind::InvalidOperation, detail)
}
