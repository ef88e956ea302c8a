// SPDX-License-Identifier: Apache-2.0
//! Snapshots: the state of a shard after an entry, in a separate file.
//!
//! ```text
//! header page, then records, then chunks: u32 length, u32 CRC-32C begun at the salt, bytes; a chunk of length 0 ends
//! the file, and its CRC field holds the number of chunks before it
//! ```
//!
//! Only a disk that shares bytes has records before the chunks (`snapshot_records`). Elsewhere, events contain them.
//!
//! A snapshot is written under a temporary name, synced and renamed. Then older snapshots are removed. The newest by
//! name is therefore complete, unless the disk damaged it. In that case the segments it replaced are gone, and the
//! shard cannot be opened.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::header::{FileHeader, FileKind, HEADER_BYTES, ShardId};
use super::recovery::{OpenError, RecoveredLog};
use super::snapshot_records::RecordWriter;
use super::{Replay, segment};
use crate::StoredRecord;
use crate::disk::{Disk, DiskFile};
use crate::extent::{Extent, ExtentLocation};
use crate::shard_log::{Chunks, Lsn};

const SUFFIX: &str = ".snapshot";
const TEMPORARY: &str = "snapshot.tmp";
/// The chunks of a snapshot, until its records are complete.
const CHUNKS: &str = "snapshot-chunks.tmp";
const CHUNK_HEADER_BYTES: usize = 8;
/// After this many bytes, the messages in a snapshot that is being written are relocated to it. This bounds the list
/// of relocations.
const RELOCATE_BYTES: u64 = 64 << 20;
/// Bytes of chunks that are read at once if reading takes as long as a request.
const READ_BYTES: usize = 8 << 20;

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
    let written = if is_apart {
        disk.create(&chunk_path).and_then(|chunk_file| {
            let mut writer = SnapshotWriter::over(&file, &chunk_file, covers)?;
            writer.write(disk, chunks)?;
            writer.finish_apart(disk, &chunk_file, covers.mark)
        })
    } else {
        SnapshotWriter::over(&file, &file, covers).and_then(|mut writer| {
            writer.write(disk, chunks)?;
            writer.finish(disk)
        })
    };
    let size = written.inspect_err(|_| {
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

/// Writes the content of a snapshot.
struct SnapshotWriter<'a> {
    header: FileHeader,
    records: RecordWriter<'a>,
    extent: Extent,
    /// The file of the chunks, and the end of the last one.
    chunk_file: &'a Arc<dyn DiskFile>,
    position: u64,
    count: u32,
    relocations: Vec<(StoredRecord, ExtentLocation)>,
}

impl<'a> SnapshotWriter<'a> {
    fn over(
        file: &'a Arc<dyn DiskFile>,
        chunk_file: &'a Arc<dyn DiskFile>,
        covers: SnapshotCoverage,
    ) -> io::Result<Self> {
        let header = FileHeader {
            kind: FileKind::Snapshot,
            id: covers.id,
            salt: crc32c::crc32c(&covers.last.0.to_le_bytes()),
            epoch: covers.epoch,
            segment: covers.first_segment,
            lsn: covers.last,
            crc_before: 0,
            recycled: false,
            drains: false,
            resumes: None,
            record_bytes: 0,
        };
        Ok(Self {
            header,
            records: RecordWriter::new(file),
            extent: Extent::new(Arc::clone(file))?,
            chunk_file,
            position: HEADER_BYTES as u64,
            count: 0,
            relocations: Vec::new(),
        })
    }

    /// Writes the chunks and the records.
    fn write(&mut self, disk: &dyn Disk, chunks: Chunks<'_>) -> io::Result<()> {
        let mut synced = 0;
        for chunk in chunks {
            let chunk = chunk?;
            for placed in chunk.records {
                self.records.put(&placed)?;
                let location = self.extent.at(placed.position);
                self.relocations.push((placed.record, location));
            }
            if chunk.bytes.is_empty() {
                continue;
            }
            let mut bytes = Vec::with_capacity(CHUNK_HEADER_BYTES + chunk.bytes.len());
            bytes.extend_from_slice(
                &u32::try_from(chunk.bytes.len())
                    .map_err(io::Error::other)?
                    .to_le_bytes(),
            );
            bytes.extend_from_slice(&crc32c::crc32c_append(self.header.salt, &chunk.bytes).to_le_bytes());
            bytes.extend_from_slice(&chunk.bytes);
            self.chunk_file.write_all_at(&bytes, self.position)?;
            let start = self.extent.at(self.position + CHUNK_HEADER_BYTES as u64);
            let moved = chunk.messages.into_iter();
            self.relocations
                .extend(moved.map(|(message, at)| (message, start.plus(at))));
            self.position += bytes.len() as u64;
            self.count += 1;
            let end = self.position + self.records.end;
            if !self.relocations.is_empty() && end - synced >= RELOCATE_BYTES {
                self.records.flush()?;
                disk.keep_before(&**self.records.file)?;
                synced = end;
                relocate(&mut self.relocations);
            }
        }
        let mut end = [0; CHUNK_HEADER_BYTES];
        end[4..].copy_from_slice(&self.count.to_le_bytes());
        self.chunk_file.write_all_at(&end, self.position)?;
        self.position += CHUNK_HEADER_BYTES as u64;
        self.records.flush()
    }

    /// Ends a snapshot whose chunks are in another file: they come after the records.
    fn finish_apart(mut self, disk: &dyn Disk, chunk_file: &Arc<dyn DiskFile>, mark: u32) -> io::Result<SnapshotSize> {
        let start = HEADER_BYTES as u64;
        let chunk_bytes = self.position - start;
        let of = chunk_file.number().ok_or(io::ErrorKind::Unsupported)?;
        self.records.file.share(of, start, chunk_bytes, self.records.end)?;
        self.position = self.records.end + chunk_bytes;
        self.header.record_bytes = self.records.end - start;
        if self.header.record_bytes > 0 {
            self.header.crc_before = mark;
        }
        let written = start + self.records.written + chunk_bytes;
        let all = self.finish(disk)?.all;
        Ok(SnapshotSize { all, written })
    }

    /// Writes the header, syncs the file, and lets messages be read from it.
    fn finish(mut self, disk: &dyn Disk) -> io::Result<SnapshotSize> {
        let file = self.records.file;
        file.write_all_at(&self.header.encode(), 0)?;
        disk.keep_before(&**file)?;
        relocate(&mut self.relocations);
        Ok(SnapshotSize {
            all: self.position,
            written: self.position,
        })
    }
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
pub(super) fn replay_newest(
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

/// The lengths and CRCs of all chunks of a snapshot, as its file has them. They come after `record_bytes` of records.
pub(super) fn chunk_headers(
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
pub(super) type SnapshotDamage = (u64, &'static str);

/// Passes each chunk of a snapshot of `len` bytes and its position to `visit`. An empty snapshot counts as one empty
/// chunk. If damage is found, the chunks visited before must be discarded.
pub(super) fn read_chunks(
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
