// SPDX-License-Identifier: Apache-2.0
//! Snapshots: the state of a shard after an entry, in a separate file.
//!
//! ```text
//! header page, then records, then chunks: u32 length, u32 CRC-32C begun at the salt, bytes; a chunk of length 0 ends
//! the file, and its CRC field holds the number of chunks before it
//! ```
//!
//! Only a disk that shares bytes has records before the chunks (`records`). Elsewhere, events contain them.
//!
//! A snapshot is written under a temporary name, synced and renamed. Then older snapshots are removed. The newest by
//! name is therefore complete, unless the disk damaged it. In that case the segments it replaced are gone, and the
//! shard cannot be opened.

mod read;
mod records;
mod write;

use std::io;
use std::path::{Path, PathBuf};

use super::header::ShardId;
use super::recovery::{OpenError, RecoveredLog};
use super::segment;
use crate::disk::Disk;
use crate::shard_log::{Chunks, Lsn};

pub(super) use read::{chunk_headers, read_chunks, replay_newest};
use write::SnapshotWriter;

const SUFFIX: &str = ".snapshot";
const TEMPORARY: &str = "snapshot.tmp";
/// The chunks of a snapshot, until its records are complete.
const CHUNKS: &str = "snapshot-chunks.tmp";
const CHUNK_HEADER_BYTES: usize = 8;
pub(super) fn path_of(dir: &Path, lsn: Lsn) -> PathBuf {
    dir.join(format!("{:020}{SUFFIX}", lsn.0))
}

/// The last entry that a snapshot covers, from its file name.
pub(super) fn lsn_of(name: &str) -> Option<Lsn> {
    let digits = name.strip_suffix(SUFFIX)?;
    (digits.len() == 20).then(|| digits.parse().ok().map(Lsn)).flatten()
}

fn list(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<Lsn>> {
    let mut found: Vec<Lsn> = disk.list(dir)?.iter().filter_map(|name| lsn_of(name)).collect();
    found.sort_unstable();
    Ok(found)
}

/// The entries that a snapshot covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct SnapshotCoverage {
    pub(super) id: ShardId,
    pub(super) epoch: u64,
    /// The last covered entry.
    pub(super) last: Lsn,
    /// Segments before this one are no longer needed.
    pub(super) first_segment: u64,
    /// A random number of its owner.
    pub(super) mark: u32,
}

/// The size of a snapshot in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SnapshotSize {
    /// Of its file.
    pub(super) all: u64,
    /// Without what it shares with other files.
    pub(super) written: u64,
}

/// Writes a snapshot, removes older ones, and returns its size. After an error no file is left behind, because its space
/// may be needed.
pub(super) fn put(
    disk: &dyn Disk,
    dir: &Path,
    covers: SnapshotCoverage,
    chunks: Chunks<'_>,
) -> io::Result<SnapshotSize> {
    let (temporary, chunk_path) = (dir.join(TEMPORARY), dir.join(CHUNKS));
    let is_apart = disk.shares_bytes();
    let remove = |path: &Path| match disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    let remove_all = || {
        remove(&temporary)?;
        if is_apart { remove(&chunk_path) } else { Ok(()) }
    };
    remove_all()?;
    let file = disk.create(&temporary)?;
    let mut write = || {
        let chunk_file = is_apart.then(|| disk.create(&chunk_path)).transpose()?;
        SnapshotWriter::over(&file, chunk_file.as_ref(), covers)?.write(disk, chunks, covers.mark)
    };
    let size = write().inspect_err(|_| {
        let _ = remove_all();
    })?;
    disk.rename(&temporary, &path_of(dir, covers.last))?;
    if is_apart {
        disk.remove(&chunk_path)?;
    }
    disk.keep_names_before(dir)?;
    remove_before(disk, dir, covers.last)?;
    Ok(size)
}

/// True if a directory contains a snapshot.
pub(super) fn is_there(disk: &dyn Disk, dir: &Path) -> io::Result<bool> {
    Ok(!list(disk, dir)?.is_empty())
}

/// Removes snapshots older than `newest`.
pub(super) fn remove_before(disk: &dyn Disk, dir: &Path, newest: Lsn) -> io::Result<()> {
    for older in list(disk, dir)?.into_iter().filter(|lsn| *lsn < newest) {
        disk.remove(&path_of(dir, older))?;
    }
    Ok(())
}

/// Checks that the segments reach the end of the snapshot. All covered entries were synced before the snapshot was
/// written, so segments that end earlier have lost entries, and no new segment could follow them.
pub(super) fn check_reached(dir: &Path, recovered: &RecoveredLog, covered: Lsn) -> Result<(), OpenError> {
    match recovered.segments.last() {
        Some(last) if recovered.next <= covered => Err(OpenError::Damaged {
            path: segment::path_of(dir, last.header.segment),
            position: last.bytes,
            lost: recovered.next,
            detail: "it ends before the entries that the snapshot covers",
        }),
        _ => Ok(()),
    }
}
