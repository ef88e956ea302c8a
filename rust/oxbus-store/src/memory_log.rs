// SPDX-License-Identifier: Apache-2.0
//! A log in memory for tests: a [`MemoryStorage`] survives while its [`MemoryLog`] handles are opened and dropped.
//!
//! It can behave like a remote engine: an append may complete late, conflict with another owner's entry, or end with
//! an unknown outcome. Tests choose the behavior with [`MemoryStorage::inject`].

use crate::Wait;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use oxbus_model::sync::ignore_poison;

use crate::extent::ExtentLocation;
use crate::shard_log::{
    AppendError, AppendOutcome, Chunks, Level, LevelCallback, LogFailure, Lsn, ShardLog, SpaceClass,
};

/// A fault of the next append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendFault {
    /// This append and all later ones stay in flight until [`MemoryStorage::release`].
    Delay,
    /// Another owner's entry takes the number of this append.
    Conflict,
    /// The outcome of this append is unknown, and the handle accepts no more appends.
    Unknown {
        /// True if the entry is in the log.
        stored: bool,
    },
}

struct InFlightEntry {
    lsn: Lsn,
    epoch: u64,
    entry: Vec<u8>,
    done: Option<LevelCallback>,
}

#[derive(Default)]
struct MemoryLogState {
    epoch: u64,
    /// The number of dropped entries: `truncated + 1` is the first entry.
    truncated: u64,
    entries: VecDeque<Vec<u8>>,
    snapshot: Option<(Lsn, Vec<u8>)>,
    faults: VecDeque<AppendFault>,
    in_flight: VecDeque<InFlightEntry>,
    delayed: bool,
    /// The epoch of the handle whose append has an unknown outcome.
    failed_epoch: Option<u64>,
}

impl MemoryLogState {
    fn last(&self) -> Lsn {
        Lsn(self.truncated + self.entries.len() as u64)
    }

    fn append_error(&self, epoch: u64) -> Option<AppendError> {
        if self.epoch != epoch {
            return Some(AppendError::Fenced { epoch: self.epoch });
        }
        (self.failed_epoch == Some(epoch)).then_some(AppendError::Unavailable(LogFailure::Io { errno: None }))
    }
}

/// The stored log. It stays consistent after a panic, because an entry is either present or absent.
#[derive(Clone, Default)]
pub struct MemoryStorage(Arc<(Mutex<MemoryLogState>, Condvar)>);

/// The log of one owner.
pub struct MemoryLog {
    storage: MemoryStorage,
    epoch: u64,
}

impl MemoryStorage {
    /// Creates an empty log.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, MemoryLogState> {
        ignore_poison(self.0.0.lock())
    }

    /// Opens the log under a new epoch and fences older handles.
    pub fn open(&self) -> MemoryLog {
        let mut state = self.state();
        state.epoch += 1;
        // Appends of an older owner that are in flight never complete.
        let abandoned = std::mem::take(&mut state.in_flight);
        state.delayed = false;
        let epoch = state.epoch;
        drop(state);
        self.0.1.notify_all();
        for it in abandoned {
            if let Some(done) = it.done {
                done(Err(AppendError::Fenced { epoch }));
            }
        }
        MemoryLog {
            storage: self.clone(),
            epoch,
        }
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Option<(Lsn, Vec<u8>)> {
        self.state().snapshot.clone()
    }

    /// Queues a fault. Each append takes one fault from the queue.
    pub fn inject(&self, fault: AppendFault) {
        self.state().faults.push_back(fault);
    }

    /// Completes all appends in flight, in order.
    pub fn release(&self) {
        let mut state = self.state();
        state.delayed = false;
        let arrived = std::mem::take(&mut state.in_flight);
        let mut ended: Vec<(Option<LevelCallback>, AppendOutcome)> = Vec::new();
        for it in arrived {
            debug_assert!(it.epoch == state.epoch, "an open drops the appends of older owners");
            state.entries.push_back(it.entry);
            ended.push((it.done, Ok(it.lsn)));
        }
        drop(state);
        self.0.1.notify_all();
        for (done, result) in ended {
            if let Some(done) = done {
                done(result);
            }
        }
    }
}

impl ShardLog for MemoryLog {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn next_lsn(&self) -> Lsn {
        let state = self.storage.state();
        Lsn(state.last().0 + state.in_flight.len() as u64).next()
    }

    fn append(
        &self,
        expected: Lsn,
        entry: &[u8],
        _space: SpaceClass,
        _level: Level,
        done: Option<LevelCallback>,
        _: &Wait<'_>,
    ) -> Result<Option<ExtentLocation>, AppendError> {
        let mut state = self.storage.state();
        if let Some(append_error) = state.append_error(self.epoch) {
            return Err(append_error);
        }
        let next = Lsn(state.last().0 + state.in_flight.len() as u64).next();
        if next != expected {
            return Err(AppendError::Conflict { next });
        }
        let result = match state.faults.pop_front() {
            Some(AppendFault::Conflict) => {
                state.entries.push_back(b"another owner's".to_vec());
                return Err(AppendError::Conflict { next: next.next() });
            }
            Some(AppendFault::Unknown { stored }) => {
                if stored {
                    state.entries.push_back(entry.to_vec());
                }
                state.failed_epoch = Some(self.epoch);
                Err(AppendError::Unknown(LogFailure::Io { errno: None }))
            }
            fault => {
                state.delayed |= fault == Some(AppendFault::Delay);
                if state.delayed {
                    state.in_flight.push_back(InFlightEntry {
                        lsn: expected,
                        epoch: self.epoch,
                        entry: entry.to_vec(),
                        done,
                    });
                    return Ok(None);
                }
                state.entries.push_back(entry.to_vec());
                Ok(expected)
            }
        };
        drop(state);
        self.storage.0.1.notify_all();
        if let Some(done) = done {
            done(result);
        }
        Ok(None)
    }

    fn commit(&self, lsn: Lsn, _level: Level, _: &Wait<'_>) -> Result<(), AppendError> {
        let mut state = self.storage.state();
        loop {
            if state.epoch != self.epoch {
                return Err(AppendError::Fenced { epoch: state.epoch });
            }
            if state.failed_epoch == Some(self.epoch) {
                return Err(AppendError::Unknown(LogFailure::Io { errno: None }));
            }
            if state.last() >= lsn || state.in_flight.is_empty() {
                return Ok(());
            }
            state = ignore_poison(self.storage.0.1.wait(state));
        }
    }

    fn reached(&self, _level: Level) -> Lsn {
        self.storage.state().last()
    }

    fn read(&self, from: Lsn, visit: &mut dyn FnMut(Lsn, &[u8]) -> bool) -> io::Result<()> {
        // The entries are copied first, because `visit` may use the log.
        let (first, entries) = {
            let state = self.storage.state();
            let first = from.0.max(state.truncated + 1);
            let skipped = (first - state.truncated - 1) as usize;
            (first, state.entries.iter().skip(skipped).cloned().collect::<Vec<_>>())
        };
        if first > from.0.max(1) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the entries were dropped"));
        }
        for (lsn, entry) in (first..).zip(entries) {
            if !visit(Lsn(lsn), &entry) {
                break;
            }
        }
        Ok(())
    }

    fn put_snapshot(&self, at: Lsn, chunks: Chunks<'_>) -> io::Result<u64> {
        let mut bytes = Vec::new();
        for chunk in chunks {
            bytes.extend(chunk?.bytes);
        }
        let written = bytes.len() as u64;
        self.storage.state().snapshot = Some((at, bytes));
        Ok(written)
    }

    fn truncate_before(&self, lsn: Lsn) -> io::Result<()> {
        let mut state = self.storage.state();
        while state.truncated + 1 < lsn.0 && state.entries.pop_front().is_some() {
            state.truncated += 1;
        }
        Ok(())
    }

    fn disk_bytes(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(log: &MemoryLog, entry: &[u8]) -> Result<(), AppendError> {
        let lsn = log.next_lsn();
        log.append(lsn, entry, SpaceClass::Adds, Level::Synced, None, &Wait::FOREVER)?;
        log.commit(lsn, Level::Synced, &Wait::FOREVER)
    }

    fn entries(log: &MemoryLog) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        log.read(Lsn(1), &mut |_, entry| {
            found.push(entry.to_vec());
            true
        })
        .expect("all there");
        found
    }

    #[test]
    fn a_newer_owner_fences_the_older_one() {
        let storage = MemoryStorage::new();
        let older = storage.open();
        append(&older, b"one").expect("appended");
        let newer = storage.open();
        assert_eq!(append(&older, b"two"), Err(AppendError::Fenced { epoch: 2 }));
        append(&newer, b"three").expect("appended");
        assert_eq!(entries(&newer), [b"one".to_vec(), b"three".to_vec()]);
    }

    #[test]
    fn delayed_entries_arrive_in_order() {
        let storage = MemoryStorage::new();
        let log = storage.open();
        storage.inject(AppendFault::Delay);
        let arrived = Arc::new(Mutex::new(Vec::new()));
        for number in 1..=3u64 {
            let seen = Arc::clone(&arrived);
            let done: LevelCallback = Box::new(move |result| seen.lock().expect("unpoisoned").push(result));
            log.append(
                Lsn(number),
                b"x",
                SpaceClass::Adds,
                Level::Synced,
                Some(done),
                &Wait::FOREVER,
            )
            .expect("appended");
        }
        assert_eq!(log.reached(Level::Written), Lsn::NONE);
        storage.release();
        assert_eq!(*arrived.lock().expect("unpoisoned"), [1, 2, 3].map(|lsn| Ok(Lsn(lsn))));
        log.commit(Lsn(3), Level::Synced, &Wait::FOREVER).expect("it exists");
    }

    #[test]
    fn an_open_drops_appends_in_flight() {
        let storage = MemoryStorage::new();
        let log = storage.open();
        storage.inject(AppendFault::Delay);
        log.append(Lsn(1), b"x", SpaceClass::Adds, Level::Synced, None, &Wait::FOREVER)
            .expect("appended");
        let newer = storage.open();
        assert_eq!(newer.next_lsn(), Lsn(1));
        assert_eq!(
            log.commit(Lsn(1), Level::Synced, &Wait::FOREVER),
            Err(AppendError::Fenced { epoch: 2 })
        );
    }

    #[test]
    fn the_next_open_decides_an_unknown_append() {
        for stored in [false, true] {
            let storage = MemoryStorage::new();
            let log = storage.open();
            storage.inject(AppendFault::Unknown { stored });
            assert!(matches!(append(&log, b"x"), Err(AppendError::Unknown(_))));
            assert!(matches!(append(&log, b"y"), Err(AppendError::Unavailable(_))));
            assert_eq!(entries(&storage.open()).len(), usize::from(stored));
        }
    }

    #[test]
    fn a_conflict_names_the_next_number() {
        let storage = MemoryStorage::new();
        let log = storage.open();
        storage.inject(AppendFault::Conflict);
        assert_eq!(append(&log, b"x"), Err(AppendError::Conflict { next: Lsn(2) }));
        append(&log, b"x").expect("appended");
    }
}
