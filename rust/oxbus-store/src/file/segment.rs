// SPDX-License-Identifier: Apache-2.0
//! Segment files: room allocated under another name, then given a header and their own name.
//!
//! Room is a new file, or a segment that a snapshot has replaced and nobody reads any more. A disk syncs faster what
//! overwrites bytes than what fills room for the first time, so a writer that syncs clears a piece ahead of itself.
//!
//! Holds always
//! - a file with the name of a segment has a synced header, and all its room while its owner writes it: it is allocated and
//!   synced before its rename. The next owner gives back the room behind the last frame;
//! - a file under a temporary name holds nothing that counts, and may be overwritten or removed;
//! - a recycled file says so in its header: what follows its last frame is not what this log wrote.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::header::{FileHeader, HEADER_BYTES};
use crate::disk::{Disk, DiskFile, ZEROS};
use crate::extent::Extent;

/// Bytes that are cleared ahead of a frame.
const AHEAD_BYTES: u64 = ZEROS.len() as u64;
/// A longer frame costs more to clear for than it gains.
const CLEARED_FOR_MAX: usize = ZEROS.len() / 4;
const SUFFIX: &str = ".journal";
pub(super) const SPARE: &str = "spare.tmp";
/// Files of the drain reserve (`reserve`).
pub(super) const RESERVE: [&str; 2] = ["reserve-1.tmp", "reserve-2.tmp"];

/// An open segment.
#[derive(Debug, Clone)]
pub(super) struct SegmentFile {
    pub(super) header: FileHeader,
    pub(super) file: Arc<dyn DiskFile>,
    /// The same, for messages to be read back.
    pub(super) extent: Extent,
    pub(super) bytes: u64,
    /// Up to here its room was written once.
    pub(super) cleared: u64,
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

/// Room for a segment, kept at hand so that the next one costs no time and a full disk leaves some room.
#[derive(Debug)]
pub(super) struct Spare {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    extent: Extent,
    bytes: u64,
    cleared: u64,
    recycled: bool,
}

fn open_or_create(disk: &dyn Disk, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
    match disk.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create(path),
        opened => opened,
    }
}

impl Spare {
    /// Makes the spare file of a log, at least `bytes` long.
    pub(super) fn make(disk: &dyn Disk, dir: &Path, bytes: u64) -> io::Result<Self> {
        let path = dir.join(SPARE);
        // One that is there holds zeros, and perhaps the header of a segment that it never became.
        let file = open_or_create(disk, &path)?;
        let bytes = file.len()?.max(bytes);
        file.allocate(bytes)?;
        file.sync()?;
        Ok(Self {
            path,
            extent: Extent::new(Arc::clone(&file))?,
            file,
            bytes,
            cleared: 0,
            recycled: false,
        })
    }

    /// Makes a file of the drain reserve, `bytes` long, or takes the one of that name. It holds nothing, so it is not synced:
    /// after a loss of power it may have to be made again.
    pub(super) fn make_reserve(disk: &dyn Disk, dir: &Path, name: &str, bytes: u64) -> io::Result<Self> {
        let path = dir.join(name);
        let file = open_or_create(disk, &path)?;
        if let Err(error) = file.allocate(bytes) {
            // An empty name is of no use, and what the file holds of the room others may need.
            let _ = disk.remove(&path);
            return Err(error);
        }
        Ok(Self {
            path,
            extent: Extent::new(Arc::clone(&file))?,
            file,
            bytes,
            cleared: 0,
            recycled: true,
        })
    }

    /// Takes the file of a segment that nobody needs any more, under the name of a segment to come or of the drain reserve.
    /// Sync the directory before it is used.
    pub(super) fn recycle(
        disk: &dyn Disk,
        dir: &Path,
        segment: &SegmentFile,
        reserve: Option<&str>,
    ) -> io::Result<Self> {
        let path = dir.join(reserve.map_or_else(|| format!("{:010}.tmp", segment.header.segment), str::to_owned));
        disk.rename(&path_of(dir, segment.header.segment), &path)?;
        Ok(Self {
            path,
            file: Arc::clone(&segment.file),
            extent: segment.extent.clone(),
            bytes: segment.bytes,
            cleared: segment.cleared,
            recycled: true,
        })
    }

    /// What the buffer needs to promise the file to entries.
    pub(super) fn room(&self) -> (Extent, u64) {
        (self.extent.clone(), self.bytes)
    }

    /// Writes the frame that the segment is going to begin with.
    pub(super) fn write_first_frame(&self, frame: &[u8]) -> io::Result<()> {
        self.file.write_all_at(frame, HEADER_BYTES as u64)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// True for the file that [`Spare::make`] makes, and finds again.
    pub(super) fn is_named_spare(&self) -> bool {
        self.path.ends_with(SPARE)
    }

    /// Makes it the segment that `header` names.
    pub(super) fn become_segment(self, disk: &dyn Disk, dir: &Path, header: FileHeader) -> io::Result<SegmentFile> {
        let header = FileHeader {
            recycled: self.recycled,
            ..header
        };
        self.file.write_all_at(&header.encode(), 0)?;
        self.file.sync()?;
        disk.rename(&self.path, &path_of(dir, header.segment))?;
        disk.sync_dir(dir)?;
        Ok(SegmentFile {
            header,
            file: self.file,
            extent: self.extent,
            bytes: self.bytes,
            cleared: self.cleared.max(HEADER_BYTES as u64),
        })
    }
}

impl SegmentFile {
    /// Cuts off what stands behind the last frame, which ends at `used`: room that was never written, a write that never
    /// finished, or an earlier life of the file.
    pub(super) fn trim(&mut self, used: u64) -> io::Result<()> {
        if used < self.bytes {
            self.file.truncate(used)?;
            self.bytes = used;
            self.cleared = used;
        }
        Ok(())
    }

    /// Writes zeros over `bytes` from `position` on.
    fn clear(&self, mut position: u64, mut bytes: u64) -> io::Result<()> {
        while bytes > 0 {
            let piece = bytes.min(ZEROS.len() as u64);
            self.file.write_all_at(&ZEROS[..piece as usize], position)?;
            (position, bytes) = (position + piece, bytes - piece);
        }
        Ok(())
    }

    /// Clears a piece of the room behind `end`, up to which a frame of `len` bytes was just written and is going to be
    /// synced. The syncs that follow are cheaper.
    pub(super) fn clear_ahead(&mut self, end: u64, len: usize) -> io::Result<()> {
        if end <= self.cleared {
            return Ok(());
        }
        self.cleared = end;
        if len <= CLEARED_FOR_MAX {
            let bytes = AHEAD_BYTES.min(self.bytes - end);
            self.clear(end, bytes)?;
            self.cleared += bytes;
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
