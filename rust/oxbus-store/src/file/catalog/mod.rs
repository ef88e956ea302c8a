// SPDX-License-Identifier: Apache-2.0
//! The catalog: a small file with the data that a namespace needs before it opens its shards.
//!
//! The file has a content and the changes since it was written, one record each (`layout`). A change appends one
//! record and syncs it. Once the records are longer than the content, the owner writes a new file: under a temporary
//! name, synced and renamed, and the directory is synced. A reader finds either the old or the new file.
//!
//! After a failed write, the end of the file is in doubt. The record is then taken back: the file is cut and synced.
//! If that fails too, or if a sync failed, the next change writes a new file first.

mod layout;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

pub use layout::CatalogBytes;
use layout::{CatalogHead, HEADER_BYTES};

use super::header::NUMBER_MAX;
use super::recovery::OpenError;
use crate::disk::{Disk, DiskFile};

const NAME: &str = "catalog";
const TEMPORARY: &str = "catalog.tmp";
/// Records shorter than this never make a new file due.
const RECORD_BYTES_MIN: u64 = 4 << 10;

/// The catalog file of a namespace as last read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    head: CatalogHead,
    /// The head of the file as it is on disk; empty before the first write.
    header: Vec<u8>,
    /// Length of the file when it was read or written.
    file_bytes: u64,
    /// True if no record may be appended before a new file is written.
    needs_rewrite: bool,
}

/// Why a change was not recorded.
#[derive(Debug)]
pub struct CatalogFailure {
    /// The error of the disk. Its kind is `InvalidData` if the change number cannot rise further, which only a forged
    /// file causes.
    pub error: io::Error,
    /// True if the next reader may find the change.
    pub is_in_doubt: bool,
}

impl Catalog {
    /// A catalog that has never been written.
    pub fn new(store: [u8; 16]) -> Self {
        Self {
            head: CatalogHead {
                store,
                change: 0,
                crc: 0,
                content_end: 0,
                end: 0,
                has_records: false,
            },
            header: Vec::new(),
            file_bytes: 0,
            needs_rewrite: true,
        }
    }

    /// The path of the catalog in `dir`.
    pub fn path(dir: &Path) -> PathBuf {
        dir.join(NAME)
    }

    /// The id of the namespace, which its shards also carry.
    pub fn store(&self) -> [u8; 16] {
        self.head.store
    }

    /// Number of the last change.
    pub fn change(&self) -> u64 {
        self.head.change
    }

    /// Reads the catalog in `dir`, if there is one.
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<(Self, CatalogBytes)>, OpenError> {
        let path = Self::path(dir);
        let file = match disk.open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut bytes = vec![0; file.len()? as usize];
        let read = file.read_full_at(&mut bytes, 0)?;
        bytes.truncate(read);
        let (head, found) = layout::decode(&bytes).map_err(|error| OpenError::Header { path, error })?;
        let catalog = Self {
            head,
            header: bytes[..HEADER_BYTES].to_vec(),
            file_bytes: bytes.len() as u64,
            needs_rewrite: !head.has_records || found.torn_bytes > 0,
        };
        Ok(Some((catalog, found)))
    }

    /// True if the file in `dir` is not the one that was read, or has more records. It reads only the head.
    pub fn has_changed(&self, disk: &dyn Disk, dir: &Path) -> io::Result<bool> {
        if self.head.end != self.file_bytes {
            // The incomplete record may be complete by now.
            return Ok(true);
        }
        let file = disk.open(&Self::path(dir))?;
        let mut header = vec![0; HEADER_BYTES];
        let read = file.read_full_at(&mut header, 0)?;
        Ok(header[..read] != self.header[..] || file.len()? != self.file_bytes)
    }

    /// Makes what was read durable: its writer may have ended before it synced the last change.
    pub fn sync(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        disk.open(&Self::path(dir))?.sync()?;
        disk.sync_dir(dir)
    }

    /// True if no change can be appended before [`Self::rewrite`].
    pub fn needs_rewrite(&self) -> bool {
        self.needs_rewrite
    }

    /// True if the file has records.
    pub fn has_records(&self) -> bool {
        self.head.end > self.head.content_end
    }

    /// True if the records are longer than the content, so that a new file should be written.
    pub fn is_long(&self) -> bool {
        self.head.end - self.head.content_end > self.head.content_end.max(RECORD_BYTES_MIN)
    }

    /// Appends and syncs the record of a change. The file must not need a rewrite.
    pub fn append(&mut self, disk: &dyn Disk, dir: &Path, change: &[u8]) -> Result<(), CatalogFailure> {
        let certain = |error| CatalogFailure {
            error,
            is_in_doubt: false,
        };
        if self.needs_rewrite {
            return Err(certain(io::Error::other(
                "the catalog must be written as a whole first",
            )));
        }
        let next = self.next_change().map_err(certain)?;
        let record = layout::encode_record(self.head.crc, next, change).map_err(certain)?;
        let file = disk.open(&Self::path(dir)).map_err(certain)?;
        let written = file.write_all_at(&record, self.head.end);
        let failed_at_write = written.is_err();
        let Err(error) = written.and_then(|()| file.sync()) else {
            self.head.change = next;
            self.head.end += record.len() as u64;
            self.file_bytes = self.head.end;
            return Ok(());
        };
        let is_in_doubt = self.take_back(&*file).is_err();
        // After a failed sync, the system may have dropped written bytes that share a page with earlier records.
        self.needs_rewrite = is_in_doubt || !failed_at_write;
        if self.needs_rewrite {
            // A reader may have seen the number.
            self.head.change = next;
        }
        Err(CatalogFailure { error, is_in_doubt })
    }

    /// Cuts what a failed append may have left.
    /// Success after a failed sync can be trusted: this sync is of the cut, which is a new change.
    fn take_back(&self, file: &dyn DiskFile) -> io::Result<()> {
        file.truncate(self.head.end)?;
        file.sync()
    }

    /// Writes a new file with `content` and no records. If it fails, readers find the old file or the new one, and the
    /// next change writes a new one again. An error of kind `InvalidData` means that the change number cannot rise
    /// further, which only a forged file causes.
    pub fn rewrite(&mut self, disk: &dyn Disk, dir: &Path, content: &[u8]) -> io::Result<()> {
        let (bytes, head) = layout::encode(self.head.store, self.next_change()?, content)?;
        let temporary = dir.join(TEMPORARY);
        match disk.remove(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = disk.create(&temporary)?;
        file.write_all_at(&bytes, 0)?;
        file.sync()?;
        if let Err(error) = disk.rename(&temporary, &Self::path(dir)) {
            // Records may follow in the old file only if it still has the name.
            self.needs_rewrite |= self.has_changed(disk, dir).unwrap_or(true);
            return Err(error);
        }
        // Later records belong to the new file, and may only follow once its name is durable.
        *self = Self {
            head,
            header: bytes[..HEADER_BYTES].to_vec(),
            file_bytes: head.end,
            needs_rewrite: true,
        };
        disk.sync_dir(dir)?;
        self.needs_rewrite = false;
        Ok(())
    }

    /// The bytes of a file with `content` and no records, for a copy of the catalog.
    pub fn encode_copy(&self, content: &[u8]) -> io::Result<Vec<u8>> {
        Ok(layout::encode(self.head.store, self.head.change, content)?.0)
    }

    fn next_change(&self) -> io::Result<u64> {
        if self.head.change >= NUMBER_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the change number of the catalog is exhausted",
            ));
        }
        Ok(self.head.change + 1)
    }
}
