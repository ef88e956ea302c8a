// SPDX-License-Identifier: Apache-2.0
//! Folding: on a full disk the last segments, which only drain, become one entry that says the same in less room.
//!
//! A message that is received and settled leaves two small entries. On a full disk nothing can be compacted, because a
//! snapshot needs room for every message that is left. The entries since the disk became full hold no message, so their
//! sum is small: which messages are gone, and what is new about the others. It is written into the last file of the drain
//! reserve, and the files of the segments that it stands for become the reserve.
//!
//! Holds always
//! - the new segment is synced and has its name before a segment that it stands for goes: a crash leaves both, or the new
//!   one alone, and every event may happen twice;
//! - the entry has a number of its own, so no number means two things.

use std::io;
use std::sync::Arc;

use oxbus_model::sync::ignore_poison;

use super::super::frame::{self, ENTRY_HEADER_BYTES};
use super::super::header::{FileHeader, FoldContinuation, HEADER_BYTES};
use super::super::recovery;
use super::super::segment::SegmentFile;
use super::{GroupCommit, Writer, fresh_frame};
use crate::shard_log::{Level, Lsn};

impl GroupCommit {
    /// Replaces the entries of the last segments, which only drain, by what `summarize` makes of them. False when there is
    /// nothing to fold, or nothing is gained. The caller lets nobody append meanwhile.
    pub(in crate::file) fn fold(
        &self,
        writer: &mut Writer,
        summarize: &mut dyn FnMut(&[Vec<u8>]) -> Vec<u8>,
    ) -> io::Result<bool> {
        self.write_pending(writer, Level::Synced);
        match self.ensure_reserve(writer) {
            Err(error) if error.kind() != io::ErrorKind::StorageFull => return Err(error),
            _ => {}
        }
        if self.buffer().failure.is_some() || writer.reserve.is_empty() {
            return Ok(false);
        }
        let mut kept: Vec<SegmentFile> = writer.finished.iter().chain(&writer.current).cloned().collect();
        let drained = kept.split_off(kept.iter().rposition(|it| !it.header.drains).map_or(0, |last| last + 1));
        let Some(first) = drained.first().map(|segment| segment.header) else {
            return Ok(false);
        };
        let written = self.reached(Level::Written);
        if let Some(current) = &writer.current {
            let syncing = ignore_poison(self.syncer.lock());
            current.file.sync()?;
            drop(syncing);
            self.advance(Level::Synced, written, None);
        }
        let mut entries = Vec::new();
        let from = first.continues(None).0;
        recovery::replay(&self.dir, drained.clone(), from, Some(written), &mut |_, entry, _| {
            entries.push(entry.to_vec());
            true
        })
        .map_err(io::Error::other)?;
        let mut frame = fresh_frame(Vec::new());
        frame::push_entry(&mut frame, &summarize(&entries));
        let room = writer.reserve[0].bytes();
        if HEADER_BYTES as u64 + frame.len() as u64 > room / 4 * 3 {
            // The last file is used as it is; then only more room helps.
            let had_gain = std::mem::replace(&mut self.buffer().may_fold, false);
            return Ok(had_gain);
        }
        let resumes = first.resumes.unwrap_or(FoldContinuation {
            segment: kept.last().map_or(0, |before| before.header.segment),
            lsn: Lsn(first.lsn.0 - 1),
            crc: first.crc_before,
        });
        self.begin_folded(writer, &mut frame, resumes)?;
        writer.finished = kept;
        for segment in drained {
            self.keep_as_reserve(writer, &segment)?;
        }
        self.disk.sync_dir(&self.dir)?;
        // What an owner before gave back may be room enough for a file that is missing.
        match self.ensure_reserve(writer) {
            Err(error) if error.kind() != io::ErrorKind::StorageFull => Err(error),
            _ => Ok(true),
        }
    }

    /// Begins a segment whose first frame is `frame`, with one entry.
    fn begin_folded(&self, writer: &mut Writer, frame: &mut [u8], resumes: FoldContinuation) -> io::Result<()> {
        let lsn = self.next();
        let header = FileHeader {
            drains: true,
            resumes: Some(resumes),
            ..self.next_header(writer, lsn)
        };
        let file = writer.reserve.remove(0);
        let (extent, bytes) = self.buffer().reserve.remove(0);
        let crc = frame::seal(frame, 1, lsn, Lsn(lsn.0 - 1), writer.last_crc, header.salt);
        // With the header it is synced, and named after that.
        file.write_first_frame(frame)?;
        let segment = file.become_segment(&*self.disk, &self.dir, header)?;
        let end = HEADER_BYTES as u64 + frame.len() as u64;
        let synced = Arc::clone(&segment.file);
        writer.current = Some(segment);
        writer.count_segment();
        writer.position = end;
        writer.last_crc = crc;
        let mut buffer = self.buffer();
        buffer.begin_segment(Some(extent), bytes, true);
        buffer.available_bytes -= frame.len() as u64;
        buffer.position = end;
        buffer.next = lsn.next();
        drop(buffer);
        self.advance(Level::Written, lsn, Some(&synced));
        self.advance(Level::Synced, lsn, None);
        debug_assert!(frame.len() > ENTRY_HEADER_BYTES, "a frame holds its entry");
        Ok(())
    }
}
