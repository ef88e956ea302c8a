// SPDX-License-Identifier: Apache-2.0
//! Puts the records of a snapshot at the places that [`RecordPlaces`](crate::RecordPlaces) assigned. A record that is on
//! the disk already is not written again: the snapshot shares its bytes with the file that has them.

use std::io;
use std::sync::Arc;

use crate::PlacedRecord;
use crate::disk::DiskFile;
use crate::extent::checksum_of;
use crate::file::header::HEADER_BYTES;

/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// Bytes of another file that the snapshot is to have.
#[derive(Debug, Clone, Copy)]
struct Run {
    of: u64,
    from: u64,
    len: u64,
    position: u64,
}

/// Puts records at their places in the file of a snapshot.
pub(super) struct RecordWriter<'a> {
    pub(super) file: &'a Arc<dyn DiskFile>,
    run: Option<Run>,
    /// Bytes to write, which begin at `position`.
    buffer: Vec<u8>,
    position: u64,
    /// The end of the last record.
    pub(super) end: u64,
    /// Bytes that were not shared.
    pub(super) written: u64,
}

impl<'a> RecordWriter<'a> {
    pub(super) fn new(file: &'a Arc<dyn DiskFile>) -> Self {
        Self {
            file,
            run: None,
            buffer: Vec::new(),
            position: 0,
            end: HEADER_BYTES as u64,
            written: 0,
        }
    }

    /// Puts the next record at its place.
    pub(super) fn put(&mut self, placed: &PlacedRecord) -> io::Result<()> {
        let (position, bytes) = (placed.position, placed.bytes());
        if let Some((of, from)) = placed.shared {
            self.share(of, from, bytes, position)?;
        } else {
            if self.position + self.buffer.len() as u64 != position || self.buffer.len() >= WRITE_BYTES {
                self.flush()?;
                self.position = position;
            }
            let record = placed.record.load()?;
            self.buffer.extend_from_slice(&record);
            self.buffer.extend_from_slice(&checksum_of(&record));
            self.written += bytes;
        }
        self.end = position + bytes;
        Ok(())
    }

    fn share(&mut self, of: u64, from: u64, bytes: u64, position: u64) -> io::Result<()> {
        if let Some(run) = &mut self.run
            && run.of == of
            && from.checked_sub(run.from) == position.checked_sub(run.position)
            && position >= run.position + run.len
        {
            run.len = position + bytes - run.position;
            return Ok(());
        }
        self.flush()?;
        self.run = Some(Run {
            of,
            from,
            len: bytes,
            position,
        });
        Ok(())
    }

    /// Hands everything so far to the file.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if let Some(run) = self.run.take() {
            self.file.share(run.of, run.from, run.len, run.position)?;
        }
        if !self.buffer.is_empty() {
            self.file.write_all_at(&self.buffer, self.position)?;
            self.buffer.clear();
        }
        Ok(())
    }
}
