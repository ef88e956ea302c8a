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

use super::header::{HEADER_BYTES, Header, Kind, ShardId};
use super::recovery::{OpenError, Recovered};
use super::segment;
use crate::disk::Disk;
use crate::shard_log::Lsn;

const SUFFIX: &str = ".snapshot";
const TEMPORARY: &str = "snapshot.tmp";
const CHUNK_HEADER_BYTES: usize = 8;

fn path_of(dir: &Path, lsn: Lsn) -> PathBuf {
    dir.join(format!("{:020}{SUFFIX}", lsn.0))
}

/// The last entry that a snapshot covers, by its file name.
pub(super) fn lsn_of(name: &str) -> Option<Lsn> {
    let digits = name.strip_suffix(SUFFIX)?;
    (digits.len() == 20).then(|| digits.parse().ok().map(Lsn)).flatten()
}

fn all(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<Lsn>> {
    let mut found: Vec<Lsn> = disk.list(dir)?.iter().filter_map(|name| lsn_of(name)).collect();
    found.sort_unstable();
    Ok(found)
}

/// What a snapshot stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Covers {
    pub(super) id: ShardId,
    pub(super) epoch: u64,
    /// The last entry in it.
    pub(super) last: Lsn,
    /// Segments before this one are of no more use.
    pub(super) first_segment: u64,
}

/// Writes a snapshot and removes older ones.
pub(super) fn put(
    disk: &dyn Disk,
    dir: &Path,
    covers: Covers,
    chunks: &mut dyn Iterator<Item = Vec<u8>>,
) -> io::Result<()> {
    let at = covers.last;
    let temporary = dir.join(TEMPORARY);
    match disk.remove(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.create(&temporary)?;
    let header = Header {
        kind: Kind::Snapshot,
        id: covers.id,
        salt: crc32c::crc32c(&at.0.to_le_bytes()),
        epoch: covers.epoch,
        segment: covers.first_segment,
        lsn: at,
        crc_before: 0,
    };
    let mut position = HEADER_BYTES as u64;
    let mut count = 0u32;
    for chunk in chunks.filter(|chunk| !chunk.is_empty()) {
        let mut bytes = Vec::with_capacity(CHUNK_HEADER_BYTES + chunk.len());
        bytes.extend_from_slice(&u32::try_from(chunk.len()).map_err(io::Error::other)?.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c_append(header.salt, &chunk).to_le_bytes());
        bytes.extend_from_slice(&chunk);
        file.write_all_at(&bytes, position)?;
        position += bytes.len() as u64;
        count += 1;
    }
    let mut end = [0; CHUNK_HEADER_BYTES];
    end[4..].copy_from_slice(&count.to_le_bytes());
    file.write_all_at(&end, position)?;
    file.write_all_at(&header.encode(), 0)?;
    file.sync()?;
    disk.rename(&temporary, &path_of(dir, at))?;
    disk.sync_dir(dir)?;
    remove_before(disk, dir, at)
}

/// True when a directory has a snapshot.
pub(super) fn is_there(disk: &dyn Disk, dir: &Path) -> io::Result<bool> {
    Ok(!all(disk, dir)?.is_empty())
}

/// Removes snapshots that a newer one replaced.
pub(super) fn remove_before(disk: &dyn Disk, dir: &Path, newest: Lsn) -> io::Result<()> {
    for older in all(disk, dir)?.into_iter().filter(|lsn| *lsn < newest) {
        disk.remove(&path_of(dir, older))?;
    }
    Ok(())
}

/// The newest snapshot: its header and all its bytes.
pub(super) fn newest(disk: &dyn Disk, dir: &Path, id: ShardId) -> Result<Option<(Header, Vec<u8>)>, OpenError> {
    let Some(lsn) = all(disk, dir)?.pop() else {
        return Ok(None);
    };
    let path = path_of(dir, lsn);
    let file = disk.open(&path)?;
    let mut bytes = vec![0; file.len()? as usize];
    let read = file.read_full_at(&mut bytes, 0)?;
    bytes.truncate(read);
    let header = Header::decode(&bytes, Kind::Snapshot, id).map_err(|error| OpenError::Header {
        path: path.clone(),
        error,
    })?;
    let damaged = |(position, detail): (usize, _)| OpenError::Damaged {
        path: path.clone(),
        position: position as u64,
        lost: Lsn(1),
        detail,
    };
    if header.lsn != lsn {
        return Err(damaged((0, "the file has the name of another snapshot")));
    }
    let content = content(&bytes, header.salt).map_err(damaged)?;
    Ok(Some((header, content)))
}

/// A snapshot is written after all entries it covers were synced: where segments end before, they have lost some, and no
/// new segment could follow them.
pub(super) fn check_reached(dir: &Path, recovered: &Recovered, covered: Lsn) -> Result<(), OpenError> {
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

/// What the chunks of a snapshot's `bytes` hold together; or where it is damaged, and how.
pub(super) fn content(bytes: &[u8], salt: u32) -> Result<Vec<u8>, (usize, &'static str)> {
    let mut content = Vec::with_capacity(bytes.len());
    let mut position = HEADER_BYTES;
    let mut count = 0;
    loop {
        let Some(chunk) = bytes.get(position..position + CHUNK_HEADER_BYTES) else {
            return Err((position, "the snapshot ends too early"));
        };
        let len = u32::from_le_bytes(chunk[..4].try_into().expect("four bytes")) as usize;
        let check = u32::from_le_bytes(chunk[4..].try_into().expect("four bytes"));
        let start = position + CHUNK_HEADER_BYTES;
        if len == 0 {
            // A lost page reads as zeros, and zeros as the end of nothing: what comes after tells.
            return if check == count && start == bytes.len() {
                Ok(content)
            } else {
                Err((position, "the snapshot has lost a part"))
            };
        }
        match bytes.get(start..start + len) {
            Some(chunk) if crc32c::crc32c_append(salt, chunk) == check => content.extend_from_slice(chunk),
            _ => return Err((position, "a part of the snapshot is damaged")),
        }
        position = start + len;
        count += 1;
    }
}
