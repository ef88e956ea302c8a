// SPDX-License-Identifier: Apache-2.0
//! The durable log of one shard: what every engine behind it does.
//!
//! A log is a row of entries, each numbered by its [`Lsn`]. An entry is opaque bytes and stands or falls as a whole.
//! Nothing here assumes that an append is fast or local: it completes later, by a callback, and what it completed as
//! is final. Who owns the log writes under an epoch; an owner with a newer epoch shuts the older one out.
//!
//! Holds always
//! - an entry is in the log completely or not at all;
//! - entries are in the log in the order of their numbers, without gaps;
//! - an append that completed as [`AppendError::Unknown`] is decided at the next open, once.

use std::fmt;
use std::io;
use std::sync::Arc;

use oxbus_model::SharedError;

use crate::extent::ExtentLocation;
use crate::{StoredRecord, Wait};

/// Number of an entry of one log; the first is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Before the first entry.
    pub const NONE: Self = Self(0);

    /// The entry after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// How safe an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It survives the end of the process: the operating system has it.
    Written,
    /// It survives the loss of power: the disk has it.
    Synced,
}

/// What an entry does to the room that the log needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceClass {
    /// It adds to what must be kept: refused while the disk is full.
    Adds,
    /// It frees something, or is too small to count: may use the reserve.
    Frees,
}

/// Why an entry is not in the log, or may not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendError {
    /// Another owner opened the log with a newer epoch. This handle is of no more use.
    Fenced {
        /// Epoch of the new owner.
        epoch: u64,
    },
    /// The entry was meant for another number. Nothing was written.
    Conflict {
        /// The number that the next entry gets.
        next: Lsn,
    },
    /// The disk is full. Nothing was written; entries that free room still work.
    Full,
    /// The caller left before the log had room for the entry. Nothing was written.
    TimedOut,
    /// The log is out of service. Nothing was written.
    Unavailable(LogFailure),
    /// Nobody knows: the entry is in the log or not, which the next open finds out.
    Unknown(LogFailure),
}

/// Why a log is out of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFailure {
    /// A write or a sync failed. What the disk holds is known only after a new open.
    Io {
        /// The system's number of the error, where it gave one.
        errno: Option<i32>,
    },
    /// The disk did not answer before a caller left.
    Unresponsive,
    /// The log was closed.
    Closed,
    /// A call panicked while it changed the log.
    Panicked,
}

impl LogFailure {
    pub(crate) fn of(error: &io::Error) -> Self {
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
    /// What to tell as the cause of an error: that of the system, or the error itself.
    pub fn cause(&self) -> SharedError {
        match self {
            Self::Unavailable(LogFailure::Io { errno: Some(errno) })
            | Self::Unknown(LogFailure::Io { errno: Some(errno) }) => Arc::new(io::Error::from_raw_os_error(*errno)),
            error => Arc::new(error.clone()),
        }
    }
}

/// How an append ended.
pub type AppendOutcome = Result<Lsn, AppendError>;

/// Called once, when the entry has reached its level or never will. It must not wait for this log.
pub type LevelCallback = Box<dyn FnOnce(AppendOutcome) + Send>;

/// A part of a snapshot.
#[derive(Debug, Default)]
pub struct Chunk {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Messages that are in it, each followed by its check, and where in `bytes`. Those on disk are read from the snapshot
    /// once that is safe, so that it is no longer asked for what it replaces.
    pub messages: Vec<(StoredRecord, usize)>,
}

impl From<Vec<u8>> for Chunk {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            messages: Vec::new(),
        }
    }
}

/// The parts of a snapshot, in order. An error ends the snapshot, which is then not kept.
pub type Chunks<'a> = &'a mut dyn Iterator<Item = io::Result<Chunk>>;

/// The durable log of one shard.
pub trait ShardLog: Send + Sync {
    /// The epoch under which this handle writes.
    fn epoch(&self) -> u64;

    /// The number that the next entry gets.
    fn next_lsn(&self) -> Lsn;

    /// Appends `entry` as number `expected`, and calls `done` when it has reached `level`, from whichever thread
    /// found out; without `done` the caller asks by [`ShardLog::commit`]. An error here means that nothing was
    /// written and that `done` is not called.
    ///
    /// Waits for room while the disk may hang; prefer [`ShardLog::make_room`], which holds nothing others need.
    ///
    /// Returns where the entry's bytes can be read back once it has reached [`Level::Written`], if they can.
    fn append(
        &self,
        expected: Lsn,
        entry: &[u8],
        space: SpaceClass,
        level: Level,
        done: Option<LevelCallback>,
        wait: &Wait<'_>,
    ) -> Result<Option<ExtentLocation>, AppendError>;

    /// True when [`ShardLog::append`] takes so many bytes without a wait for a disk that may hang.
    fn has_room(&self, bytes: usize, space: SpaceClass) -> bool {
        let _ = (bytes, space);
        true
    }

    /// Waits until that is so, for a caller that holds nothing others need; an error when it leaves.
    fn make_room(&self, bytes: usize, space: SpaceClass, wait: &Wait<'_>) -> Result<(), AppendError> {
        let _ = (bytes, space, wait);
        Ok(())
    }

    /// Waits until all entries up to `lsn` have reached `level`, and does the work if nobody else is at it.
    fn commit(&self, lsn: Lsn, level: Level, wait: &Wait<'_>) -> Result<(), AppendError>;

    /// Has somebody begin to sync what was appended, for a caller that is going to wait for several logs. A hint: who needs
    /// an entry synced asks by [`ShardLog::commit`] all the same.
    fn commit_soon(&self) {}

    /// The last entry that has reached `level`.
    fn reached(&self, level: Level) -> Lsn;

    /// Shows the entries from `from` to the last written one, in order, until `visit` says false.
    fn read(&self, from: Lsn, visit: &mut dyn FnMut(Lsn, &[u8]) -> bool) -> io::Result<()>;

    /// Keeps the state after all entries up to `at` as a snapshot, in place of older ones; those entries are synced first.
    fn put_snapshot(&self, at: Lsn, chunks: Chunks<'_>) -> io::Result<()>;

    /// Lets go of entries before `lsn`; a snapshot must cover them.
    fn truncate_before(&self, lsn: Lsn) -> io::Result<()>;

    /// Makes room on a full disk: replaces the last entries, none of which adds, by the one that `summarize` makes of them.
    /// False when that gains nothing. Nobody may append meanwhile.
    fn fold(&self, summarize: &mut dyn FnMut(&[Vec<u8>]) -> Vec<u8>) -> Result<bool, AppendError> {
        let _ = summarize;
        Ok(false)
    }

    /// True while the disk has no room for entries that add.
    fn is_full(&self) -> bool {
        false
    }

    /// Bytes on disk.
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
        let cause = cause.downcast_ref::<io::Error>().expect("it is the system's");
        assert_eq!((cause.raw_os_error(), cause.to_string()), (Some(5), failed.to_string()));
        assert_eq!(failed.source().expect("it has one").to_string(), failed.to_string());
        let silent = AppendError::Unavailable(LogFailure::Unresponsive);
        assert_eq!(silent.cause().to_string(), "the disk does not answer");
        assert!(AppendError::Full.source().is_none());
    }
}
