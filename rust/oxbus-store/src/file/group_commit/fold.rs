// SPDX-License-Identifier: Apache-2.0
//! Folding: on a full disk, one smaller entry with the same effect replaces the last segments, which only drain.
//!
//! A message that is received and settled leaves two small entries. A full disk cannot be compacted, because a
//! snapshot needs space for every remaining message. The entries since the disk became full contain no messages, so
//! their sum is small: it states which messages are gone and how the others changed. The sum is written into the last
//! file of the drain reserve, and the files of the segments it replaces become the new reserve.
//!
//! Invariants
//! - the new segment is synced and named before a segment it replaces is removed. A crash leaves both or only the new
//!   one, so every event must tolerate being applied twice;
//! - the entry gets a new number, so no number has two meanings.

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
    /// Replaces the entries of the last segments, which only drain, by the entry that `summarize` builds. Returns
    /// false if there is nothing to fold or nothing to gain. The caller must prevent concurrent appends.
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
            // Give up folding: the last file takes further entries, and after that only free space helps.
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
        // Space that a previous owner freed may suffice for a missing file.
        match self.ensure_reserve(writer) {
            Err(error) if error.kind() != io::ErrorKind::StorageFull => Err(error),
            _ => Ok(true),
        }
    }

    /// Begins a segment with `frame`, which has one entry, as its first frame.
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
        // The sync of the header covers the frame. The rename follows.
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
        debug_assert!(frame.len() > ENTRY_HEADER_BYTES, "a frame contains its entry");
        Ok(())
    }
}
