// SPDX-License-Identifier: Apache-2.0
//! Snapshots: the state of a shard after an entry, in a separate file.
//!
//! ```text
//! header page, then chunks: u32 length, u32 CRC-32C begun at the salt, bytes; a chunk of length 0 ends the file,
//! and its CRC field holds the number of chunks before it
//! ```
//!
//! A snapshot is written under a temporary name, synced and renamed. Then older snapshots are removed. The newest by
//! name is therefore complete, unless the disk damaged it. In that case the segments it replaced are gone, and the
//! shard cannot be opened.

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
/// After this many bytes, the messages in a snapshot that is being written are relocated to it. This bounds the list
/// of relocations.
const RELOCATE_BYTES: u64 = 64 << 20;

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
}

/// Writes a snapshot, removes older ones, and returns its size in bytes. After an error no file is left behind,
/// because its space may be needed.
pub(super) fn put(disk: &dyn Disk, dir: &Path, covers: SnapshotCoverage, chunks: Chunks<'_>) -> io::Result<u64> {
    let temporary = dir.join(TEMPORARY);
    match disk.remove(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.create(&temporary)?;
    let bytes = write(disk, &file, covers, chunks).inspect_err(|_| {
        let _ = disk.remove(&temporary);
    })?;
    disk.rename(&temporary, &path_of(dir, covers.last))?;
    disk.keep_names_before(dir)?;
    remove_before(disk, dir, covers.last)?;
    Ok(bytes)
}

/// Writes and syncs the content of a snapshot. Returns its size in bytes.
fn write(disk: &dyn Disk, file: &Arc<dyn DiskFile>, covers: SnapshotCoverage, chunks: Chunks<'_>) -> io::Result<u64> {
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
            disk.keep_before(&**file)?;
            synced = position;
            relocate(&mut relocations);
        }
    }
    let mut end = [0; CHUNK_HEADER_BYTES];
    end[4..].copy_from_slice(&count.to_le_bytes());
    file.write_all_at(&end, position)?;
    file.write_all_at(&header.encode(), 0)?;
    disk.keep_before(&**file)?;
    relocate(&mut relocations);
    Ok(position + CHUNK_HEADER_BYTES as u64)
}

/// Switches reads of messages to the snapshot. The snapshot is synced up to these messages, and its file stays open
/// even if its name is removed.
fn relocate(relocations: &mut Vec<(StoredRecord, ExtentLocation)>) {
    for (message, location) in relocations.drain(..) {
        message.move_to(location);
    }
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

/// Passes the newest snapshot to `replay`, part by part. Returns its header and size. After an error the caller must
/// discard the parts.
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
        return Err(damaged((0, "its file name is that of another snapshot")));
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

/// The lengths and CRCs of all chunks of a snapshot, as its file has them.
pub(super) fn chunk_headers(read: &mut dyn FnMut(&mut [u8], u64) -> io::Result<usize>) -> io::Result<Vec<u8>> {
    let mut headers = Vec::new();
    let mut position = HEADER_BYTES as u64;
    loop {
        let mut header = [0; CHUNK_HEADER_BYTES];
        // A damaged snapshot may end anywhere.
        if read(&mut header, position)? < CHUNK_HEADER_BYTES {
            return Ok(headers);
        }
        headers.extend_from_slice(&header);
        let bytes = u32::from_le_bytes(header[..4].try_into().expect("four bytes"));
        if bytes == 0 {
            return Ok(headers);
        }
        position += CHUNK_HEADER_BYTES as u64 + u64::from(bytes);
    }
}

/// The position and kind of the damage in a snapshot.
pub(super) type SnapshotDamage = (u64, &'static str);

/// Passes each chunk of a snapshot of `len` bytes and its position to `visit`. An empty snapshot counts as one empty
/// chunk. If damage is found, the chunks visited before must be discarded.
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
            // A lost page reads as zeros, like the end of an empty snapshot. The count and the length distinguish the
            // two.
            if check != count || start != len {
                return Ok(Err((position, "a part of the snapshot is missing")));
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
