// SPDX-License-Identifier: Apache-2.0
//! Segment files: made full of zeros under another name, then given a header and their own name.
//!
//! Holds always
//! - a file with the name of a segment has a synced header and all its bytes: `make` syncs before it renames;
//! - so a write into it changes neither length nor block list, and a sync writes data only;
//! - a file under a temporary name holds nothing that counts, and may be overwritten or removed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::header::{HEADER_BYTES, Header};
use crate::disk::{Disk, DiskFile};
use crate::extent::Extent;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
const SUFFIX: &str = ".journal";
pub(super) const SPARE: &str = "spare.tmp";

/// An open segment.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) header: Header,
    pub(super) file: Arc<dyn DiskFile>,
    /// The same, for messages to be read back.
    pub(super) extent: Extent,
    pub(super) bytes: u64,
}

pub(super) fn path_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:010}{SUFFIX}"))
}

/// The number of a segment by its file name.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    (digits.len() == 10).then(|| digits.parse().ok()).flatten()
}

/// The numbers of the segments in a directory, in order.
pub(super) fn numbers(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<u64>> {
    let mut numbers: Vec<u64> = disk.list(dir)?.iter().filter_map(|name| number_of(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// A file of zeros, kept at hand so that the next segment costs no time and a full disk leaves some room.
#[derive(Debug)]
pub(super) struct Spare {
    file: Arc<dyn DiskFile>,
    extent: Extent,
    bytes: u64,
}

impl Spare {
    /// Makes the spare file of a log, at least `bytes` long.
    pub(super) fn make(disk: &dyn Disk, dir: &Path, bytes: u64) -> io::Result<Self> {
        let path = dir.join(SPARE);
        let file = match disk.open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create(&path)?,
            Err(error) => return Err(error),
        };
        let mut position = 0;
        while position < bytes {
            let piece = (bytes - position).min(ZEROS.len() as u64) as usize;
            file.write_all_at(&ZEROS[..piece], position)?;
            position += piece as u64;
        }
        let bytes = file.len()?.max(bytes);
        file.sync()?;
        Ok(Self {
            extent: Extent::new(Arc::clone(&file))?,
            file,
            bytes,
        })
    }

    pub(super) fn extent(&self) -> &Extent {
        &self.extent
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes it the segment that `header` names.
    pub(super) fn become_segment(self, disk: &dyn Disk, dir: &Path, header: Header) -> io::Result<Segment> {
        self.file.write_all_at(&header.encode(), 0)?;
        self.file.sync()?;
        disk.rename(&dir.join(SPARE), &path_of(dir, header.segment))?;
        disk.sync_dir(dir)?;
        Ok(Segment {
            header,
            file: self.file,
            extent: self.extent,
            bytes: self.bytes,
        })
    }
}

impl Segment {
    /// Writes zeros over `bytes` from `position` on.
    pub(super) fn clear(&self, mut position: u64, mut bytes: u64) -> io::Result<()> {
        while bytes > 0 {
            let piece = bytes.min(ZEROS.len() as u64);
            self.file.write_all_at(&ZEROS[..piece as usize], position)?;
            (position, bytes) = (position + piece, bytes - piece);
        }
        Ok(())
    }

    /// Reads all bytes after the header into `content`, in place of what is there.
    pub(super) fn read_content(&self, content: &mut Vec<u8>) -> io::Result<()> {
        // Not cleared first: zeroing what is read over takes as long as reading it.
        content.resize(self.bytes.saturating_sub(HEADER_BYTES as u64) as usize, 0);
        let read = self.file.read_full_at(content, HEADER_BYTES as u64)?;
        content.truncate(read);
        Ok(())
    }
}

/// True for a file that holds nothing that counts.
pub(super) fn is_temporary(name: &str) -> bool {
    name.strip_suffix(".tmp").is_some()
}
