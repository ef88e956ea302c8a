// SPDX-License-Identifier: Apache-2.0
//! Segment files. Space is allocated in a file with a temporary name. Later the file gets a header and its segment
//! name.
//!
//! The file is either new or recycled from a segment that a snapshot replaced and that no message is read from.
//! Syncing overwritten bytes is faster than syncing the first write to allocated space, so a writer that syncs also
//! writes zeros after a frame.
//!
//! Invariants
//! - a file with a segment name has a synced header and allocated space: both are synced before the rename. The next
//!   owner truncates the space after the last frame;
//! - a file with a temporary name contains no data and may be overwritten or removed;
//! - the header of a recycled file marks it as recycled: the bytes after its last frame are from an earlier segment.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::header::{FileHeader, HEADER_BYTES};
use crate::disk::{Disk, DiskFile, ZEROS};
use crate::extent::Extent;

/// The number of bytes that are zeroed after a frame.
const AHEAD_BYTES: u64 = ZEROS.len() as u64;
/// Nothing is zeroed after a longer frame, because that costs more than it gains.
const CLEAR_AFTER_FRAME_MAX: usize = ZEROS.len() / 4;
const SUFFIX: &str = ".journal";
pub(super) const SPARE: &str = "spare.tmp";
/// The files of the drain reserve (`reserve`).
pub(super) const RESERVE: [&str; 2] = ["reserve-1.tmp", "reserve-2.tmp"];

/// An open segment.
#[derive(Debug, Clone)]
pub(super) struct SegmentFile {
    pub(super) header: FileHeader,
    pub(super) file: Arc<dyn DiskFile>,
    /// The same file, for reading messages.
    pub(super) extent: Extent,
    pub(super) bytes: u64,
    /// The space up to this position has been written at least once.
    pub(super) cleared: u64,
}

pub(super) fn path_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:010}{SUFFIX}"))
}

/// The number of a segment from its file name.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    (digits.len() == 10).then(|| digits.parse().ok()).flatten()
}

/// The numbers of the segments in a directory, in ascending order.
pub(super) fn numbers(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<u64>> {
    let mut numbers: Vec<u64> = disk.list(dir)?.iter().filter_map(|name| number_of(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// A file allocated for a later segment, so that the segment begins without delay and a full disk still has some
/// space.
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
    /// Creates the spare file of a log, at least `bytes` bytes long.
    pub(super) fn make(disk: &dyn Disk, dir: &Path, bytes: u64) -> io::Result<Self> {
        let path = dir.join(SPARE);
        // An existing file holds zeros, and perhaps the header of a segment that was never renamed.
        let file = open_or_create(disk, &path)?;
        let bytes = file.len()?.max(bytes);
        file.allocate(bytes)?;
        disk.keep_before(&*file)?;
        Ok(Self {
            path,
            extent: Extent::new(Arc::clone(&file))?,
            file,
            bytes,
            cleared: 0,
            recycled: false,
        })
    }

    /// Creates or opens a file of the drain reserve, `bytes` bytes long. The file contains no data, so it is not
    /// synced and may have to be recreated after a power loss.
    pub(super) fn make_reserve(disk: &dyn Disk, dir: &Path, name: &str, bytes: u64) -> io::Result<Self> {
        let path = dir.join(name);
        let file = open_or_create(disk, &path)?;
        if let Err(error) = file.allocate(bytes) {
            // An incomplete file is useless, and others may need its space.
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

    /// Renames the file of a segment that is no longer needed, for a later segment or for the drain reserve. The
    /// caller must sync the directory before the file is used.
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

    /// The extent and size of the file. The buffer uses them to reserve space for entries.
    pub(super) fn allocation(&self) -> (Extent, u64) {
        (self.extent.clone(), self.bytes)
    }

    /// Writes the first frame of the later segment.
    pub(super) fn write_first_frame(&self, frame: &[u8]) -> io::Result<()> {
        self.file.write_all_at(frame, HEADER_BYTES as u64)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// True if the file has the name that [`Spare::make`] uses.
    pub(super) fn is_named_spare(&self) -> bool {
        self.path.ends_with(SPARE)
    }

    /// Turns the file into the segment that `header` describes.
    pub(super) fn become_segment(self, disk: &dyn Disk, dir: &Path, header: FileHeader) -> io::Result<SegmentFile> {
        let header = FileHeader {
            recycled: self.recycled,
            ..header
        };
        self.file.write_all_at(&header.encode(), 0)?;
        disk.keep_before(&*self.file)?;
        disk.rename(&self.path, &path_of(dir, header.segment))?;
        disk.keep_names_before(dir)?;
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
    /// Truncates the bytes after the last frame, which ends at `used`: unused space, an unfinished write, or the rest
    /// of an earlier segment.
    pub(super) fn trim(&mut self, used: u64) -> io::Result<()> {
        if used < self.bytes {
            self.file.truncate(used)?;
            self.bytes = used;
            self.cleared = used;
        }
        Ok(())
    }

    /// Writes `bytes` zeros at `position`.
    fn clear(&self, mut position: u64, mut bytes: u64) -> io::Result<()> {
        while bytes > 0 {
            let piece = bytes.min(ZEROS.len() as u64);
            self.file.write_all_at(&ZEROS[..piece as usize], position)?;
            (position, bytes) = (position + piece, bytes - piece);
        }
        Ok(())
    }

    /// Zeroes some space after `end`, where a frame of `len` bytes ends. Call it before the frame is synced. It makes
    /// later syncs cheaper.
    pub(super) fn clear_ahead(&mut self, end: u64, len: usize) -> io::Result<()> {
        if end <= self.cleared {
            return Ok(());
        }
        self.cleared = end;
        if len <= CLEAR_AFTER_FRAME_MAX {
            let bytes = AHEAD_BYTES.min(self.bytes - end);
            self.clear(end, bytes)?;
            self.cleared += bytes;
        }
        Ok(())
    }

    /// Reads all bytes after the header into `content`, replacing what it contains.
    pub(super) fn read_content(&self, content: &mut Vec<u8>) -> io::Result<()> {
        // The buffer is not cleared first, because zeroing takes as long as reading.
        content.resize(self.bytes.saturating_sub(HEADER_BYTES as u64) as usize, 0);
        let read = self.file.read_full_at(content, HEADER_BYTES as u64)?;
        content.truncate(read);
        Ok(())
    }
}

/// True if `name` is that of a file without data.
pub(super) fn is_temporary(name: &str) -> bool {
    name.strip_suffix(".tmp").is_some()
}
