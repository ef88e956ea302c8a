// SPDX-License-Identifier: Apache-2.0
//! Group commit: many callers share one write and one sync.
//!
//! An append copies its entry into a buffer under a short mutex and gets its number there, so entries are in the
//! journal in the order of their numbers. A caller that needs its entry written or synced then works for all callers:
//! it takes the whole buffer and writes it as one frame, or syncs everything written so far. The other callers wait
//! for it. While a frame is written, the next one fills, and while a sync runs, more frames are written. This needs no
//! separate thread, so a single sender pays for one write, one sync and no thread switch. This module writes; `sync`
//! syncs, `append` fills the buffer, `commit` decides which thread writes and syncs, `waiters` holds the waiting
//! threads, and `stalled_disk` handles a disk that hangs.
//!
//! Invariants
//! - at most one thread writes. On a disk at most one syncs; in a store several syncs are in progress;
//! - `synced <= written < next`;
//! - after a failed write or sync, nothing more is written or acknowledged, because a second sync may report success
//!   for lost data. The outcome of entries that were not acknowledged before is unknown;
//! - a panic while the buffer or the disk is in use ends the log, and the log that replaces it starts from the state
//!   in memory;
//! - every buffered entry has reserved space on disk, in the current segment or in an existing file that becomes the
//!   next one. An append without such space is rejected before it gets a number;
//! - an entry that adds is accepted only while the drain reserve is complete, and uses nothing of it (`reserve`).
//!
//! Lock order: writer, then syncer, then buffer. After releasing the writer or the syncer, a thread calls
//! `notify_waiters`, which wakes waiting threads and runs callbacks without holding a mutex. A thread that wrote in
//! order to sync calls it after the sync.

mod append;
mod buffer;
mod commit;
mod fold;
mod stalled_disk;
mod sync;
mod waiters;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use oxbus_model::latency::LatencyHistogram;
use oxbus_model::sync::ignore_poison;

use super::FileLogOptions;
use super::committers::SyncRequest;
use super::frame::{self, FRAME_HEADER_BYTES};
use super::header::{FileHeader, FileKind, HEADER_BYTES};
use super::segment::{SegmentFile, Spare};
use super::standby::Standby;
use crate::disk::{Disk, DiskFile};
use crate::extent::Extent;
use crate::shard_log::{AppendError, AppendOutcome, Level, LevelCallback, LogFailure, Lsn};
use waiters::CommitWaiters;

/// A larger frame buffer is freed after its frame is written.
const IDLE_FRAME_BYTES_MAX: usize = 128 << 10;

/// Entries that have not been written yet.
pub(super) struct Buffer {
    next: Lsn,
    /// Space for a frame header, then the entries.
    frame: Vec<u8>,
    entries: u32,
    /// Unreserved bytes of the current segment, or of the spare file once an entry needs it.
    available_bytes: u64,
    /// The file that the next byte of the frame goes to.
    extent: Option<Extent>,
    position: u64,
    /// Size of the spare file, or 0 if there is none or entries reserved it.
    pub(super) spare_bytes: u64,
    /// The spare file, unless entries reserved it.
    pub(super) spare: Option<Extent>,
    /// Files of the drain reserve that entries did not reserve, with their sizes.
    pub(super) reserve: Vec<(Extent, u64)>,
    /// The file for the next segment, if the entries in the frame are the first of a segment.
    source: Option<SegmentSource>,
    /// True if the segment that receives the entries only drains.
    pub(super) drains: bool,
    /// True if the last segments only drain and may be folded into one.
    pub(super) may_fold: bool,
    /// The file to sync, and the last entry written to it.
    unsynced: Option<(Arc<dyn DiskFile>, Lsn)>,
    waiters: CommitWaiters,
    /// Callbacks of appends that have not reached their level.
    callbacks: Vec<CommitCallback>,
    /// Callbacks that are due, with their outcomes.
    ended: Vec<(LevelCallback, AppendOutcome)>,
    pub(super) failure: Option<LogFailure>,
}

/// A callback to run when an entry reaches a level.
struct CommitCallback {
    lsn: Lsn,
    level: Level,
    done: LevelCallback,
}

/// The file that becomes the next segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SegmentSource {
    Spare,
    Reserve,
}

/// State that only the writing thread uses.
pub(super) struct Writer {
    /// Finished segments, oldest first.
    pub(super) finished: Vec<SegmentFile>,
    pub(super) current: Option<SegmentFile>,
    position: u64,
    /// True if a background sync was requested because the current segment ends soon.
    is_ending: bool,
    /// Bytes of the segments that this owner has finished.
    ended_bytes: u64,
    last_crc: u32,
    next_segment: u64,
    next_salt: u32,
    pub(super) spare: Option<Spare>,
    /// Files of replaced segments that may become spare files.
    pub(super) recycled: Vec<Spare>,
    /// Files of the drain reserve, in the order of `Buffer::reserve`.
    pub(super) reserve: Vec<Spare>,
    /// An unused frame buffer.
    empty: Vec<u8>,
}

/// The state that a log starts from, as recovery found it.
pub(super) struct CommitStart {
    pub(super) last: Lsn,
    pub(super) last_crc: u32,
    pub(super) epoch: u64,
    pub(super) next_segment: u64,
    pub(super) finished: Vec<SegmentFile>,
    /// Files of the drain reserve that the previous owner left.
    pub(super) reserve: Vec<Spare>,
}

/// The write path of one log: appends, writes and syncs.
pub(super) struct GroupCommit {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) options: FileLogOptions,
    epoch: u64,
    /// `Disk::keeps_unsynced` of the disk.
    pub(super) keeps_unsynced: bool,
    /// A panic while the buffer is held ends the log (`buffer`).
    buffer: Mutex<Buffer>,
    pub(super) sync_request: SyncRequest,
    pub(super) standby: Arc<Standby>,
    /// Changed only during a disk operation or while the buffer is held, because a panic then ends the log.
    writer: Mutex<Writer>,
    syncer: Mutex<()>,
    written: AtomicU64,
    synced: AtomicU64,
    /// True if the disk is full, so the spare file could not be created.
    pub(super) full: AtomicBool,
    /// True while a file of the drain reserve is removed to make space for a snapshot.
    pub(super) is_reserve_lent: AtomicBool,
    pub(super) disk_bytes: AtomicU64,
    /// Times of syncs, once someone wants to see them.
    pub(super) sync_times: OnceLock<Box<LatencyHistogram>>,
}

fn fresh_frame(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.clear();
    bytes.resize(FRAME_HEADER_BYTES, 0);
    bytes
}

impl Writer {
    /// The number of the next segment to begin.
    pub(super) fn next_segment(&self) -> u64 {
        self.next_segment
    }

    /// Bytes of the segments that no snapshot has replaced.
    pub(super) fn kept_bytes(&self) -> u64 {
        let finished: u64 = self.finished.iter().map(|segment| segment.bytes).sum();
        finished + self.current.as_ref().map_or(0, |_| self.position)
    }

    /// Returns true once per segment, when three quarters of it are used. A background sync then begins, so that the
    /// sync at the end of the segment has little left to do.
    fn nears_end(&mut self) -> bool {
        let is_near = |segment: &SegmentFile| self.position > segment.bytes / 4 * 3;
        self.current.as_ref().is_some_and(is_near) && !std::mem::replace(&mut self.is_ending, true)
    }

    /// Bytes that this owner has written.
    pub(super) fn written_bytes(&self) -> u64 {
        self.ended_bytes + self.position
    }

    /// True if the current segment is nearly used up. The next file is created only then, so that a segment that a
    /// snapshot replaces before then can be reused.
    pub(super) fn is_nearly_used(&self) -> bool {
        self.current
            .as_ref()
            .is_some_and(|segment| self.position > segment.bytes / 16 * 15)
    }

    /// Assigns the next segment another number and another salt.
    fn count_segment(&mut self) {
        self.next_segment += 1;
        self.next_salt = self.next_salt.wrapping_add(0x9E37_79B9);
    }

    /// The first segment that may hold an entry from `lsn` on.
    pub(super) fn first_needed(&self, lsn: Lsn) -> u64 {
        let all = self.finished.iter().chain(&self.current);
        all.take_while(|segment| segment.header.lsn <= lsn)
            .last()
            .or(self.finished.first())
            .map_or(self.next_segment, |segment| segment.header.segment)
    }
}

impl GroupCommit {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: PathBuf, options: FileLogOptions, start: CommitStart) -> Self {
        let segments = start.finished.iter().map(|segment| segment.bytes);
        let disk_bytes = segments.chain(start.reserve.iter().map(Spare::bytes)).sum();
        let may_fold = start.finished.last().is_some_and(|last| last.header.drains);
        Self {
            keeps_unsynced: disk.keeps_unsynced(),
            disk,
            dir,
            options,
            epoch: start.epoch,
            buffer: Mutex::new(Buffer {
                next: start.last.next(),
                frame: fresh_frame(Vec::new()),
                entries: 0,
                available_bytes: 0,
                extent: None,
                position: 0,
                spare_bytes: 0,
                spare: None,
                reserve: start.reserve.iter().map(Spare::allocation).collect(),
                source: None,
                drains: false,
                may_fold,
                unsynced: None,
                waiters: CommitWaiters::default(),
                callbacks: Vec::new(),
                ended: Vec::new(),
                failure: None,
            }),
            sync_request: SyncRequest::default(),
            standby: Arc::default(),
            writer: Mutex::new(Writer {
                finished: start.finished,
                current: None,
                position: 0,
                is_ending: false,
                ended_bytes: 0,
                last_crc: start.last_crc,
                next_segment: start.next_segment,
                next_salt: options.salt,
                spare: None,
                recycled: Vec::new(),
                reserve: start.reserve,
                empty: Vec::new(),
            }),
            syncer: Mutex::new(()),
            written: AtomicU64::new(start.last.0),
            synced: AtomicU64::new(start.last.0),
            full: AtomicBool::new(false),
            is_reserve_lent: AtomicBool::new(false),
            disk_bytes: AtomicU64::new(disk_bytes),
            sync_times: OnceLock::new(),
        }
    }

    /// The level that keeps the promise of `level` on this disk.
    pub(super) fn level_that_keeps(&self, level: Level) -> Level {
        if self.keeps_unsynced { level } else { Level::Synced }
    }

    pub(super) fn next(&self) -> Lsn {
        self.buffer().next
    }

    pub(super) fn reached(&self, level: Level) -> Lsn {
        Lsn(match level {
            Level::Written => self.written.load(Ordering::Acquire),
            Level::Synced => self.synced.load(Ordering::Acquire),
        })
    }

    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.buffer().failure.is_some()
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        self.disk_bytes.load(Ordering::Relaxed)
    }

    /// Takes the log out of service and notifies waiting callers.
    pub(super) fn end(&self, failure: LogFailure) {
        self.fail(failure);
        self.notify_waiters();
    }

    fn fail(&self, failure: LogFailure) {
        let mut buffer = self.buffer();
        let failure = *buffer.failure.get_or_insert(failure);
        let callbacks = std::mem::take(&mut buffer.callbacks);
        let unknown = |it: CommitCallback| (it.done, Err(AppendError::Unknown(failure)));
        buffer.ended.extend(callbacks.into_iter().map(unknown));
    }

    /// Records that entries up to `to` have reached a level, and makes their callbacks due.
    fn advance(&self, level: Level, to: Lsn, file: Option<&Arc<dyn DiskFile>>) {
        let mut guarded = self.buffer();
        let buffer = &mut *guarded;
        match level {
            Level::Written => &self.written,
            Level::Synced => &self.synced,
        }
        .fetch_max(to.0, Ordering::AcqRel);
        if let Some(file) = file {
            buffer.unsynced = Some((Arc::clone(file), to));
        }
        let is_reached = |it: &mut CommitCallback| it.lsn <= self.reached(it.level);
        let reached = buffer.callbacks.extract_if(.., is_reached);
        buffer.ended.extend(reached.map(|it| (it.done, Ok(it.lsn))));
    }

    /// Writes the buffer as one frame. With `Level::Synced` the caller is going to sync it.
    pub(super) fn write_pending(&self, writer: &mut Writer, level: Level) {
        let (mut frame, entries, last, source) = {
            let mut buffer = self.buffer();
            if buffer.failure.is_some() || buffer.entries == 0 {
                return;
            }
            let empty = fresh_frame(std::mem::take(&mut writer.empty));
            let entries = std::mem::take(&mut buffer.entries);
            (
                std::mem::replace(&mut buffer.frame, empty),
                entries,
                Lsn(buffer.next.0 - 1),
                buffer.source.take(),
            )
        };
        let first = Lsn(last.0 + 1 - u64::from(entries));
        let _guard = self.enter_disk();
        let begun = source.map_or(Ok(()), |source| self.begin_segment(writer, first, source));
        let result = begun.and_then(|()| self.write_frame(writer, &mut frame, entries, first, level));
        // Do not keep a large buffer for small frames: each shard has two buffers.
        if frame.capacity() <= IDLE_FRAME_BYTES_MAX {
            writer.empty = frame;
        }
        match result {
            Ok(()) => {
                let file = writer.current.as_ref().map(|segment| &segment.file);
                self.advance(Level::Written, last, file);
                if level == Level::Written && writer.nears_end() {
                    self.sync_request.request();
                }
            }
            Err(error) => self.fail(LogFailure::of(&error)),
        }
    }

    fn write_frame(
        &self,
        writer: &mut Writer,
        frame: &mut [u8],
        entries: u32,
        first: Lsn,
        level: Level,
    ) -> io::Result<()> {
        let segment = writer.current.as_mut().expect("the first frame begins a segment");
        assert!(
            writer.position + frame.len() as u64 <= segment.bytes,
            "the frame's space is reserved"
        );
        let synced = self.reached(Level::Synced);
        let crc = frame::seal(frame, entries, first, synced, writer.last_crc, segment.header.salt);
        segment.file.write_all_at(frame, writer.position)?;
        writer.position += frame.len() as u64;
        writer.last_crc = crc;
        if level == Level::Synced {
            segment.clear_ahead(writer.position, frame.len())?;
        }
        if writer.is_nearly_used() && !self.is_full() {
            // This happens early, so that a full disk is noticed while there is space left. On an error the log
            // continues for now.
            let _ = self.prepare(writer);
        }
        Ok(())
    }

    /// Finishes the current segment and begins the next one, whose first entry is `first`.
    fn begin_segment(&self, writer: &mut Writer, first: Lsn, source: SegmentSource) -> io::Result<()> {
        if let Some(current) = &writer.current
            && !self.disk.keeps_order()
        {
            // Recovery relies on a segment with a successor being synced.
            let syncing = ignore_poison(self.syncer.lock());
            current.file.sync()?;
            drop(syncing);
            self.advance(Level::Synced, Lsn(first.0 - 1), None);
        }
        let (file, drains) = match source {
            SegmentSource::Spare => (
                writer.spare.take().expect("these entries reserved the spare file"),
                false,
            ),
            SegmentSource::Reserve => (writer.reserve.remove(0), true),
        };
        let header = FileHeader {
            drains,
            ..self.next_header(writer, first)
        };
        let segment = file.become_segment(&*self.disk, &self.dir, header)?;
        writer.finished.extend(writer.current.replace(segment));
        writer.count_segment();
        writer.ended_bytes += writer.position;
        writer.is_ending = false;
        writer.position = HEADER_BYTES as u64;
        Ok(())
    }

    /// The header of the next segment, whose first entry is `first`.
    fn next_header(&self, writer: &Writer, first: Lsn) -> FileHeader {
        FileHeader {
            kind: FileKind::Segment,
            id: self.options.id,
            salt: writer.next_salt,
            epoch: self.epoch,
            segment: writer.next_segment,
            lsn: first,
            crc_before: writer.last_crc,
            recycled: false,
            drains: false,
            resumes: None,
            record_bytes: 0,
            mark: 0,
        }
    }
}
