// SPDX-License-Identifier: Apache-2.0
//! Writing snapshots.

use std::io;
use std::sync::Arc;

use super::records::RecordWriter;
use super::{CHUNK_HEADER_BYTES, SnapshotCoverage, SnapshotSize};
use crate::StoredRecord;
use crate::disk::{Disk, DiskFile};
use crate::extent::{Extent, ExtentLocation};
use crate::file::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::shard_log::Chunks;

/// After this many bytes, the messages in a snapshot that is being written are relocated to it. This bounds the list
/// of relocations.
const RELOCATE_BYTES: u64 = 64 << 20;

/// Writes the content of a snapshot.
pub(super) struct SnapshotWriter<'a> {
    header: FileHeader,
    records: RecordWriter<'a>,
    extent: Extent,
    /// The file of the chunks while the records are not complete, if it is another one.
    chunk_file: Option<&'a Arc<dyn DiskFile>>,
    /// The end of the last chunk.
    position: u64,
    count: u32,
    relocations: Vec<(StoredRecord, ExtentLocation)>,
}

impl<'a> SnapshotWriter<'a> {
    /// A writer of `file`. On a disk that shares bytes, chunks go to another file first.
    pub(super) fn over(
        file: &'a Arc<dyn DiskFile>,
        chunk_file: Option<&'a Arc<dyn DiskFile>>,
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
            mark: 0,
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

    /// Writes everything.
    pub(super) fn write(mut self, disk: &dyn Disk, chunks: Chunks<'_>, mark: u32) -> io::Result<SnapshotSize> {
        self.write_chunks(disk, chunks)?;
        self.finish(disk, mark)
    }

    /// Writes the chunks and the records.
    fn write_chunks(&mut self, disk: &dyn Disk, chunks: Chunks<'_>) -> io::Result<()> {
        let chunk_file = self.chunk_file.unwrap_or(self.records.file);
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
            chunk_file.write_all_at(&bytes, self.position)?;
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
        chunk_file.write_all_at(&end, self.position)?;
        self.position += CHUNK_HEADER_BYTES as u64;
        self.records.flush()
    }

    /// Puts the chunks after the records, writes the header, syncs the file, and lets messages be read from it.
    fn finish(&mut self, disk: &dyn Disk, mark: u32) -> io::Result<SnapshotSize> {
        let (file, start) = (self.records.file, HEADER_BYTES as u64);
        let mut size = SnapshotSize {
            all: self.position,
            written: self.position,
        };
        if let Some(chunk_file) = self.chunk_file {
            let of = chunk_file.number().ok_or(io::ErrorKind::Unsupported)?;
            let record_bytes = self.records.end - start;
            file.share(of, start, self.position - start, self.records.end)?;
            if record_bytes > 0 {
                (self.header.record_bytes, self.header.mark) = (record_bytes, mark);
            }
            size.all += record_bytes;
            size.written += self.records.written;
        }
        file.write_all_at(&self.header.encode(), 0)?;
        disk.keep_before(&**file)?;
        relocate(&mut self.relocations);
        Ok(size)
    }
}

/// Switches reads of messages to the snapshot. The snapshot is synced up to these messages, and its file stays open
/// even if its name is removed.
fn relocate(relocations: &mut Vec<(StoredRecord, ExtentLocation)>) {
    for (message, location) in relocations.drain(..) {
        message.move_to(location);
    }
}
