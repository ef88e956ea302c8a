// SPDX-License-Identifier: Apache-2.0
//! Taking entries into the buffer, each with its number and with room on disk.

use std::io;
use std::sync::Arc;

use super::super::frame::{self, ENTRY_HEADER_BYTES, FRAME_HEADER_BYTES};
use super::super::header::HEADER_BYTES;
use super::super::segment;
use super::{Buffer, CommitCallback, GroupCommit, SegmentSource};
use crate::Wait;
use crate::extent::{Extent, ExtentLocation};
use crate::shard_log::{AppendError, Level, LevelCallback, LogFailure, Lsn, SpaceClass};

/// A frame with more than one entry is at most so long, so that whoever waits does not wait long.
const FRAME_BYTES_MAX: usize = 512 << 10;

/// Why an entry cannot be buffered now.
enum BufferError {
    For(AppendError),
    /// Until the buffer was written.
    UntilWritten,
    /// Until the drain reserve is whole and the spare file has so many bytes.
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
                    // A full disk is noted: the next look finds it.
                    if let Err(error) = self.with_writer(|writer| self.ensure_spare(writer, bytes))
                        && error.kind() != io::ErrorKind::StorageFull
                    {
                        self.end(LogFailure::of(&error));
                    }
                }
            }
        }
    }

    /// True when an entry of so many bytes is taken at once, or refused: nobody need go to a disk that may hang.
    pub(in crate::file) fn has_room(&self, bytes: usize, space: SpaceClass) -> bool {
        if !self.is_stalled() {
            return true;
        }
        let buffer = self.buffer();
        buffer.failure.is_some() || self.check_room(&buffer, bytes, space).is_ok()
    }

    /// Waits until that is so.
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

    /// What an entry of so many bytes needs first; the bytes that it takes, and the file that it begins if it begins one.
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
        // A segment that only drains stays so.
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
        // The last file is left to be folded into.
        let last = buffer.reserve.len() == 1 && buffer.may_fold;
        let fits = buffer.reserve.first().is_some_and(|(_, bytes)| *bytes >= with_header);
        if last || !fits {
            return Err(BufferError::For(AppendError::Full));
        }
        Ok((needed, Some(SegmentSource::Reserve)))
    }

    /// Takes an entry into the buffer, or says what must be done first.
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
    /// Has the next entry begin a segment, if it is entry `lsn` and nothing is on its way; false otherwise.
    pub(in crate::file) fn end_segment(&mut self, lsn: Lsn) -> bool {
        let is_idle = self.entries == 0 && self.source.is_none() && self.next == lsn;
        if is_idle {
            (self.available_bytes, self.extent, self.drains, self.may_fold) = (0, None, false, false);
        }
        is_idle
    }

    /// The next entries go to a file that has so many bytes.
    pub(super) fn begin_segment(&mut self, extent: Option<Extent>, bytes: u64, drains: bool) {
        self.available_bytes = bytes - HEADER_BYTES as u64;
        self.extent = extent;
        self.position = HEADER_BYTES as u64;
        self.drains = drains;
        self.may_fold = drains;
    }
}
