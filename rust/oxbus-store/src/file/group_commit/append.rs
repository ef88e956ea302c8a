// SPDX-License-Identifier: Apache-2.0
//! Appending: an entry enters the buffer, and gets a number and space on disk.

use std::io;
use std::sync::Arc;

use super::super::frame::{self, ENTRY_HEADER_BYTES, FRAME_HEADER_BYTES};
use super::super::header::HEADER_BYTES;
use super::super::segment;
use super::{Buffer, CommitCallback, GroupCommit, SegmentSource};
use crate::Wait;
use crate::extent::{Extent, ExtentLocation};
use crate::shard_log::{AppendError, Level, LevelCallback, LogFailure, Lsn, SpaceClass};

/// Maximum length of a frame with more than one entry. It bounds the time that a caller waits for a write.
const FRAME_BYTES_MAX: usize = 512 << 10;

/// Why an entry cannot be buffered now.
enum BufferError {
    For(AppendError),
    /// The buffer must be written first.
    UntilWritten,
    /// The drain reserve must be complete, and the spare file must have this many bytes, first.
    UntilSpare(u64),
}

impl GroupCommit {
    pub(in crate::file) fn append(
        self: &Arc<Self>,
        expected: Lsn,
        entry: &[u8],
        space: SpaceClass,
        level: Level,
        mut done: Option<LevelCallback>,
        wait: &Wait<'_>,
    ) -> Result<Option<ExtentLocation>, AppendError> {
        loop {
            match self.try_append(expected, entry, space, level, &mut done) {
                Ok(location) => return Ok(location),
                Err(BufferError::For(error)) => return Err(error),
                Err(BufferError::UntilWritten) if self.is_stalled() => self.wait_for_room(0, wait)?,
                Err(BufferError::UntilSpare(bytes)) if self.is_stalled() => self.wait_for_room(bytes, wait)?,
                Err(BufferError::UntilWritten) => self.with_writer(|writer| self.write_pending(writer, Level::Written)),
                Err(BufferError::UntilSpare(bytes)) => {
                    // A full disk is recorded: the next attempt returns `Full`.
                    if let Err(error) = self.with_writer(|writer| self.ensure_spare(writer, bytes))
                        && error.kind() != io::ErrorKind::StorageFull
                    {
                        self.end(LogFailure::of(&error));
                    }
                }
            }
        }
    }

    /// True if an entry of this size is accepted or rejected at once, without waiting for a disk that may hang.
    pub(in crate::file) fn has_room(&self, bytes: usize, space: SpaceClass) -> bool {
        if !self.is_stalled() {
            return true;
        }
        let buffer = self.buffer();
        buffer.failure.is_some() || self.check_room(&buffer, bytes, space).is_ok()
    }

    /// Waits until [`Self::has_room`] is true.
    pub(in crate::file) fn make_room(
        self: &Arc<Self>,
        bytes: usize,
        space: SpaceClass,
        wait: &Wait<'_>,
    ) -> Result<(), AppendError> {
        loop {
            let buffer = self.buffer();
            if buffer.failure.is_some() || !self.is_stalled() {
                return Ok(());
            }
            let checked = self.check_room(&buffer, bytes, space);
            drop(buffer);
            match checked {
                Ok(_) => return Ok(()),
                Err(BufferError::For(error)) => return Err(error),
                Err(BufferError::UntilWritten) => self.wait_for_room(0, wait)?,
                Err(BufferError::UntilSpare(bytes)) => self.wait_for_room(bytes, wait)?,
            }
        }
    }

    /// Checks the space for an entry of this size. Returns the bytes that it takes and, if it begins a segment, the
    /// file of that segment.
    fn check_room(
        &self,
        buffer: &Buffer,
        entry_bytes: usize,
        space: SpaceClass,
    ) -> Result<(u64, Option<SegmentSource>), BufferError> {
        let adds = space == SpaceClass::Adds;
        if adds && self.is_full() {
            return Err(BufferError::For(AppendError::Full));
        }
        let begins = buffer.entries == 0;
        let bytes = frame::entry_bytes(entry_bytes);
        let needed = (bytes + if begins { FRAME_HEADER_BYTES } else { 0 }) as u64;
        // An entry that adds does not go into a segment that only drains.
        let available_bytes = if adds && buffer.drains {
            0
        } else {
            buffer.available_bytes
        };
        let overflows = available_bytes < needed || buffer.frame.len() + bytes > FRAME_BYTES_MAX;
        if overflows && !begins {
            return Err(BufferError::UntilWritten);
        }
        let with_header = HEADER_BYTES as u64 + needed;
        if adds && buffer.reserve.len() < segment::RESERVE.len() {
            return Err(BufferError::UntilSpare(with_header));
        }
        if available_bytes >= needed {
            return Ok((needed, None));
        }
        if buffer.spare_bytes >= with_header {
            return Ok((needed, Some(SegmentSource::Spare)));
        }
        if adds || !self.is_full() {
            return Err(BufferError::UntilSpare(with_header));
        }
        // The last file is kept for folding.
        let last = buffer.reserve.len() == 1 && buffer.may_fold;
        let fits = buffer.reserve.first().is_some_and(|(_, bytes)| *bytes >= with_header);
        if last || !fits {
            return Err(BufferError::For(AppendError::Full));
        }
        Ok((needed, Some(SegmentSource::Reserve)))
    }

    /// Buffers an entry, or returns what must happen first.
    fn try_append(
        &self,
        expected: Lsn,
        entry: &[u8],
        space: SpaceClass,
        level: Level,
        done: &mut Option<LevelCallback>,
    ) -> Result<Option<ExtentLocation>, BufferError> {
        let mut guarded = self.buffer();
        let buffer = &mut *guarded;
        if let Some(failure) = buffer.failure {
            return Err(BufferError::For(AppendError::Unavailable(failure)));
        }
        if buffer.next != expected {
            return Err(BufferError::For(AppendError::Conflict { next: buffer.next }));
        }
        let (needed, source) = self.check_room(buffer, entry.len(), space)?;
        if let Some(source) = source {
            let (extent, bytes) = match source {
                SegmentSource::Spare => (buffer.spare.take(), std::mem::take(&mut buffer.spare_bytes)),
                SegmentSource::Reserve => {
                    let (extent, bytes) = buffer.reserve.remove(0);
                    (Some(extent), bytes)
                }
            };
            buffer.begin_segment(extent, bytes, source == SegmentSource::Reserve);
            buffer.source = Some(source);
        }
        frame::push_entry(&mut buffer.frame, entry);
        buffer.available_bytes -= needed;
        buffer.position += needed;
        let start = buffer.position - frame::entry_bytes(entry.len()) as u64 + ENTRY_HEADER_BYTES as u64;
        let location = buffer.extent.as_ref().map(|extent| extent.at(start));
        buffer.entries += 1;
        buffer.next = expected.next();
        if let Some(done) = done.take() {
            buffer.callbacks.push(CommitCallback {
                lsn: expected,
                level,
                done,
            });
        }
        Ok(location)
    }
}

impl Buffer {
    /// Makes entry `lsn` begin a new segment, if it is the next one and nothing is buffered. Returns whether it does.
    pub(in crate::file) fn end_segment(&mut self, lsn: Lsn) -> bool {
        let is_idle = self.entries == 0 && self.source.is_none() && self.next == lsn;
        if is_idle {
            (self.available_bytes, self.extent, self.drains, self.may_fold) = (0, None, false, false);
        }
        is_idle
    }

    /// Directs the next entries to a new segment in a file of `bytes` bytes.
    pub(super) fn begin_segment(&mut self, extent: Option<Extent>, bytes: u64, drains: bool) {
        self.available_bytes = bytes - HEADER_BYTES as u64;
        self.extent = extent;
        self.position = HEADER_BYTES as u64;
        self.drains = drains;
        self.may_fold = drains;
    }
}
