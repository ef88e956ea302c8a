// SPDX-License-Identifier: Apache-2.0
//! Files for later segments: the spare file, recycled files of replaced segments, and the removal of segments. The
//! files for draining a full disk are in `reserve`.
//!
//! Invariants
//! - a file here has a name that ends in `.tmp`, and its size is counted in the bytes of the log;
//! - at most one file has the name of the spare file;
//! - a file that entries reserved is kept: the spare file is replaced only while it is not reserved.

use oxbus_log::event;
use std::io;
use std::sync::atomic::Ordering;

use super::group_commit::{GroupCommit, Writer};
use super::reserve::missing_reserve;
use super::segment::{self, SegmentFile, Spare};
use crate::shard_log::{Level, Lsn};

/// The number of recycled files to keep: about as many as fill up before the next snapshot if snapshots are small.
const RECYCLED_MAX: usize = 1;
/// A busy log is expected to keep as many bytes as this number of the smallest segments.
const STEADY_TIMES: u64 = 28;
/// A segment longer than this number of the smallest ones ends with a snapshot that covers all its entries.
const RETIRED_TIMES: u64 = 8;

/// The use of the file of a segment that is no longer needed.
enum RetiredFileUse {
    Spare,
    Reserve(&'static str),
    Nothing,
}

impl GroupCommit {
    /// Creates missing reserve files and the spare file. Does nothing while the reserve is lent or after the log has
    /// ended, when another log may use the directory.
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

    /// Makes sure that the drain reserve is complete and that the spare file has `needed` bytes, unless entries
    /// reserved it.
    pub(super) fn ensure_spare(&self, writer: &mut Writer, needed: u64) -> io::Result<()> {
        // Buffered entries may have reserved the spare file. Writing them uses it.
        self.write_pending(writer, Level::Written);
        self.ensure_reserve(writer)?;
        if let Some(spare) = &writer.spare {
            let is_reserved = self.buffer().spare_bytes == 0;
            if is_reserved || spare.bytes() >= needed {
                return Ok(());
            }
            // From now on no entry can reserve the small file.
            self.buffer().spare_bytes = 0;
        }
        self.make_spare(writer, needed).inspect_err(|_| {
            if let Some(small) = &writer.spare {
                self.offer(small);
            }
        })
    }

    /// Creates the spare file, or replaces it by a larger one.
    fn make_spare(&self, writer: &mut Writer, needed: u64) -> io::Result<()> {
        let target_bytes = self.usual_bytes(writer).max(needed);
        let made = match Self::take_recycled(writer, needed.max(target_bytes / 2)) {
            Some(spare) => Ok(spare),
            None => self.make_file(writer, target_bytes, needed),
        };
        let full = matches!(&made, Err(error) if error.kind() == io::ErrorKind::StorageFull);
        self.set_full(full);
        let spare = made?;
        // `Spare::make` reuses and extends a file with the spare name. A file with another name still exists.
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

    fn set_full(&self, full: bool) {
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

    /// Lets entries reserve the spare file.
    fn offer(&self, spare: &Spare) {
        let mut buffer = self.buffer();
        let (extent, bytes) = spare.allocation();
        buffer.spare_bytes = bytes;
        buffer.spare = Some(extent);
    }

    /// Creates a new file. On a full disk, uses a recycled file that is long enough, or a shorter new one.
    fn make_file(&self, writer: &mut Writer, mut target_bytes: u64, needed: u64) -> io::Result<Spare> {
        loop {
            let made = self.try_make_file(writer, target_bytes);
            match &made {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
                _ => return made,
            }
            if let Some(spare) = Self::take_recycled(writer, needed) {
                return Ok(spare);
            }
            let shortest = needed.max(self.options.segment_bytes_min);
            if target_bytes == shortest && writer.recycled.is_empty() {
                return made;
            }
            // Free the space of the recycled files that are too short.
            self.remove_recycled(writer, |_| true);
            target_bytes = (target_bytes / 2).max(shortest);
        }
    }

    fn try_make_file(&self, writer: &mut Writer, target_bytes: u64) -> io::Result<Spare> {
        // `Spare::make` reuses a recycled file with the spare name.
        for spare in writer.recycled.extract_if(.., |spare| spare.is_named_spare()) {
            self.disk_bytes.fetch_sub(spare.bytes(), Ordering::Relaxed);
        }
        let spare = Spare::make(&*self.disk, &self.dir, target_bytes)?;
        self.disk_bytes.fetch_add(spare.bytes(), Ordering::Relaxed);
        Ok(spare)
    }

    /// The size of the next segment, unless an entry needs more. It is half of the bytes that are kept, so that unused
    /// space is never most of a log. An owner that has written much is expected to keep several MiB again soon.
    fn usual_bytes(&self, writer: &Writer) -> u64 {
        let (min, max) = (self.options.segment_bytes_min, self.options.segment_bytes_max);
        let expected = writer.written_bytes().min(min * STEADY_TIMES);
        (writer.kept_bytes().max(expected) / 2)
            .next_multiple_of(min)
            .clamp(min, max)
    }

    /// Stops entries from reserving the spare file. Returns false if the file is already reserved or missing.
    fn withdraw_spare(&self) -> bool {
        let mut buffer = self.buffer();
        buffer.spare = None;
        std::mem::take(&mut buffer.spare_bytes) > 0
    }

    /// Ends the current segment if it is long and a snapshot covers all its entries, so that it is dropped with older
    /// segments. The next entry begins a new segment.
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

    /// Drops the segments whose entries all come before `lsn`: keeps a few files for later segments and removes the
    /// others. The current segment stays, unless it is long and idle. Writers do not wait for the file system.
    pub(super) fn remove_before(&self, lsn: Lsn) -> io::Result<()> {
        let dropped = self.with_writer(|writer| self.take_before(writer, lsn));
        if dropped.is_empty() {
            return Ok(());
        }
        let (mut kept, mut reserved) = (Vec::new(), Vec::new());
        // The directory is not synced: if a power loss undoes a rename, the old name is below every segment that the
        // snapshot needs.
        for (segment, file_use) in dropped {
            let recycle = |name| Spare::recycle(&*self.disk, &self.dir, &segment, name);
            match file_use {
                RetiredFileUse::Spare if segment.extent.is_unshared() => kept.push(recycle(None)?),
                RetiredFileUse::Reserve(name) if segment.extent.is_unshared() => reserved.push(recycle(Some(name))?),
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

    /// Takes the segments whose entries all come before `lsn` out of the log and decides the use of each file.
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
        // Files that are too short or too long are removed, to make space for files of the right size.
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
            let file_use = if wanted > 0 && is_usual(segment.bytes) {
                wanted -= 1;
                RetiredFileUse::Spare
            } else if segment.bytes == self.options.segment_bytes_min
                && let Some(name) = missing.next()
            {
                RetiredFileUse::Reserve(name)
            } else {
                RetiredFileUse::Nothing
            };
            (segment, file_use)
        };
        dropped.into_iter().map(choose).collect()
    }

    /// Removes the last segment of an ended log if a snapshot covers all its entries. Does so only if it is the only
    /// segment: if several were removed, a power loss could leave the first of them, which ends too early. A segment
    /// without entries stays, because it may be the only trace of its owner's epoch. If the removal fails, the next
    /// open reads the segment.
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

    /// Removes recycled files that `which` selects. If a removal fails, the next open removes the file.
    fn remove_recycled(&self, writer: &mut Writer, which: impl Fn(&Spare) -> bool) {
        for spare in writer.recycled.extract_if(.., |spare| which(spare)) {
            self.disk_bytes.fetch_sub(spare.bytes(), Ordering::Relaxed);
            let _ = self.disk.remove(spare.path());
        }
    }

    /// Removes the spare file and all recycled files.
    pub(super) fn remove_spares(&self, writer: &mut Writer) {
        let spare = writer.spare.take();
        writer.recycled.extend(spare);
        self.remove_recycled(writer, |_| true);
    }
}
