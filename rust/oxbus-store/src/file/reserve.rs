// SPDX-License-Identifier: Apache-2.0
//! The drain reserve: two files that only entries which free room may use, so that a full disk can be emptied.
//!
//! They are there before the first message is stored, survive a close, the end of the process and the next open, and are
//! filled again as soon as there is room. Entries that drain hold no message bytes, so two small files are enough: while one
//! is written the other waits to be folded into (`group_commit::fold`).
//!
//! Holds always
//! - an entry that adds is taken only while both files are there and promised to nobody;
//! - the files stand in the same order for the writer and for the buffer, but for one that is promised: the buffer has given
//!   that away.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::group_commit::{GroupCommit, Writer};
use super::segment::{self, RESERVE, SegmentFile, Spare};
use crate::disk::Disk;
use crate::shard_log::Level;

/// The files that the owner before left, each `bytes` long. One that is too short is removed: its room may be gone.
pub(super) fn found(disk: &dyn Disk, dir: &Path, bytes: u64) -> io::Result<Vec<Spare>> {
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
    /// Makes the files of the reserve that are missing. A log that ended touches no file.
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

    /// Makes the file of a segment that nobody needs any more part of the reserve, if that lacks one and the file has its
    /// size, and removes it else. Sync the directory before the file is used.
    pub(super) fn keep_as_reserve(&self, writer: &mut Writer, segment: &SegmentFile) -> io::Result<()> {
        let fits = segment.bytes == self.options.segment_bytes_min && segment.extent.is_sole();
        match missing_reserve(writer).into_iter().next().filter(|_| fits) {
            Some(name) => {
                let file = Spare::recycle(&*self.disk, &self.dir, segment, Some(name))?;
                self.add_to_reserve(writer, file);
                Ok(())
            }
            None => self.remove_segment(segment),
        }
    }

    /// Removes the last file of the reserve. The next look at the log makes it again, if there is room.
    pub(super) fn release_reserve_file(&self, writer: &mut Writer) -> io::Result<()> {
        // One that is promised is used first. A log that ended touches no file.
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

    /// Removes the file of a segment that nobody needs any more.
    pub(super) fn remove_segment(&self, segment: &SegmentFile) -> io::Result<()> {
        self.disk.remove(&segment::path_of(&self.dir, segment.header.segment))?;
        self.disk_bytes.fetch_sub(segment.bytes, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn add_to_reserve(&self, writer: &mut Writer, file: Spare) {
        self.buffer().reserve.push(file.room());
        writer.reserve.push(file);
    }
}

/// The names of the files that the reserve lacks.
pub(super) fn missing_reserve(writer: &Writer) -> Vec<&'static str> {
    let is_there = |name: &&str| writer.reserve.iter().any(|file| file.path().ends_with(name));
    RESERVE.into_iter().filter(|name| !is_there(name)).collect()
}
