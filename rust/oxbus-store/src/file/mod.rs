// SPDX-License-Identifier: Apache-2.0
//! The journal in files: one directory per shard, independent of other shards.
//!
//! Read in this order: `header` (the first page of every file), `frame` (the unit of a group commit), `segment` (the
//! files), `recovery` (reading them), `group_commit` (appending, writing and syncing), `committers` (threads that sync
//! several logs), `standby` (the thread that writes while the disk may hang), `spare_files` (files for later
//! segments), `reserve` (files for draining a full disk), `flusher` (syncing in the background), `snapshot`, `copy` (the
//! files for a backup), and this module, which combines them. `catalog`, `owner` and `stage` belong to the namespace, not to a shard. docs/format.md
//! specifies every byte.

mod catalog;
mod committers;
mod copy;
mod flusher;
mod frame;
mod group_commit;
mod header;
mod overlay;
mod owner;
mod read_only;
mod recovery;
mod reserve;
mod salvage;
mod segment;
mod snapshot;
mod space;
mod spare_files;
mod stage;
mod standby;
#[cfg(test)]
mod tests;

use crate::Wait;
use oxbus_model::latency::Latencies;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

pub use catalog::{Catalog, CatalogBytes, CatalogFailure};
pub use copy::FileView;
pub use flusher::Flusher;
pub use header::{HeaderError, ShardId};
pub use overlay::OverlayDisk;
pub use owner::{Owner, OwnershipError};
pub use read_only::ReadOnlyDisk;
pub use recovery::{OpenError, ReplayResult};
pub use salvage::{SalvageResult, SalvagedFile, salvage};
pub use stage::{SealedStage, StageError, StageFile, StageHeader, StageNames, StageRun, StageWriter, stage_path};

use crate::RecordPlaces;
use crate::disk::Disk;
use crate::extent::ExtentLocation;
use crate::shard_log::{AppendError, Chunks, Level, LevelCallback, LogFailure, Lsn, ShardLog, SpaceClass};
use group_commit::{CommitStart, GroupCommit};
use oxbus_log::event;
use recovery::EntryPosition;
use segment::SegmentFile;
use snapshot::{SnapshotCoverage, SnapshotSize};

/// The journal of one shard in files.
pub struct FileLog {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    id: ShardId,
    epoch: u64,
    commits: Arc<GroupCommit>,
    /// The last entry that the newest snapshot covers, and the snapshot's size.
    covered: AtomicU64,
    snapshot_bytes: AtomicU64,
    /// Bytes that the newest snapshot does not share with other files.
    snapshot_written: AtomicU64,
}

/// Options for opening a log.
#[derive(Debug, Clone, Copy)]
pub struct FileLogOptions {
    /// The shard of the log.
    pub id: ShardId,
    /// A random number that distinguishes the frames of this owner from those of others.
    pub salt: u32,
    /// Size of the smallest segment, and of each of the two files of the drain reserve.
    pub segment_bytes_min: u64,
    /// Maximum size of a segment, unless one entry needs more.
    pub segment_bytes_max: u64,
    /// The new epoch is above this one, which an earlier owner may have used without leaving a trace in the files.
    pub epoch_above: u64,
}

impl FileLogOptions {
    /// The default segment sizes: 256 KiB to 16 MiB.
    pub fn new(id: ShardId, salt: u32) -> Self {
        Self {
            id,
            salt,
            segment_bytes_min: 256 << 10,
            segment_bytes_max: 16 << 20,
            epoch_above: 0,
        }
    }
}

/// The result of an open.
#[derive(Debug)]
pub struct OpenedLog {
    /// The log, ready for appends.
    pub log: FileLog,
    /// Counts of what was read after the snapshot.
    pub replayed: ReplayResult,
}

/// Receives the content of a log when it is opened.
pub trait Replay {
    /// The next part of the newest snapshot: the last entry it covers, the bytes, and their location. All parts come
    /// before the entries. An empty snapshot has one empty part.
    fn snapshot(&mut self, covered: Lsn, part: &[u8], location: Option<&ExtentLocation>);
    /// The following entries were written under this epoch.
    fn epoch(&mut self, epoch: u64) {
        let _ = epoch;
    }
    /// The next entry after the snapshot, and the location of its bytes.
    fn entry(&mut self, lsn: Lsn, entry: &[u8], location: Option<&ExtentLocation>);
}

impl fmt::Debug for FileLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileLog")
            .field("dir", &self.dir)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl FileLog {
    /// Creates the files of a log with an initial snapshot, which may be empty. Every log has files, so a log
    /// directory without files has lost them.
    pub fn create(disk: &dyn Disk, dir: &Path, id: ShardId, chunks: Chunks<'_>) -> io::Result<()> {
        disk.create_dir(dir)?;
        let covers = SnapshotCoverage {
            id,
            epoch: 0,
            last: Lsn::NONE,
            first_segment: 1,
            mark: 0,
        };
        snapshot::put(disk, dir, covers, chunks).map(drop)
    }

    /// True if `name` is that of a file that a log has before its first entry.
    pub fn is_first_file(name: &str) -> bool {
        segment::is_temporary(name) || snapshot::lsn_of(name) == Some(Lsn::NONE)
    }

    /// True if `dir` contains files of a log.
    pub fn exists(disk: &dyn Disk, dir: &Path) -> io::Result<bool> {
        match disk.list(dir) {
            Ok(_) => Ok(snapshot::is_there(disk, dir)? || !segment::numbers(disk, dir)?.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// True if the log was closed or has failed.
    pub fn has_ended(&self) -> bool {
        self.commits.has_ended()
    }

    /// Opens the log in `dir`, or creates it, and passes its content to `replay`.
    ///
    /// Nothing is overwritten: each owner writes its own segments, the first of which begins with its first append.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: FileLogOptions,
        replay: &mut dyn Replay,
    ) -> Result<OpenedLog, OpenError> {
        let id = options.id;
        disk.create_dir(dir)?;
        let (mut covered, mut epoch, mut first_segment, mut size) = (Lsn::NONE, 0, 1, SnapshotSize::default());
        if let Some((header, found)) = snapshot::replay_newest(&*disk, dir, id, replay)? {
            (covered, epoch, first_segment) = (header.lsn, header.epoch, header.segment);
            size = found;
        }
        let segments = recovery::segments(&*disk, dir, id, first_segment)?;
        let mut replayed_epoch = None;
        let mut recovered = recovery::replay(
            dir,
            segments,
            covered.next(),
            None,
            &mut |lsn, entry, at: EntryPosition<'_>| {
                if replayed_epoch != Some(at.epoch) {
                    replayed_epoch = Some(at.epoch);
                    replay.epoch(at.epoch);
                }
                replay.entry(lsn, entry, Some(&at.location()));
                true
            },
        )?;
        snapshot::check_reached(dir, &recovered, covered)?;
        for (segment, end) in recovered.segments.iter_mut().zip(recovered.ends) {
            // Cut a torn end, so that the next open does not report it again.
            segment.trim(end)?;
            // Entries that the last owner wrote but did not sync are now visible, so they must become durable.
            disk.keep_before(&*segment.file)?;
        }
        let newest = recovered.segments.last().map(|segment| segment.header);
        let epoch = newest.map_or(epoch, |header| header.epoch.max(epoch));
        let epoch = epoch.max(options.epoch_above) + 1;
        let start = CommitStart {
            last: Lsn(recovered.next.max(covered.next()).0 - 1),
            last_crc: recovered.last_crc,
            epoch,
            next_segment: newest.map_or(first_segment, |header| header.segment + 1),
            finished: recovered.segments,
            reserve: reserve::open_existing(&*disk, dir, options.segment_bytes_min)?,
        };
        let holds_something = newest.is_some() || covered > Lsn::NONE;
        let log = Self {
            commits: Arc::new(GroupCommit::new(Arc::clone(&disk), dir.to_owned(), options, start)),
            disk,
            dir: dir.to_owned(),
            id,
            epoch,
            covered: AtomicU64::new(covered.0),
            snapshot_bytes: AtomicU64::new(size.all),
            snapshot_written: AtomicU64::new(size.written),
        };
        log.remove_leftovers(covered, first_segment)?;
        if holds_something {
            // The truncated segments may have freed the space. Without the reserve, the log is full until there is
            // space.
            match log.commits.with_writer(|writer| log.commits.ensure_reserve(writer)) {
                Err(error) if error.kind() != io::ErrorKind::StorageFull => return Err(error.into()),
                _ => {}
            }
        }
        log_opened(id, dir, recovered.replayed);
        Ok(OpenedLog {
            log,
            replayed: recovered.replayed,
        })
    }

    /// Restarts the log of `before`, which has failed, with a snapshot of the caller's state. Entries beyond the
    /// snapshot count as never written.
    ///
    /// `before` may no longer be used, except to see that it has ended. After an error the directory keeps the old
    /// content.
    pub fn restart(before: &Self, options: FileLogOptions, chunks: Chunks<'_>) -> io::Result<Self> {
        let (disk, dir, id) = (Arc::clone(&before.disk), before.dir.clone(), options.id);
        before.commits.end(LogFailure::Closed);
        // Above every existing name, including a segment whose creation failed halfway.
        let newest = segment::numbers(&*disk, &dir)?.last().copied().unwrap_or(0);
        let first_segment = before
            .commits
            .with_writer(|writer| writer.next_segment())
            .max(newest + 1);
        let (last, epoch) = (Lsn(before.commits.next().0 - 1), before.epoch + 1);
        let options = FileLogOptions {
            // A new salt keeps frames of the previous owner from being taken for this owner's.
            salt: options.salt.wrapping_add((epoch as u32).wrapping_mul(0x85EB_CA6B)),
            ..options
        };
        let covers = SnapshotCoverage {
            id,
            epoch,
            last,
            first_segment,
            mark: options.salt,
        };
        let size = snapshot::put(&*disk, &dir, covers, chunks)?;
        let start = CommitStart {
            last,
            last_crc: 0,
            epoch,
            next_segment: first_segment,
            finished: Vec::new(),
            reserve: reserve::open_existing(&*disk, &dir, options.segment_bytes_min)?,
        };
        let log = Self {
            commits: Arc::new(GroupCommit::new(Arc::clone(&disk), dir.clone(), options, start)),
            disk,
            dir,
            id,
            epoch,
            covered: AtomicU64::new(last.0),
            snapshot_bytes: AtomicU64::new(size.all),
            snapshot_written: AtomicU64::new(size.written),
        };
        log.remove_leftovers(last, first_segment)?;
        Ok(log)
    }

    /// Removes the files that the newest snapshot replaced, and temporary files of earlier owners.
    fn remove_leftovers(&self, covered: Lsn, first_segment: u64) -> io::Result<()> {
        for name in self.disk.list(&self.dir)? {
            // Keep the drain reserve: on a full disk it could not be created again.
            if segment::is_temporary(&name) && !segment::RESERVE.contains(&name.as_str()) {
                self.disk.remove(&self.dir.join(name))?;
            }
        }
        for number in segment::numbers(&*self.disk, &self.dir)? {
            if number < first_segment {
                self.disk.remove(&segment::path_of(&self.dir, number))?;
            }
        }
        snapshot::remove_before(&*self.disk, &self.dir, covered)
    }

    /// The number of disk operations that began, and the number that ended. While an operation hangs, the two numbers
    /// differ and do not change.
    pub fn disk_operations(&self) -> (u64, u64) {
        self.commits.standby.disk_operations()
    }

    /// How long syncs took since the first call of this method.
    pub fn sync_times(&self) -> Latencies {
        self.commits.sync_times.get_or_init(Box::default).read()
    }

    /// True while a disk operation is running.
    pub fn is_disk_busy(&self) -> bool {
        let (begun, ended) = self.disk_operations();
        begun != ended
    }

    /// True while callers leave the disk to the standby thread because it may hang.
    pub fn is_stalled(&self) -> bool {
        self.commits.is_stalled()
    }

    /// Marks the disk as hanging or as working again.
    pub fn set_stalled(&self, stalled: bool) {
        self.commits.set_stalled(stalled);
    }

    /// Ends a log whose disk is unresponsive. Waiting callers get an error.
    pub fn end_unresponsive(&self) {
        self.commits.end(LogFailure::Unresponsive);
    }

    /// Syncs all entries and ends the log. Later appends fail. Removes a segment whose entries the snapshot covers,
    /// because the next open would read it to no purpose.
    pub fn close(&self) -> Result<(), AppendError> {
        let last = Lsn(self.commits.next().0 - 1);
        let had_ended = self.has_ended();
        let synced = self.commits.commit(last, Level::Synced, &Wait::FOREVER);
        self.commits.end(LogFailure::Closed);
        // After a failure another log may already use the directory.
        if synced.is_ok() && !had_ended {
            self.commits.with_writer(|writer| {
                // No more appends succeed. An entry may have been appended after `last` was read.
                let covered = Lsn(self.covered.load(Ordering::Acquire));
                if self.commits.next() == covered.next() {
                    self.commits.remove_covered(writer, covered);
                }
                self.commits.remove_spares(writer);
            });
        }
        synced
    }
}

fn log_opened(id: ShardId, dir: &Path, replayed: ReplayResult) {
    let (partition, path) = (id.shard, dir.display());
    let ReplayResult {
        frames,
        bytes,
        torn_bytes,
        ..
    } = replayed;
    if torn_bytes > 0 {
        event!(RECOVERY_CUT, partition, bytes = torn_bytes, path = %path);
    }
    event!(PARTITION_OPENED, partition, frames, bytes, path = %path);
}

impl ShardLog for FileLog {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn next_lsn(&self) -> Lsn {
        self.commits.next()
    }

    fn append(
        &self,
        expected: Lsn,
        entry: &[u8],
        space: SpaceClass,
        level: Level,
        done: Option<LevelCallback>,
        wait: &Wait<'_>,
    ) -> Result<Option<ExtentLocation>, AppendError> {
        let level = self.commits.level_that_keeps(level);
        self.commits.append(expected, entry, space, level, done, wait)
    }

    fn has_room(&self, bytes: usize, space: SpaceClass) -> bool {
        self.commits.has_room(bytes, space)
    }

    fn make_room(&self, bytes: usize, space: SpaceClass, wait: &Wait<'_>) -> Result<(), AppendError> {
        self.commits.make_room(bytes, space, wait)
    }

    fn commit(&self, lsn: Lsn, level: Level, wait: &Wait<'_>) -> Result<(), AppendError> {
        self.commits.commit(lsn, self.commits.level_that_keeps(level), wait)
    }

    fn is_committed(&self, lsn: Lsn, level: Level, waker: &Waker) -> bool {
        self.commits.keeps_unsynced
            || self
                .commits
                .is_committed(lsn, self.commits.level_that_keeps(level), waker)
    }

    fn commit_soon(&self) {
        if self.commits.keeps_unsynced {
            self.commits.sync_request.request();
        } else {
            self.commits.begin_commit(Level::Synced);
        }
    }

    fn reached(&self, level: Level) -> Lsn {
        self.commits.reached(level)
    }

    fn read(&self, from: Lsn, visit: &mut dyn FnMut(Lsn, &[u8]) -> bool) -> io::Result<()> {
        let written = self.commits.reached(Level::Written);
        let segments: Vec<SegmentFile> = self
            .commits
            .with_writer(|writer| writer.finished.iter().chain(&writer.current).cloned().collect());
        let first = segments
            .iter()
            .rposition(|segment| segment.header.lsn <= from)
            .unwrap_or(0);
        let visit = &mut |lsn, entry: &[u8], _: EntryPosition<'_>| visit(lsn, entry);
        recovery::replay(&self.dir, segments[first..].to_vec(), from, Some(written), visit)
            .map(drop)
            .map_err(io::Error::other)
    }

    fn put_snapshot(&self, at: Lsn, chunks: Chunks<'_>) -> io::Result<u64> {
        if self.has_ended() {
            return Err(io::Error::other(
                "the log has ended; its directory may have another owner",
            ));
        }
        // A snapshot must not be more durable than the entries it covers.
        self.commit(at, Level::Synced, &Wait::FOREVER)?;
        let covers = SnapshotCoverage {
            id: self.id,
            epoch: self.epoch,
            last: at,
            first_segment: self.commits.with_writer(|writer| writer.first_needed(at.next())),
            mark: self.commits.options.salt,
        };
        let size = snapshot::put(&*self.disk, &self.dir, covers, chunks)?;
        self.snapshot_bytes.store(size.all, Ordering::Release);
        self.snapshot_written.store(size.written, Ordering::Release);
        self.covered.store(at.0, Ordering::Release);
        Ok(size.written)
    }

    fn record_places(&self) -> Option<RecordPlaces> {
        let start = header::HEADER_BYTES as u64;
        self.disk.shares_bytes().then(|| RecordPlaces::starting_at(start))
    }

    fn truncate_before(&self, lsn: Lsn) -> io::Result<()> {
        self.commits.remove_before(lsn)
    }

    fn fold(&self, summarize: &mut dyn FnMut(&[Vec<u8>]) -> Vec<u8>) -> Result<bool, AppendError> {
        if self.is_stalled() {
            return Ok(false);
        }
        self.commits
            .with_writer(|writer| self.commits.fold(writer, summarize))
            .map_err(|error| {
                let failure = LogFailure::of(&error);
                self.commits.end(failure);
                AppendError::Unavailable(failure)
            })
    }

    fn is_full(&self) -> bool {
        self.commits.is_full()
    }

    fn disk_bytes(&self) -> u64 {
        self.commits.disk_bytes() + self.snapshot_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        // Best effort: an owner that needs the result calls `close`.
        let _ = self.close();
    }
}
