// SPDX-License-Identifier: Apache-2.0
//! Snapshots: the state after some entry, in a file of its own.
//!
//! ```text
//! header page, then chunks: u32 length, u32 CRC-32C begun at the salt, bytes; a chunk of length 0 ends the file,
//! and its CRC field holds the number of chunks before it
//! ```
//!
//! A snapshot is written under a temporary name, synced and renamed, then older ones are removed. So the newest by name is
//! whole, unless the disk damaged it; then the segments it stood for are gone, and the shard does not open.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::header::{FileHeader, FileKind, HEADER_BYTES, ShardId};
use super::recovery::{OpenError, RecoveredLog};
use super::{Replay, segment};
use crate::StoredRecord;
use crate::disk::{Disk, DiskFile};
use crate::extent::{Extent, ExtentLocation};
use crate::shard_log::{Chunk, Chunks, Lsn};

const SUFFIX: &str = ".snapshot";
const TEMPORARY: &str = "snapshot.tmp";
const CHUNK_HEADER_BYTES: usize = 8;
/// Bytes after which the messages in a snapshot that is being written are read from it: bounds the list of those to move.
const RELOCATE_BYTES: u64 = 64 << 20;

fn path_of(dir: &Path, lsn: Lsn) -> PathBuf {
    dir.join(format!("{:020}{SUFFIX}", lsn.0))
}

/// The last entry that a snapshot covers, by its file name.
pub(super) fn lsn_of(name: &str) -> Option<Lsn> {
    let digits = name.strip_suffix(SUFFIX)?;
    (digits.len() == 20).then(|| digits.parse().ok().map(Lsn)).flatten()
}

fn list(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<Lsn>> {
    let mut found: Vec<Lsn> = disk.list(dir)?.iter().filter_map(|name| lsn_of(name)).collect();
    found.sort_unstable();
    Ok(found)
}

/// What a snapshot stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct SnapshotCoverage {
    pub(super) id: ShardId,
    pub(super) epoch: u64,
    /// The last entry in it.
    pub(super) last: Lsn,
    /// Segments before this one are of no more use.
    pub(super) first_segment: u64,
}

/// Writes a snapshot and removes older ones. One that cannot be written leaves no file behind: its room is worth much.
/// Its bytes.
pub(super) fn put(disk: &dyn Disk, dir: &Path, covers: SnapshotCoverage, chunks: Chunks<'_>) -> io::Result<u64> {
    let temporary = dir.join(TEMPORARY);
    match disk.remove(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.create(&temporary)?;
    let bytes = write(&file, covers, chunks).inspect_err(|_| {
        let _ = disk.remove(&temporary);
    })?;
    disk.rename(&temporary, &path_of(dir, covers.last))?;
    disk.sync_dir(dir)?;
    remove_before(disk, dir, covers.last)?;
    Ok(bytes)
}

/// Writes what a snapshot holds, and syncs it; how many bytes.
fn write(file: &Arc<dyn DiskFile>, covers: SnapshotCoverage, chunks: Chunks<'_>) -> io::Result<u64> {
    let at = covers.last;
    let header = FileHeader {
        kind: FileKind::Snapshot,
        id: covers.id,
        salt: crc32c::crc32c(&at.0.to_le_bytes()),
        epoch: covers.epoch,
        segment: covers.first_segment,
        lsn: at,
        crc_before: 0,
        recycled: false,
        drains: false,
        resumes: None,
    };
    let extent = Extent::new(Arc::clone(file))?;
    let mut relocations: Vec<(StoredRecord, ExtentLocation)> = Vec::new();
    let mut synced = 0;
    let mut position = HEADER_BYTES as u64;
    let mut count = 0u32;
    for chunk in chunks {
        let Chunk { bytes: chunk, messages } = chunk?;
        if chunk.is_empty() {
            continue;
        }
        let mut bytes = Vec::with_capacity(CHUNK_HEADER_BYTES + chunk.len());
        bytes.extend_from_slice(&u32::try_from(chunk.len()).map_err(io::Error::other)?.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c_append(header.salt, &chunk).to_le_bytes());
        bytes.extend_from_slice(&chunk);
        file.write_all_at(&bytes, position)?;
        let start = extent.at(position + CHUNK_HEADER_BYTES as u64);
        relocations.extend(messages.into_iter().map(|(message, at)| (message, start.plus(at))));
        position += bytes.len() as u64;
        count += 1;
        if !relocations.is_empty() && position - synced >= RELOCATE_BYTES {
            file.sync()?;
            synced = position;
            relocate(&mut relocations);
        }
    }
    let mut end = [0; CHUNK_HEADER_BYTES];
    end[4..].copy_from_slice(&count.to_le_bytes());
    file.write_all_at(&end, position)?;
    file.write_all_at(&header.encode(), 0)?;
    file.sync()?;
    relocate(&mut relocations);
    Ok(position + CHUNK_HEADER_BYTES as u64)
}

/// Reads messages from the snapshot from now on. It is synced that far, and stays open whatever becomes of its name.
fn relocate(relocations: &mut Vec<(StoredRecord, ExtentLocation)>) {
    for (message, location) in relocations.drain(..) {
        message.move_to(location);
    }
}

/// True when a directory has a snapshot.
pub(super) fn is_there(disk: &dyn Disk, dir: &Path) -> io::Result<bool> {
    Ok(!list(disk, dir)?.is_empty())
}

/// Removes snapshots that a newer one replaced.
pub(super) fn remove_before(disk: &dyn Disk, dir: &Path, newest: Lsn) -> io::Result<()> {
    for older in list(disk, dir)?.into_iter().filter(|lsn| *lsn < newest) {
        disk.remove(&path_of(dir, older))?;
    }
    Ok(())
}

/// Shows the newest snapshot, part by part; its header and its bytes. Who got parts and then an error forgets them.
pub(super) fn replay_newest(
    disk: &dyn Disk,
    dir: &Path,
    id: ShardId,
    replay: &mut dyn Replay,
) -> Result<Option<(FileHeader, u64)>, OpenError> {
    let Some(lsn) = list(disk, dir)?.pop() else {
        return Ok(None);
    };
    let path = path_of(dir, lsn);
    let file = disk.open(&path)?;
    let mut page = vec![0; HEADER_BYTES];
    let read = file.read_full_at(&mut page, 0)?;
    let header = FileHeader::decode(&page[..read], FileKind::Snapshot, id).map_err(|error| OpenError::Header {
        path: path.clone(),
        error,
    })?;
    let damaged = |(position, detail)| OpenError::Damaged {
        path: path.clone(),
        position,
        lost: Lsn(1),
        detail,
    };
    if header.lsn != lsn {
        return Err(damaged((0, "the file has the name of another snapshot")));
    }
    let extent = Extent::new(Arc::clone(&file))?;
    let mut read = |buffer: &mut [u8], position| file.read_full_at(buffer, position);
    let mut visit = |position, part: &[u8]| replay.snapshot(lsn, part, Some(&extent.at(position)));
    let bytes = file.len()?;
    match read_chunks(&mut read, bytes, header.salt, &mut visit)? {
        Ok(()) => Ok(Some((header, bytes))),
        Err(damage) => Err(damaged(damage)),
    }
}

/// A snapshot is written after all entries it covers were synced: where segments end before, they have lost some, and no
/// new segment could follow them.
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

/// Where a snapshot is damaged, and how.
pub(super) type SnapshotDamage = (u64, &'static str);

/// Shows each chunk of a snapshot of `len` bytes and where its bytes stand, or nothing once if it has none. What was shown
/// before damage was found is of no use.
pub(super) fn read_chunks(
    read: &mut dyn FnMut(&mut [u8], u64) -> io::Result<usize>,
    len: u64,
    salt: u32,
    visit: &mut dyn FnMut(u64, &[u8]),
) -> io::Result<Result<(), SnapshotDamage>> {
    let mut position = HEADER_BYTES as u64;
    let mut count = 0;
    let mut chunk = Vec::new();
    loop {
        let mut header = [0; CHUNK_HEADER_BYTES];
        if read(&mut header, position)? < CHUNK_HEADER_BYTES {
            return Ok(Err((position, "the snapshot ends too early")));
        }
        let bytes = u32::from_le_bytes(header[..4].try_into().expect("four bytes"));
        let check = u32::from_le_bytes(header[4..].try_into().expect("four bytes"));
        let start = position + CHUNK_HEADER_BYTES as u64;
        if bytes == 0 {
            // A lost page reads as zeros, and zeros as the end of nothing: what comes after tells.
            if check != count || start != len {
                return Ok(Err((position, "the snapshot has lost a part")));
            }
            if count == 0 {
                visit(start, &[]);
            }
            return Ok(Ok(()));
        }
        let end = start + u64::from(bytes);
        let is_whole = end <= len && {
            chunk.resize(bytes as usize, 0);
            read(&mut chunk, start)? == chunk.len() && crc32c::crc32c_append(salt, &chunk) == check
        };
        if !is_whole {
            return Ok(Err((position, "a part of the snapshot is damaged")));
        }
        visit(start, &chunk);
        position = end;
        count += 1;
    }
}
