// SPDX-License-Identifier: Apache-2.0
//! The durable log of one shard: the interface of every log engine.
//!
//! A log is a sequence of entries, numbered by their [`Lsn`]. An entry is opaque bytes and is stored completely or not
//! at all. Callers must not assume that an append is fast or local: it completes later, through a callback, and its
//! outcome is final. The owner of a log writes under an epoch. An owner with a newer epoch fences the older one.
//!
//! Invariants
//! - an entry is in the log completely or not at all;
//! - entries are in the log in the order of their numbers, without gaps;
//! - the next open decides, once and for all, whether an append that ended with [`AppendError::Unknown`] is in the
//!   log.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::Waker;

use oxbus_model::SharedError;

use crate::disk::TakenOver;
use crate::extent::ExtentLocation;
use crate::{PlacedRecord, RecordPlaces, StoredRecord, Wait};

/// The number of an entry in its log. The first entry has number 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The number before the first entry.
    pub const NONE: Self = Self(0);

    /// The entry after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// How durable an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Written to the operating system: the entry survives the end of the process.
    Written,
    /// Synced to the disk: the entry survives a power loss.
    Synced,
}

/// The effect of an entry on the space that the log needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceClass {
    /// It adds data that must be kept. It is rejected while the disk is full.
    Adds,
    /// It frees space or is too small to matter. It may use the drain reserve.
    Frees,
}

/// Why an append failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendError {
    /// Another owner opened the log with a newer epoch. This handle can append nothing more.
    Fenced {
        /// Epoch of the new owner.
        epoch: u64,
    },
    /// The expected number is not the next one. Nothing was written.
    Conflict {
        /// The number that the next entry gets.
        next: Lsn,
    },
    /// The disk is full. Nothing was written. Entries that free space are still accepted.
    Full,
    /// The caller stopped waiting before the log had space for the entry. Nothing was written.
    TimedOut,
    /// The log is out of service. Nothing was written.
    Unavailable(LogFailure),
    /// The outcome is unknown: the entry may be in the log. The next open decides.
    Unknown(LogFailure),
}

/// Why a log is out of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFailure {
    /// A write or a sync failed. Only a new open shows what the disk holds.
    Io {
        /// The error number of the system, if there is one.
        errno: Option<i32>,
    },
    /// The disk did not respond before a caller stopped waiting.
    Unresponsive,
    /// The log was closed.
    Closed,
    /// A call panicked while it changed the log.
    Panicked,
    /// Another process owns the disk now.
    TakenOver,
}

impl LogFailure {
    pub(crate) fn of(error: &io::Error) -> Self {
        if TakenOver::is_cause_of(error) {
            return Self::TakenOver;
        }
        Self::Io {
            errno: error.raw_os_error(),
        }
    }
}

impl fmt::Display for LogFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { errno: Some(errno) } => write!(f, "{}", io::Error::from_raw_os_error(*errno)),
            Self::Io { errno: None } => f.write_str("an input or output error"),
            Self::Unresponsive => f.write_str("the disk does not answer"),
            Self::Closed => f.write_str("the log is closed"),
            Self::Panicked => f.write_str("a call panicked while it changed the log"),
            Self::TakenOver => f.write_str("another process took the namespace over; work there"),
        }
    }
}

impl std::error::Error for LogFailure {}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced { epoch } => write!(f, "another process took the partition over under epoch {epoch}"),
            Self::Conflict { next } => write!(f, "the journal goes on at entry {}", next.0),
            Self::Full => f.write_str("its disk is full"),
            Self::TimedOut => f.write_str("it did not answer in time"),
            Self::Unavailable(failure) | Self::Unknown(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for AppendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unavailable(failure) | Self::Unknown(failure) => Some(failure),
            Self::Fenced { .. } | Self::Conflict { .. } | Self::Full | Self::TimedOut => None,
        }
    }
}

impl From<AppendError> for io::Error {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Unavailable(LogFailure::Io { errno: Some(errno) })
            | AppendError::Unknown(LogFailure::Io { errno: Some(errno) }) => Self::from_raw_os_error(errno),
            error => Self::other(error),
        }
    }
}

impl AppendError {
    /// The cause to report in an error: the error of the system if there is one, otherwise this error.
    pub fn cause(&self) -> SharedError {
        match self {
            Self::Unavailable(LogFailure::Io { errno: Some(errno) })
            | Self::Unknown(LogFailure::Io { errno: Some(errno) }) => Arc::new(io::Error::from_raw_os_error(*errno)),
            error => Arc::new(error.clone()),
        }
    }
}

/// The outcome of an append.
pub type AppendOutcome = Result<Lsn, AppendError>;

/// Called once, when the entry has reached its level or has failed. It must not wait for this log.
pub type LevelCallback = Box<dyn FnOnce(AppendOutcome) + Send>;

/// A part of a snapshot.
#[derive(Debug, Default)]
pub struct Chunk {
    /// The bytes of the chunk.
    pub bytes: Vec<u8>,
    /// Messages in the chunk, each followed by its checksum, with their offsets in `bytes`. Once the snapshot is
    /// synced, messages on disk are read from it, so that the files it replaces can be removed.
    pub messages: Vec<(StoredRecord, usize)>,
    /// Records that the chunk refers to by their places, in the order in which [`RecordPlaces`] assigned these.
    pub records: Vec<PlacedRecord>,
}

impl From<Vec<u8>> for Chunk {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }
}

/// The chunks of a snapshot, in order. An error discards the snapshot.
pub type Chunks<'a> = &'a mut dyn Iterator<Item = io::Result<Chunk>>;

/// The durable log of one shard.
pub trait ShardLog: Send + Sync {
    /// The epoch under which this handle writes.
    fn epoch(&self) -> u64;

    /// The number that the next entry gets.
    fn next_lsn(&self) -> Lsn;

    /// Appends `entry` as number `expected`. Calls `done`, on any thread, when the entry has reached `level` or has
    /// failed; if there is no `done`, the caller waits with [`ShardLog::commit`]. After an error nothing was written
    /// and `done` is not called.
    ///
    /// While the disk may hang, the append waits for buffer space. Call [`ShardLog::make_room`] first, while holding
    /// no lock that other callers need.
    ///
    /// Returns the location from which the entry's bytes can be read once it has reached [`Level::Written`], if the
    /// log supports that.
    fn append(
        &self,
        expected: Lsn,
        entry: &[u8],
        space: SpaceClass,
        level: Level,
        done: Option<LevelCallback>,
        wait: &Wait<'_>,
    ) -> Result<Option<ExtentLocation>, AppendError>;

    /// True if [`ShardLog::append`] accepts an entry of `bytes` bytes without waiting for a disk that may hang.
    fn has_room(&self, bytes: usize, space: SpaceClass) -> bool {
        let _ = (bytes, space);
        true
    }

    /// Waits until [`ShardLog::has_room`] is true. The caller must hold no lock that others need. Fails if the wait
    /// ends first.
    fn make_room(&self, bytes: usize, space: SpaceClass, wait: &Wait<'_>) -> Result<(), AppendError> {
        let _ = (bytes, space, wait);
        Ok(())
    }

    /// Waits until all entries up to `lsn` have reached `level`. The caller writes and syncs unless another thread
    /// does.
    fn commit(&self, lsn: Lsn, level: Level, wait: &Wait<'_>) -> Result<(), AppendError>;

    /// For a call that is suspended while it waits: true if [`ShardLog::commit`] of this entry returns without a wait
    /// for a store. Otherwise begins what the entry needs, and wakes `waker` when to ask again. The calls of a disk
    /// write and sync themselves, so they are not suspended.
    fn is_committed(&self, lsn: Lsn, level: Level, waker: &Waker) -> bool {
        let _ = (lsn, level, waker);
        true
    }

    /// Starts a sync in the background, for a caller that is going to wait for several logs. It is a hint: the caller
    /// still waits with [`ShardLog::commit`].
    fn commit_soon(&self) {}

    /// The last entry that has reached `level`.
    fn reached(&self, level: Level) -> Lsn;

    /// Passes the entries from `from` to the last written one to `visit`, in order, until it returns false.
    fn read(&self, from: Lsn, visit: &mut dyn FnMut(Lsn, &[u8]) -> bool) -> io::Result<()>;

    /// Stores the state after all entries up to `at` as a snapshot that replaces older ones. Those entries are synced
    /// first. Returns the number of bytes that were written for it.
    fn put_snapshot(&self, at: Lsn, chunks: Chunks<'_>) -> io::Result<u64>;

    /// The places of the records in the next snapshot, if the log keeps them apart from the events. Then it also
    /// refers to records that are on disk already, instead of writing them again.
    fn record_places(&self) -> Option<RecordPlaces> {
        None
    }

    /// Drops entries before `lsn`, which a snapshot must cover.
    fn truncate_before(&self, lsn: Lsn) -> io::Result<()>;

    /// Frees space on a full disk: replaces the last entries, none of which adds, by one entry that `summarize` builds
    /// from them. Returns false if that gains nothing. No append may run concurrently.
    fn fold(&self, summarize: &mut dyn FnMut(&[Vec<u8>]) -> Vec<u8>) -> Result<bool, AppendError> {
        let _ = summarize;
        Ok(false)
    }

    /// True while the disk has no space for entries that add.
    fn is_full(&self) -> bool {
        false
    }

    /// Bytes of the log's files.
    fn disk_bytes(&self) -> u64;
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn the_cause_of_a_failed_write_is_the_error_of_the_system() {
        let failed = AppendError::Unknown(LogFailure::of(&io::Error::from_raw_os_error(5)));
        let cause = failed.cause();
        let cause = cause.downcast_ref::<io::Error>().expect("the cause is an I/O error");
        assert_eq!((cause.raw_os_error(), cause.to_string()), (Some(5), failed.to_string()));
        assert_eq!(
            failed.source().expect("an unknown outcome has a source").to_string(),
            failed.to_string()
        );
        let silent = AppendError::Unavailable(LogFailure::Unresponsive);
        assert_eq!(silent.cause().to_string(), "the disk does not answer");
        assert!(AppendError::Full.source().is_none());
    }
}
