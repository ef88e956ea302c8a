// SPDX-License-Identifier: Apache-2.0
//! Reading snapshots: their events, part by part. Records apart from the events are read when they are wanted.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{CHUNK_HEADER_BYTES, SnapshotSize, list, path_of};
use crate::disk::{Disk, DiskFile};
use crate::extent::Extent;
use crate::file::Replay;
use crate::file::header::{FileHeader, FileKind, HEADER_BYTES, ShardId};
use crate::file::recovery::OpenError;
use crate::shard_log::Lsn;

/// Bytes of chunks that are read at once if reading takes as long as a request.
const READ_BYTES: usize = 8 << 20;

/// Reads many bytes at once, because small reads would take a request each.
#[derive(Default)]
struct ReadAhead {
    position: u64,
    bytes: Vec<u8>,
}

impl ReadAhead {
    fn read(&mut self, file: &(dyn DiskFile + 'static), buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let ahead = position.checked_sub(self.position);
        let ahead = ahead.filter(|at| at + buffer.len() as u64 <= self.bytes.len() as u64);
        let at = if let Some(at) = ahead {
            at as usize
        } else {
            self.bytes.resize(buffer.len().max(READ_BYTES), 0);
            let read = file.read_full_at(&mut self.bytes, position)?;
            self.bytes.truncate(read);
            self.position = position;
            0
        };
        let count = buffer.len().min(self.bytes.len() - at);
        buffer[..count].copy_from_slice(&self.bytes[at..][..count]);
        Ok(count)
    }
}

/// Passes the newest snapshot to `replay`, part by part. Returns its header and size. After an error the caller must
/// discard the parts.
pub(in crate::file) fn replay_newest(
    disk: &dyn Disk,
    dir: &Path,
    id: ShardId,
    replay: &mut dyn Replay,
) -> Result<Option<(FileHeader, SnapshotSize)>, OpenError> {
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
    let mut visit = |position, part: &[u8]| replay.snapshot(lsn, part, Some(&extent.at(position)));
    let mut ahead = ReadAhead::default();
    let reads_ahead = disk.shares_bytes();
    let mut read = |buffer: &mut [u8], position| {
        if reads_ahead {
            ahead.read(&*file, buffer, position)
        } else {
            file.read_full_at(buffer, position)
        }
    };
    let bytes = file.len()?;
    match read_chunks(&mut read, bytes, &header, &mut visit)? {
        Ok(()) => Ok(Some((
            header,
            SnapshotSize {
                all: bytes,
                written: bytes.saturating_sub(header.record_bytes),
            },
        ))),
        Err(damage) => Err(damaged(damage)),
    }
}

/// The lengths and CRCs of all chunks of a snapshot, as its file has them. They come after `record_bytes` of records.
pub(in crate::file) fn chunk_headers(
    record_bytes: u64,
    read: &mut dyn FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<Vec<u8>> {
    let mut headers = Vec::new();
    let mut position = HEADER_BYTES as u64 + record_bytes;
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
pub(in crate::file) type SnapshotDamage = (u64, &'static str);

/// Passes each chunk of a snapshot of `len` bytes and its position to `visit`. An empty snapshot counts as one empty
/// chunk. If damage is found, the chunks visited before must be discarded.
pub(in crate::file) fn read_chunks(
    read: &mut dyn FnMut(&mut [u8], u64) -> io::Result<usize>,
    len: u64,
    header: &FileHeader,
    visit: &mut dyn FnMut(u64, &[u8]),
) -> io::Result<Result<(), SnapshotDamage>> {
    let salt = header.salt;
    let mut position = HEADER_BYTES as u64 + header.record_bytes;
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
