// SPDX-License-Identifier: Apache-2.0
//! Who writes and who waits.
//!
//! An append puts its entry into a buffer under a short mutex and gets its number there, so the order of the journal is
//! the order of the numbers. Whoever then needs the entry written or synced does it for everybody: it takes the whole
//! buffer, writes it as one frame, or syncs up to what is written. The others wait for that one. While a frame is being
//! written the next one fills; while a sync runs, frames are written on. No thread of its own is needed, so a lone
//! sender pays for one write and one sync and for no change of threads.
//!
//! Holds always
//! - at most one thread writes, and at most one syncs;
//! - `synced <= written < next`;
//! - after a failed write or sync nothing is written or acknowledged any more: a second sync may lie. Entries that
//!   were not acknowledged until then are unknown;
//! - what the buffer took has its place on disk, in the current segment or in the spare file: an append without one is
//!   refused before it gets a number;
//! - an entry that adds leaves room for those that free: half of the smallest segment, or the spare file.
//!
//! Order of the mutexes: writer, then syncer, then buffer. Who lets go of the writer or the syncer calls `settle_up`
//! after that, which wakes those who wait and runs callbacks with no mutex held; who wrote in order to sync calls it after
//! the sync.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use super::FileLogOptions;
use super::frame::{self, ENTRY_HEADER_BYTES, FRAME_HEADER_BYTES};
use super::header::{HEADER_BYTES, Header, Kind};
use super::segment::{Segment, Spare};
use super::standby::Standby;
use crate::disk::{Disk, DiskFile};
use crate::extent::{Extent, Place};
use crate::shard_log::{AppendError, Appended, Done, Failure, Level, Lsn, Room};

/// A frame with more than one entry is at most so long, so that whoever waits does not wait long.
const FRAME_BYTES_MAX: usize = 512 << 10;
/// A buffer with more room is given back after its frame is written.
const KEPT_BYTES_MAX: usize = 128 << 10;

/// Entries that wait to be written.
pub(super) struct Buffer {
    next: Lsn,
    /// Room for a frame's header, then the entries.
    frame: Vec<u8>,
    entries: u32,
    /// Bytes not promised to entries yet: of the current segment, or of the spare file once an entry needs that.
    left_bytes: u64,
    /// Where the next byte of the frame will stand.
    extent: Option<Extent>,
    position: u64,
    /// Bytes of the spare file; 0 without one, and when it is promised.
    pub(super) spare_bytes: u64,
    /// The spare file, unless it is promised.
    pub(super) spare: Option<Extent>,
    /// What a sync has to sync, and the last entry in it.
    unsynced: Option<(Arc<dyn DiskFile>, Lsn)>,
    waiting: Vec<Waiting>,
    /// Callbacks to run, and with what.
    ended: Vec<(Done, Appended)>,
    /// Set once, when the log goes out of service.
    pub(super) failure: Option<Failure>,
}

struct Waiting {
    lsn: Lsn,
    level: Level,
    done: Done,
}

/// What only the writing thread touches.
pub(super) struct Writer {
    /// Finished segments, oldest first.
    pub(super) finished: Vec<Segment>,
    pub(super) current: Option<Segment>,
    position: u64,
    last_crc: u32,
    next_segment: u64,
    next_salt: u32,
    pub(super) spare: Option<Spare>,
    /// Files of segments that a snapshot replaced, to be spare files.
    pub(super) recycled: Vec<Spare>,
    /// A buffer that is not in use.
    empty: Vec<u8>,
}

/// Why an entry cannot be buffered now.
enum Refused {
    For(AppendError),
    /// Until the buffer was written.
    UntilWritten,
    /// Until the spare file has so many bytes.
    UntilSpare(u64),
}

/// Where a commit begins: what recovery found.
pub(super) struct Start {
    pub(super) last: Lsn,
    pub(super) last_crc: u32,
    pub(super) epoch: u64,
    pub(super) next_segment: u64,
    pub(super) finished: Vec<Segment>,
}

/// Appends and their commits.
pub(super) struct GroupCommit {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) options: FileLogOptions,
    epoch: u64,
    pub(super) buffer: Mutex<Buffer>,
    /// Notified when `written` or `failure` changed, or somebody stopped writing: for those who need no sync.
    write_ended: Condvar,
    /// Notified when `synced` or `failure` changed, or somebody stopped syncing, or stopped writing and is not going to
    /// sync: for those who need a sync.
    pub(super) sync_ended: Condvar,
    pub(super) standby: Standby,
    writer: Mutex<Writer>,
    syncer: Mutex<()>,
    written: AtomicU64,
    synced: AtomicU64,
    /// The spare file could not be made: the disk is full.
    pub(super) full: AtomicBool,
    pub(super) disk_bytes: AtomicU64,
}

pub(super) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_busy<T>(mutex: &Mutex<T>) -> bool {
    matches!(mutex.try_lock(), Err(TryLockError::WouldBlock))
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

    /// True when more than half of the current segment is used.
    pub(super) fn is_half_used(&self) -> bool {
        self.current
            .as_ref()
            .is_some_and(|segment| self.position > segment.bytes / 2)
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
    pub(super) fn new(disk: Arc<dyn Disk>, dir: PathBuf, options: FileLogOptions, start: Start) -> Self {
        let disk_bytes = start.finished.iter().map(|segment| segment.bytes).sum();
        Self {
            disk,
            dir,
            options,
            epoch: start.epoch,
            buffer: Mutex::new(Buffer {
                next: start.last.next(),
                frame: fresh_frame(Vec::new()),
                entries: 0,
                left_bytes: 0,
                extent: None,
                position: 0,
                spare_bytes: 0,
                spare: None,
                unsynced: None,
                waiting: Vec::new(),
                ended: Vec::new(),
                failure: None,
            }),
            write_ended: Condvar::new(),
            sync_ended: Condvar::new(),
            standby: Standby::default(),
            writer: Mutex::new(Writer {
                finished: start.finished,
                current: None,
                position: 0,
                last_crc: start.last_crc,
                next_segment: start.next_segment,
                next_salt: options.salt,
                spare: None,
                recycled: Vec::new(),
                empty: Vec::new(),
            }),
            syncer: Mutex::new(()),
            written: AtomicU64::new(start.last.0),
            synced: AtomicU64::new(start.last.0),
            full: AtomicBool::new(false),
            disk_bytes: AtomicU64::new(disk_bytes),
        }
    }

    pub(super) fn next(&self) -> Lsn {
        guard(&self.buffer).next
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
        guard(&self.buffer).failure.is_some()
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        self.disk_bytes.load(Ordering::Relaxed)
    }

    /// Takes the log out of service.
    pub(super) fn end(&self, failure: Failure) {
        self.fail(failure);
        self.settle_up();
    }

    /// Room that entries which add leave to those which free, as long as there is no spare file.
    fn reserve_bytes(&self) -> u64 {
        self.options.segment_bytes_min / 2
    }

    pub(super) fn append(
        self: &Arc<Self>,
        expected: Lsn,
        entry: &[u8],
        room: Room,
        level: Level,
        mut done: Option<Done>,
    ) -> Result<Option<Place>, AppendError> {
        loop {
            match self.take(expected, entry, room, level, &mut done) {
                Ok(place) => return Ok(place),
                Err(Refused::For(error)) => return Err(error),
                Err(Refused::UntilWritten) if self.is_suspect() => self.wait_for_room(0)?,
                Err(Refused::UntilSpare(bytes)) if self.is_suspect() => self.wait_for_room(bytes)?,
                Err(Refused::UntilWritten) => self.with_writer(|writer| self.write_pending(writer, Level::Written)),
                Err(Refused::UntilSpare(bytes)) => {
                    if let Err(error) = self.with_writer(|writer| self.ensure_spare(writer, bytes)) {
                        if error.kind() == io::ErrorKind::StorageFull {
                            return Err(AppendError::Full);
                        }
                        self.end(Failure::of(&error));
                    }
                }
            }
        }
    }

    /// True when an entry of so many bytes is taken at once, or refused: nobody need go to a disk that may hang.
    pub(super) fn has_room(&self, bytes: usize, room: Room) -> bool {
        if !self.is_suspect() {
            return true;
        }
        let buffer = guard(&self.buffer);
        buffer.failure.is_some() || self.check_room(&buffer, bytes, room).is_ok()
    }

    /// Waits until that is so.
    pub(super) fn make_room(self: &Arc<Self>, bytes: usize, room: Room) -> Result<(), AppendError> {
        loop {
            let buffer = guard(&self.buffer);
            if buffer.failure.is_some() || !self.is_suspect() {
                return Ok(());
            }
            let checked = self.check_room(&buffer, bytes, room);
            drop(buffer);
            match checked {
                Ok(_) => return Ok(()),
                Err(Refused::For(error)) => return Err(error),
                Err(Refused::UntilWritten) => self.wait_for_room(0)?,
                Err(Refused::UntilSpare(bytes)) => self.wait_for_room(bytes)?,
            }
        }
    }

    /// What an entry of so many bytes needs first; the bytes that it takes, and whether they are the spare file's.
    fn check_room(&self, buffer: &Buffer, entry_bytes: usize, room: Room) -> Result<(u64, bool), Refused> {
        if room == Room::Adds && self.is_full() {
            return Err(Refused::For(AppendError::Full));
        }
        let begins = buffer.entries == 0;
        let bytes = frame::entry_bytes(entry_bytes);
        let needed = (bytes + if begins { FRAME_HEADER_BYTES } else { 0 }) as u64;
        let overflows = buffer.left_bytes < needed || buffer.frame.len() + bytes > FRAME_BYTES_MAX;
        if overflows && !begins {
            return Err(Refused::UntilWritten);
        }
        let reserve = if room == Room::Adds { self.reserve_bytes() } else { 0 };
        if buffer.left_bytes < needed {
            // One that takes much of a segment needs a longer one.
            let reserve = if needed > self.reserve_bytes() { reserve } else { 0 };
            let with_header = HEADER_BYTES as u64 + needed + reserve;
            if buffer.spare_bytes < with_header {
                return Err(Refused::UntilSpare(with_header));
            }
            return Ok((needed, true));
        }
        if buffer.spare_bytes == 0 && buffer.left_bytes < needed + reserve {
            return Err(Refused::UntilSpare(HEADER_BYTES as u64 + reserve));
        }
        Ok((needed, false))
    }

    /// Takes an entry into the buffer, or says what must be done first.
    fn take(
        &self,
        expected: Lsn,
        entry: &[u8],
        room: Room,
        level: Level,
        done: &mut Option<Done>,
    ) -> Result<Option<Place>, Refused> {
        let mut guarded = guard(&self.buffer);
        let buffer = &mut *guarded;
        if let Some(failure) = buffer.failure {
            return Err(Refused::For(AppendError::Unavailable(failure)));
        }
        if buffer.next != expected {
            return Err(Refused::For(AppendError::Conflict { next: buffer.next }));
        }
        let (needed, takes_spare) = self.check_room(buffer, entry.len(), room)?;
        if takes_spare {
            buffer.left_bytes = std::mem::take(&mut buffer.spare_bytes) - HEADER_BYTES as u64;
            buffer.extent = buffer.spare.take();
            buffer.position = HEADER_BYTES as u64;
        }
        frame::push_entry(&mut buffer.frame, entry);
        buffer.left_bytes -= needed;
        buffer.position += needed;
        let start = buffer.position - frame::entry_bytes(entry.len()) as u64 + ENTRY_HEADER_BYTES as u64;
        let place = buffer.extent.as_ref().map(|extent| extent.at(start));
        buffer.entries += 1;
        buffer.next = expected.next();
        if let Some(done) = done.take() {
            buffer.waiting.push(Waiting {
                lsn: expected,
                level,
                done,
            });
        }
        Ok(place)
    }

    /// Waits until an entry has reached a level; goes to the disk for it unless that may hang.
    pub(super) fn commit(self: &Arc<Self>, lsn: Lsn, level: Level) -> Result<(), AppendError> {
        let here = match level {
            _ if self.is_suspect() => None,
            Level::Written => self.commit_written(lsn, Self::is_suspect),
            Level::Synced => self.commit_synced(lsn, Self::is_suspect),
        };
        here.unwrap_or_else(|| self.commit_aside(lsn, level))
    }

    /// The same by the standby, which goes to the disk whatever it does.
    pub(super) fn commit_here(&self, lsn: Lsn, level: Level) -> Result<(), AppendError> {
        let here = match level {
            Level::Written => self.commit_written(lsn, |_| false),
            Level::Synced => self.commit_synced(lsn, |_| false),
        };
        here.expect("the standby stays")
    }

    /// `None` when the caller is to keep away from the disk.
    fn commit_written(&self, lsn: Lsn, keeps_away: fn(&Self) -> bool) -> Option<Result<(), AppendError>> {
        loop {
            if let Some(result) = self.outcome(lsn, Level::Written) {
                return Some(result);
            }
            if keeps_away(self) {
                return None;
            }
            if let Ok(mut writer) = self.writer.try_lock() {
                self.write_pending(&mut writer, Level::Written);
                drop(writer);
                self.settle_up();
            } else {
                let is_writing = || is_busy(&self.writer) && !keeps_away(self);
                self.wait_while(lsn, Level::Written, &self.write_ended, is_writing);
            }
        }
    }

    /// Who comes while somebody writes or syncs waits for that sync: what gathers until then is one frame and one sync,
    /// and nobody is woken in between.
    fn commit_synced(&self, lsn: Lsn, keeps_away: fn(&Self) -> bool) -> Option<Result<(), AppendError>> {
        // Who writes is in the way only of what is not written: otherwise those who keep writing would keep us waiting.
        let is_working = || {
            let is_in_the_way = is_busy(&self.syncer) || (self.reached(Level::Written) < lsn && is_busy(&self.writer));
            is_in_the_way && !keeps_away(self)
        };
        // We wrote, and those who wait for a sync were not woken because we are going to sync.
        let mut owes_wake = false;
        loop {
            if let Some(result) = self.outcome(lsn, Level::Synced) {
                if owes_wake {
                    self.settle_up();
                }
                return Some(result);
            }
            if keeps_away(self) {
                if owes_wake {
                    self.settle_up();
                }
                return None;
            }
            if is_busy(&self.syncer) {
                self.wait_while(lsn, Level::Synced, &self.sync_ended, is_working);
            } else if self.reached(Level::Written) < lsn {
                if let Ok(mut writer) = self.writer.try_lock() {
                    self.write_pending(&mut writer, Level::Synced);
                    drop(writer);
                    self.settle_written();
                    owes_wake = true;
                } else {
                    self.wait_while(lsn, Level::Synced, &self.sync_ended, is_working);
                }
            } else if let Ok(syncing) = self.syncer.try_lock() {
                self.sync_written();
                drop(syncing);
                self.settle_up();
                owes_wake = false;
            }
        }
    }

    /// How a commit ends, if it does now.
    pub(super) fn outcome(&self, lsn: Lsn, level: Level) -> Option<Result<(), AppendError>> {
        if self.reached(level) >= lsn {
            return Some(Ok(()));
        }
        let failure = guard(&self.buffer).failure?;
        // It may have been reached before the failure, after our look.
        let reached = self.reached(level) >= lsn;
        Some(if reached {
            Ok(())
        } else {
            Err(AppendError::Unknown(failure))
        })
    }

    fn wait_while(&self, lsn: Lsn, level: Level, ended: &Condvar, is_working: impl Fn() -> bool) {
        let mut buffer = guard(&self.buffer);
        while self.reached(level) < lsn && buffer.failure.is_none() && is_working() {
            buffer = ended.wait(buffer).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wakes those who wait and runs the callbacks of appends that ended. The caller holds no mutex.
    fn settle_up(&self) {
        // Who is between its look and its wait holds the buffer.
        let ended = std::mem::take(&mut guard(&self.buffer).ended);
        self.write_ended.notify_all();
        self.sync_ended.notify_all();
        for (done, result) in ended {
            done(result);
        }
    }

    /// Has everybody who waits look again.
    pub(super) fn wake(&self) {
        drop(guard(&self.buffer));
        self.write_ended.notify_all();
        self.sync_ended.notify_all();
    }

    /// Wakes those who need no sync. The caller is going to sync, and settles up then.
    fn settle_written(&self) {
        drop(guard(&self.buffer));
        self.write_ended.notify_all();
    }

    /// Runs `work` as the writing thread.
    pub(super) fn with_writer<R>(&self, work: impl FnOnce(&mut Writer) -> R) -> R {
        let mut writer = guard(&self.writer);
        let turn = self.standby.turn();
        let result = work(&mut writer);
        drop(turn);
        drop(writer);
        self.settle_up();
        result
    }

    fn fail(&self, failure: Failure) {
        let mut buffer = guard(&self.buffer);
        let failure = *buffer.failure.get_or_insert(failure);
        let waiting = std::mem::take(&mut buffer.waiting);
        let unknown = |it: Waiting| (it.done, Err(AppendError::Unknown(failure)));
        buffer.ended.extend(waiting.into_iter().map(unknown));
    }

    /// Notes that entries have reached a level; the callbacks of those who wait for it are due.
    fn advance(&self, level: Level, to: Lsn, file: Option<&Arc<dyn DiskFile>>) {
        let mut guarded = guard(&self.buffer);
        let buffer = &mut *guarded;
        match level {
            Level::Written => &self.written,
            Level::Synced => &self.synced,
        }
        .fetch_max(to.0, Ordering::AcqRel);
        if let Some(file) = file {
            buffer.unsynced = Some((Arc::clone(file), to));
        }
        let is_reached = |it: &mut Waiting| it.lsn <= self.reached(it.level);
        let reached = buffer.waiting.extract_if(.., is_reached);
        buffer.ended.extend(reached.map(|it| (it.done, Ok(it.lsn))));
    }

    /// Writes the buffer as one frame; at the level `Synced` the caller is going to sync it.
    pub(super) fn write_pending(&self, writer: &mut Writer, level: Level) {
        let (mut frame, entries, last) = {
            let mut buffer = guard(&self.buffer);
            if buffer.failure.is_some() || buffer.entries == 0 {
                return;
            }
            let empty = fresh_frame(std::mem::take(&mut writer.empty));
            let entries = std::mem::take(&mut buffer.entries);
            (
                std::mem::replace(&mut buffer.frame, empty),
                entries,
                Lsn(buffer.next.0 - 1),
            )
        };
        let first = Lsn(last.0 + 1 - u64::from(entries));
        let _turn = self.standby.turn();
        let result = self.write_frame(writer, &mut frame, entries, first, level);
        // A long frame's buffer is not kept for short ones: there are two per shard.
        if frame.capacity() <= KEPT_BYTES_MAX {
            writer.empty = frame;
        }
        match result {
            Ok(()) => {
                let file = writer.current.as_ref().map(|segment| &segment.file);
                self.advance(Level::Written, last, file);
            }
            Err(error) => self.fail(Failure::of(&error)),
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
        let end = writer.position + frame.len() as u64;
        if writer.current.as_ref().is_none_or(|segment| end > segment.bytes) {
            self.begin_segment(writer, first)?;
        }
        let segment = writer.current.as_mut().expect("begun");
        let synced = self.reached(Level::Synced);
        let crc = frame::seal(frame, entries, first, synced, writer.last_crc, segment.header.salt);
        segment.file.write_all_at(frame, writer.position)?;
        writer.position += frame.len() as u64;
        writer.last_crc = crc;
        if level == Level::Synced {
            segment.clear_ahead(writer.position, frame.len())?;
        }
        if writer.is_half_used() && !self.is_full() {
            // In time, so that a full disk is known while there is room left. Without it the log goes on for now.
            let _ = self.prepare(writer);
        }
        Ok(())
    }

    /// Finishes the current segment and begins the next one, whose first entry is `first`.
    fn begin_segment(&self, writer: &mut Writer, first: Lsn) -> io::Result<()> {
        if let Some(current) = &writer.current {
            // Who reads a segment with a successor relies on it.
            let syncing = guard(&self.syncer);
            current.file.sync()?;
            drop(syncing);
            self.advance(Level::Synced, Lsn(first.0 - 1), None);
        }
        let header = Header {
            kind: Kind::Segment,
            id: self.options.id,
            salt: writer.next_salt,
            epoch: self.epoch,
            segment: writer.next_segment,
            lsn: first,
            crc_before: writer.last_crc,
            recycled: false,
        };
        let spare = writer.spare.take().expect("promised to these entries");
        let segment = spare.become_segment(&*self.disk, &self.dir, header)?;
        writer.finished.extend(writer.current.replace(segment));
        writer.next_segment += 1;
        writer.next_salt = writer.next_salt.wrapping_add(0x9E37_79B9);
        writer.position = HEADER_BYTES as u64;
        Ok(())
    }

    /// Syncs what is written.
    fn sync_written(&self) {
        let unsynced = {
            let mut buffer = guard(&self.buffer);
            if buffer.failure.is_some() {
                return;
            }
            buffer.unsynced.take()
        };
        let Some((file, target)) = unsynced else { return };
        let _turn = self.standby.turn();
        match file.sync() {
            Ok(()) => self.advance(Level::Synced, target, None),
            Err(error) => self.fail(Failure::of(&error)),
        }
    }
}
