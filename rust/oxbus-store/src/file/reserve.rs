// SPDX-License-Identifier: Apache-2.0
//! The drain reserve: two files that only entries that free space may use, so that a full disk can be drained.
//!
//! The files exist before the first message is stored and survive a close, a crash and a reopen. A missing file is
//! recreated as soon as there is space. Entries that drain contain no message bytes, so two small files suffice: while
//! one is written, the other remains for folding (`group_commit::fold`).
//!
//! Invariants
//! - an entry that adds is accepted only while both files exist and neither is reserved by entries;
//! - the writer and the buffer list the files in the same order, but the buffer omits a file that entries reserved.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::group_commit::{GroupCommit, Writer};
use super::segment::{self, RESERVE, SegmentFile, Spare};
use crate::disk::Disk;
use crate::shard_log::Level;

/// Opens the reserve files that the previous owner left, each extended to `bytes` bytes. A file for which there is no
/// space is removed.
pub(super) fn open_existing(disk: &dyn Disk, dir: &Path, bytes: u64) -> io::Result<Vec<Spare>> {
    let names = disk.list(dir)?;
    let mut found = Vec::new();
    for name in RESERVE.into_iter().filter(|name| names.iter().any(|it| it == name)) {
        match Spare::make_reserve(disk, dir, name, bytes) {
            Ok(file) => found.push(file),
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

impl GroupCommit {
    /// Creates missing reserve files. Does nothing while the reserve is lent or after the log has ended.
    pub(super) fn ensure_reserve(&self, writer: &mut Writer) -> io::Result<()> {
        if self.buffer().failure.is_some() || self.is_reserve_lent.load(Ordering::Acquire) {
            return Ok(());
        }
        for name in missing_reserve(writer) {
            let made = Spare::make_reserve(&*self.disk, &self.dir, name, self.options.segment_bytes_min);
            if let Err(error) = &made
                && error.kind() == io::ErrorKind::StorageFull
            {
                self.full.store(true, Ordering::Release);
            }
            let file = made?;
            self.disk_bytes.fetch_add(file.bytes(), Ordering::Relaxed);
            self.add_to_reserve(writer, file);
        }
        Ok(())
    }

    /// Makes the file of a segment that is no longer needed a reserve file, if one is missing and the size fits.
    /// Otherwise removes the file. The caller must sync the directory before the file is used.
    pub(super) fn keep_as_reserve(&self, writer: &mut Writer, segment: &SegmentFile) -> io::Result<()> {
        let fits = segment.bytes == self.options.segment_bytes_min && segment.extent.is_unshared();
        match missing_reserve(writer).into_iter().next().filter(|_| fits) {
            Some(name) => {
                let file = Spare::recycle(&*self.disk, &self.dir, segment, Some(name))?;
                self.add_to_reserve(writer, file);
                Ok(())
            }
            None => self.remove_segment(segment),
        }
    }

    /// Removes the last file of the reserve. `ensure_reserve` recreates it once there is space.
    pub(super) fn release_reserve_file(&self, writer: &mut Writer) -> io::Result<()> {
        // First write the entries that reserved a file. A log that has ended touches no file.
        self.write_pending(writer, Level::Written);
        if self.buffer().failure.is_some() {
            writer.reserve.clear();
        }
        let Some(file) = writer.reserve.pop() else {
            return Ok(());
        };
        self.buffer().reserve.pop();
        self.disk_bytes.fetch_sub(file.bytes(), Ordering::Relaxed);
        self.disk.remove(file.path())
    }

    /// Removes the file of a segment that is no longer needed.
    pub(super) fn remove_segment(&self, segment: &SegmentFile) -> io::Result<()> {
        self.disk.remove(&segment::path_of(&self.dir, segment.header.segment))?;
        self.disk_bytes.fetch_sub(segment.bytes, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn add_to_reserve(&self, writer: &mut Writer, file: Spare) {
        self.buffer().reserve.push(file.allocation());
        writer.reserve.push(file);
    }
}

/// The names of the missing reserve files.
pub(super) fn missing_reserve(writer: &Writer) -> Vec<&'static str> {
    let is_there = |name: &&str| writer.reserve.iter().any(|file| file.path().ends_with(name));
    RESERVE.into_iter().filter(|name| !is_there(name)).collect()
}
