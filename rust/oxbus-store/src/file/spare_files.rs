// SPDX-License-Identifier: Apache-2.0
//! Room for the segments to come: the spare file, the files of segments that were replaced, and letting go of those. What a
//! full disk is drained with stands apart (`reserve`).
//!
//! Holds always
//! - a file here has a name that ends with `.tmp`, and is counted in the bytes of the log;
//! - one file at most has the name of the spare file;
//! - what was promised to entries stays: the spare file is replaced only while nobody is promised it.

use oxbus_log::event;
use std::io;
use std::sync::atomic::Ordering;

use super::group_commit::{GroupCommit, Writer};
use super::reserve::missing_reserve;
use super::segment::{self, SegmentFile, Spare};
use crate::shard_log::{Level, Lsn};

/// Files that are kept to be segments again: about as many as fill until the next snapshot, with small snapshots.
const RECYCLED_MAX: usize = 1;
/// A log that much is written to is expected to keep as many of the smallest segments as these.
const STEADY_TIMES: u64 = 28;
/// A segment that is longer than so many of the smallest ones ends with the snapshot that has all its entries.
const RETIRED_TIMES: u64 = 8;

/// What becomes of the file of a segment that nobody needs any more.
enum RetiredFileUse {
    Spare,
    Reserve(&'static str),
    Nothing,
}

impl GroupCommit {
    /// Fills the drain reserve and makes the spare file if there is none. A log that ended touches no file: another may go
    /// on in its place.
    pub(super) fn prepare(&self, writer: &mut Writer) -> io::Result<()> {
        if self.buffer().failure.is_some() || self.is_reserve_lent.load(Ordering::Acquire) {
            return Ok(());
        }
        self.ensure_reserve(writer)?;
        if writer.spare.is_some() {
            return Ok(());
        }
        self.make_spare(writer, 0)
    }

    /// Makes sure that the drain reserve is whole and the spare file has `needed` bytes, unless it is promised already.
    pub(super) fn ensure_spare(&self, writer: &mut Writer, needed: u64) -> io::Result<()> {
        // What is buffered may be promised the spare file: writing it uses that up.
        self.write_pending(writer, Level::Written);
        self.ensure_reserve(writer)?;
        if let Some(spare) = &writer.spare {
            let promised = self.buffer().spare_bytes == 0;
            if promised || spare.bytes() >= needed {
                return Ok(());
            }
            // From now on nobody is promised the small one.
            self.buffer().spare_bytes = 0;
        }
        self.make_spare(writer, needed).inspect_err(|_| {
            if let Some(small) = &writer.spare {
                self.offer(small);
            }
        })
    }

    /// Makes the spare file, or a larger one in its place.
    fn make_spare(&self, writer: &mut Writer, needed: u64) -> io::Result<()> {
        let wanted = self.usual_bytes(writer).max(needed);
        let made = match Self::take_recycled(writer, needed.max(wanted / 2)) {
            Some(spare) => Ok(spare),
            None => self.make_file(writer, wanted, needed),
        };
        let full = matches!(&made, Err(error) if error.kind() == io::ErrorKind::StorageFull);
        self.note_full(full);
        let spare = made?;
        // `Spare::make` takes the file of that name and makes it longer; one of another name is still there.
        match writer.spare.take() {
            Some(small) if small.is_named_spare() && spare.is_named_spare() => {
                self.disk_bytes.fetch_sub(small.bytes(), Ordering::Relaxed);
            }
            small => writer.recycled.extend(small),
        }
        self.offer(&spare);
        writer.spare = Some(spare);
        Ok(())
    }

    fn note_full(&self, full: bool) {
        if self.full.swap(full, Ordering::AcqRel) == full {
            return;
        }
        let partition = self.options.id.shard;
        if full {
            event!(DISK_FULL, partition, path = %self.dir.display());
        } else {
            event!(DISK_FREE, partition, path = %self.dir.display());
        }
    }

    /// Lets entries be promised the room of the spare file.
    fn offer(&self, spare: &Spare) {
        let mut buffer = self.buffer();
        let (extent, bytes) = spare.room();
        buffer.spare_bytes = bytes;
        buffer.spare = Some(extent);
    }

    /// Makes a new file. On a full disk a recycled one that is long enough will do, or a shorter one.
    fn make_file(&self, writer: &mut Writer, mut wanted: u64, needed: u64) -> io::Result<Spare> {
        loop {
            let made = self.try_make_file(writer, wanted);
            match &made {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
                _ => return made,
            }
            if let Some(spare) = Self::take_recycled(writer, needed) {
                return Ok(spare);
            }
            let shortest = needed.max(self.options.segment_bytes_min);
            if wanted == shortest && writer.recycled.is_empty() {
                return made;
            }
            // The others give their room up.
            self.remove_recycled(writer, |_| true);
            wanted = (wanted / 2).max(shortest);
        }
    }

    fn try_make_file(&self, writer: &mut Writer, wanted: u64) -> io::Result<Spare> {
        // What has the name of the spare file becomes the new one.
        for spare in writer.recycled.extract_if(.., |spare| spare.is_named_spare()) {
            self.disk_bytes.fetch_sub(spare.bytes(), Ordering::Relaxed);
        }
        let spare = Spare::make(&*self.disk, &self.dir, wanted)?;
        self.disk_bytes.fetch_add(spare.bytes(), Ordering::Relaxed);
        Ok(spare)
    }

    /// Bytes of the segment after the current one, unless an entry needs more: half of those that are kept, so that the room
    /// behind the last frame is never most of a log. An owner who has written much has a log of some MiB again soon.
    fn usual_bytes(&self, writer: &Writer) -> u64 {
        let (min, max) = (self.options.segment_bytes_min, self.options.segment_bytes_max);
        let expected = writer.written_bytes().min(min * STEADY_TIMES);
        (writer.kept_bytes().max(expected) / 2)
            .next_multiple_of(min)
            .clamp(min, max)
    }

    /// Has nobody be promised the spare file any more; false when somebody is.
    fn withdraw_spare(&self) -> bool {
        let mut buffer = self.buffer();
        buffer.spare = None;
        std::mem::take(&mut buffer.spare_bytes) > 0
    }

    /// Ends the current segment when a snapshot has all its entries and it is long: it goes with those before it. The next
    /// entry begins another one.
    fn retire_current(&self, writer: &mut Writer, lsn: Lsn) -> bool {
        let is_long = |segment: &SegmentFile| segment.bytes > self.options.segment_bytes_min * RETIRED_TIMES;
        let ends = writer.current.as_ref().is_some_and(is_long) && self.buffer().end_segment(lsn);
        if ends {
            writer.finished.extend(writer.current.take());
        }
        ends
    }

    fn take_recycled(writer: &mut Writer, bytes_min: u64) -> Option<Spare> {
        let at = writer.recycled.iter().position(|spare| spare.bytes() >= bytes_min)?;
        Some(writer.recycled.swap_remove(at))
    }

    /// Lets go of the segments whose entries all come before `lsn`: keeps the files of a few for later segments, and removes
    /// the others. The current one stays, unless it is long and idle. Nobody who writes waits for the file system meanwhile.
    pub(super) fn remove_before(&self, lsn: Lsn) -> io::Result<()> {
        let dropped = self.with_writer(|writer| self.take_before(writer, lsn));
        if dropped.is_empty() {
            return Ok(());
        }
        let (mut kept, mut reserved) = (Vec::new(), Vec::new());
        // The directory is not synced: should a new name be lost with the power, the old one is below every segment that the
        // snapshot needs.
        for (segment, becomes) in dropped {
            let recycle = |name| Spare::recycle(&*self.disk, &self.dir, &segment, name);
            match becomes {
                RetiredFileUse::Spare if segment.extent.is_sole() => kept.push(recycle(None)?),
                RetiredFileUse::Reserve(name) if segment.extent.is_sole() => reserved.push(recycle(Some(name))?),
                _ => self.remove_segment(&segment)?,
            }
        }
        self.with_writer(|writer| {
            writer.recycled.extend(kept);
            for file in reserved {
                self.add_to_reserve(writer, file);
            }
        });
        Ok(())
    }

    /// Takes those segments out of the log, each with what becomes of its file.
    fn take_before(&self, writer: &mut Writer, lsn: Lsn) -> Vec<(SegmentFile, RetiredFileUse)> {
        let first_needed = if self.retire_current(writer, lsn) {
            writer.next_segment()
        } else {
            writer.first_needed(lsn)
        };
        let is_needed = |segment: &SegmentFile| segment.header.segment >= first_needed;
        let count = writer.finished.iter().take_while(|segment| !is_needed(segment)).count();
        if count == 0 {
            return Vec::new();
        }
        let dropped: Vec<SegmentFile> = writer.finished.drain(..count).collect();
        // Those that are too short for what comes make room for longer ones, and those that are too long give theirs back.
        let bytes_min = self.usual_bytes(writer) / 2;
        let is_usual = |bytes: u64| (bytes_min..=bytes_min * 8).contains(&bytes);
        if writer.spare.as_ref().is_some_and(|spare| !is_usual(spare.bytes())) && self.withdraw_spare() {
            writer.recycled.extend(writer.spare.take());
        }
        self.remove_recycled(writer, |spare| !is_usual(spare.bytes()));
        let mut wanted = if self.is_full() || writer.spare.is_some() {
            0
        } else {
            RECYCLED_MAX.saturating_sub(writer.recycled.len())
        };
        let mut missing = missing_reserve(writer).into_iter();
        let choose = |segment: SegmentFile| {
            let becomes = if wanted > 0 && is_usual(segment.bytes) {
                wanted -= 1;
                RetiredFileUse::Spare
            } else if segment.bytes == self.options.segment_bytes_min
                && let Some(name) = missing.next()
            {
                RetiredFileUse::Reserve(name)
            } else {
                RetiredFileUse::Nothing
            };
            (segment, becomes)
        };
        dropped.into_iter().map(choose).collect()
    }

    /// Removes the last segment of a log that has ended, whose entries a snapshot has all. Only when it is the only one: were
    /// several removed, the power could go and leave the first of them, which ends too early. One without entries stays: it
    /// may be all that tells of its owner's epoch. One that cannot be removed is read by the next open.
    pub(super) fn remove_covered(&self, writer: &mut Writer, covered: Lsn) {
        let (([], Some(only)) | ([only], None)) = (&writer.finished[..], &writer.current) else {
            return;
        };
        if only.header.lsn > covered {
            return;
        }
        let (path, bytes) = (segment::path_of(&self.dir, only.header.segment), only.bytes);
        if self.disk.remove(&path).is_ok() {
            self.disk_bytes.fetch_sub(bytes, Ordering::Relaxed);
            (writer.current, writer.finished) = (None, Vec::new());
        }
    }

    /// Removes files that were kept for later segments. One that cannot be removed is removed at the next open.
    fn remove_recycled(&self, writer: &mut Writer, which: impl Fn(&Spare) -> bool) {
        for spare in writer.recycled.extract_if(.., |spare| which(spare)) {
            self.disk_bytes.fetch_sub(spare.bytes(), Ordering::Relaxed);
            let _ = self.disk.remove(spare.path());
        }
    }

    /// Removes all of them.
    pub(super) fn remove_spares(&self, writer: &mut Writer) {
        let spare = writer.spare.take();
        writer.recycled.extend(spare);
        self.remove_recycled(writer, |_| true);
    }
}
