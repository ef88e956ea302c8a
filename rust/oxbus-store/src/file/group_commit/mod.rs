// SPDX-License-Identifier: Apache-2.0
//! Who writes and who waits.
//!
//! An append puts its entry into a buffer under a short mutex and gets its number there, so the order of the journal is
//! the order of the numbers. Whoever then needs the entry written or synced does it for everybody: it takes the whole
//! buffer, writes it as one frame, or syncs up to what is written. The others wait for that one. While a frame is being
//! written the next one fills; while a sync runs, frames are written on. No thread of its own is needed, so a lone
//! sender pays for one write and one sync and for no change of threads. Here the entries go to the disk; `append` takes
//! them in, `commit` says who writes and syncs, `waiters` are the others, `hanging` is for a disk that does not answer.
//!
//! Holds always
//! - at most one thread writes, and at most one syncs;
//! - `synced <= written < next`;
//! - after a failed write or sync nothing is written or acknowledged any more: a second sync may lie. Entries that
//!   were not acknowledged until then are unknown;
//! - a panic with the buffer, or in a turn at the disk, ends the log: the next one begins with what is in memory;
//! - what the buffer took has its place on disk, in the current segment or in a file that is there to follow it: an append
//!   without one is refused before it gets a number;
//! - an entry that adds is taken while the drain reserve is whole, and takes nothing of it (`reserve`).
//!
//! Order of the mutexes: writer, then syncer, then buffer. Who lets go of the writer or the syncer calls `notify_waiters`
//! after that, which calls those who wait and runs callbacks with no mutex held; who wrote in order to sync calls it after
//! the sync.

mod append;
mod buffer;
mod commit;
mod fold;
mod stalled_disk;
mod waiters;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

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

/// A buffer with more room is given back after its frame is written.
const IDLE_FRAME_BYTES_MAX: usize = 128 << 10;

/// Entries that wait to be written.
pub(super) struct Buffer {
    next: Lsn,
    /// Room for a frame's header, then the entries.
    frame: Vec<u8>,
    entries: u32,
    /// Bytes not promised to entries yet: of the current segment, or of the spare file once an entry needs that.
    available_bytes: u64,
    /// Where the next byte of the frame will stand.
    extent: Option<Extent>,
    position: u64,
    /// Bytes of the spare file; 0 without one, and when it is promised.
    pub(super) spare_bytes: u64,
    /// The spare file, unless it is promised.
    pub(super) spare: Option<Extent>,
    /// Files of the drain reserve that are not promised.
    pub(super) reserve: Vec<(Extent, u64)>,
    /// The file that the entries in the frame begin, when they are the first of a segment.
    source: Option<SegmentSource>,
    /// The segment that entries go to only drains.
    pub(super) drains: bool,
    /// The last segments only drain, and may be folded into one.
    pub(super) may_fold: bool,
    /// What a sync has to sync, and the last entry in it.
    unsynced: Option<(Arc<dyn DiskFile>, Lsn)>,
    /// Threads that wait.
    waiters: CommitWaiters,
    /// Who is told without waiting.
    callbacks: Vec<CommitCallback>,
    /// Callbacks to run, and with what.
    ended: Vec<(LevelCallback, AppendOutcome)>,
    /// Set once, when the log goes out of service.
    pub(super) failure: Option<LogFailure>,
}

/// What an append wants to be called when its entry has reached a level.
struct CommitCallback {
    lsn: Lsn,
    level: Level,
    done: LevelCallback,
}

/// Which file becomes the next segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SegmentSource {
    Spare,
    Reserve,
}

/// What only the writing thread touches.
pub(super) struct Writer {
    /// Finished segments, oldest first.
    pub(super) finished: Vec<SegmentFile>,
    pub(super) current: Option<SegmentFile>,
    position: u64,
    /// Somebody was asked to sync the current segment because it ends soon.
    is_ending: bool,
    /// Bytes of the segments that this owner has ended.
    ended_bytes: u64,
    last_crc: u32,
    next_segment: u64,
    next_salt: u32,
    pub(super) spare: Option<Spare>,
    /// Files of segments that a snapshot replaced, to be spare files.
    pub(super) recycled: Vec<Spare>,
    /// Files of the drain reserve, in the order in which the buffer knows them.
    pub(super) reserve: Vec<Spare>,
    /// A buffer that is not in use.
    empty: Vec<u8>,
}

/// Where a commit begins: what recovery found.
pub(super) struct CommitStart {
    pub(super) last: Lsn,
    pub(super) last_crc: u32,
    pub(super) epoch: u64,
    pub(super) next_segment: u64,
    pub(super) finished: Vec<SegmentFile>,
    /// The files of the drain reserve that the owner before left.
    pub(super) reserve: Vec<Spare>,
}

/// Appends and their commits.
pub(super) struct GroupCommit {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) options: FileLogOptions,
    epoch: u64,
    /// A panic with it ends the log (`buffer`).
    buffer: Mutex<Buffer>,
    pub(super) sync_request: SyncRequest,
    pub(super) standby: Standby,
    /// Changed in a turn, or with the buffer: a panic ends the log.
    writer: Mutex<Writer>,
    syncer: Mutex<()>,
    written: AtomicU64,
    synced: AtomicU64,
    /// The spare file could not be made: the disk is full.
    pub(super) full: AtomicBool,
    /// A file of the drain reserve gives its room to a snapshot.
    pub(super) is_reserve_lent: AtomicBool,
    pub(super) disk_bytes: AtomicU64,
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

    /// Bytes of the segments that a snapshot did not replace yet.
    pub(super) fn kept_bytes(&self) -> u64 {
        let finished: u64 = self.finished.iter().map(|segment| segment.bytes).sum();
        finished + self.current.as_ref().map_or(0, |_| self.position)
    }

    /// True once for a segment of which three quarters are used: somebody else begins to sync it, so that its end, which
    /// waits for a sync, has little left to wait for.
    fn nears_end(&mut self) -> bool {
        let is_near = |segment: &SegmentFile| self.position > segment.bytes / 4 * 3;
        self.current.as_ref().is_some_and(is_near) && !std::mem::replace(&mut self.is_ending, true)
    }

    /// Bytes that this owner has written.
    pub(super) fn written_bytes(&self) -> u64 {
        self.ended_bytes + self.position
    }

    /// True when the current segment is nearly used up: the file of the next one is made then, and no sooner, so that one
    /// that a snapshot replaces can be it.
    pub(super) fn is_nearly_used(&self) -> bool {
        self.current
            .as_ref()
            .is_some_and(|segment| self.position > segment.bytes / 16 * 15)
    }

    /// A segment was begun: the next one has another number and another salt.
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
                reserve: start.reserve.iter().map(Spare::room).collect(),
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
            standby: Standby::default(),
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
        }
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

    /// Takes the log out of service.
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

    /// Notes that entries have reached a level; the callbacks of those who wait for it are due.
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

    /// Writes the buffer as one frame; at the level `Synced` the caller is going to sync it.
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
        // A long frame's buffer is not kept for short ones: there are two per shard.
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
        let segment = writer.current.as_mut().expect("a promise begins the first segment");
        assert!(
            writer.position + frame.len() as u64 <= segment.bytes,
            "the frame has its place"
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
            // In time, so that a full disk is known while there is room left. Without it the log goes on for now.
            let _ = self.prepare(writer);
        }
        Ok(())
    }

    /// Finishes the current segment and begins the next one, whose first entry is `first`.
    fn begin_segment(&self, writer: &mut Writer, first: Lsn, source: SegmentSource) -> io::Result<()> {
        if let Some(current) = &writer.current {
            // Who reads a segment with a successor relies on it.
            let syncing = ignore_poison(self.syncer.lock());
            current.file.sync()?;
            drop(syncing);
            self.advance(Level::Synced, Lsn(first.0 - 1), None);
        }
        let (file, drains) = match source {
            SegmentSource::Spare => (writer.spare.take().expect("promised to these entries"), false),
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
        }
    }

    /// Syncs what is written.
    fn sync_written(&self) {
        let unsynced = {
            let mut buffer = self.buffer();
            if buffer.failure.is_some() {
                return;
            }
            buffer.unsynced.take()
        };
        let Some((file, target)) = unsynced else { return };
        let _guard = self.enter_disk();
        match file.sync() {
            Ok(()) => self.advance(Level::Synced, target, None),
            Err(error) => self.fail(LogFailure::of(&error)),
        }
    }
}
