// SPDX-License-Identifier: Apache-2.0
//! Spilled messages: where their records are on disk, and how they are read back.
//!
//! A spilled record stays where the journal wrote it. A record is spilled only once it is synced, because a failed
//! sync may lose it. A snapshot copies spilled records (`snapshot`), so that old files can be removed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use oxbus_model::options::Durability;
use oxbus_model::{Counter, Effect, Error, ErrorKind, Result, SharedError};
use oxbus_store::extent::ExtentLocation;
use oxbus_store::{CoalescingReader, Record, StoredRecord, Wait};

use super::journal::{EventReader, JournalEvent, PendingEntry, RecordChange};
use super::{CallKind, Cell, CellState, FaultReason, PartitionFault, Shard};
use crate::memory::SPILL_BYTES_MIN;

/// The offset of `part` in `entry`.
pub(crate) fn offset_in(entry: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr() - entry.as_ptr().addr()
}

/// Locations of the messages that an entry adds to an entity or to its dead-letter queue, in order.
pub(crate) fn record_locations(entry: &[u8], location: &ExtentLocation) -> Vec<ExtentLocation> {
    let at = |bytes: &[u8]| location.plus(offset_in(entry, bytes));
    let mut record_locations = Vec::new();
    for (_, event) in EventReader::of(entry).flatten() {
        match event {
            JournalEvent::Append { messages, .. } => {
                record_locations.extend(messages.iter().map(|message| at(message.bytes)));
            }
            JournalEvent::Schedule { bytes, .. }
            | JournalEvent::Activate { bytes, .. }
            | JournalEvent::FanOut { bytes, .. } => {
                record_locations.push(at(bytes));
            }
            JournalEvent::DeadLetter {
                record: RecordChange::Whole(record),
                ..
            } => record_locations.push(at(record)),
            _ => {}
        }
    }
    record_locations
}

impl Shard {
    /// The error of a message that could not be read back. Takes the shard out of service.
    #[cold]
    pub(super) fn unreadable(&self, error: io::Error) -> Error {
        let id = self.id();
        let reason = format!("a message could not be read back: {error}");
        // A retry does not make invalid data valid.
        let fault = match error.kind() {
            io::ErrorKind::InvalidData => PartitionFault::Damaged,
            _ => PartitionFault::Failed,
        };
        let source: SharedError = Arc::new(error);
        self.health
            .fail(fault, FaultReason::of(reason.clone(), Some(Arc::clone(&source))));
        let detail = format!("{reason}; check the disk, then open the namespace again or salvage it: partition={id}");
        Error::new(ErrorKind::PartitionUnavailable, detail)
            .with_effect(Effect::None)
            .with_shared_source(Some(source))
    }
}

/// A dead letter that is spilled once its entry is synced.
#[derive(Debug)]
pub(crate) struct UnspilledDeadLetter {
    counter: Counter,
    record: Record,
    pending: PendingEntry,
    location: ExtentLocation,
}

impl UnspilledDeadLetter {
    /// The dead letter to spill; `None` if it stays in memory.
    pub(crate) fn of(
        shard: &Shard,
        counter: Counter,
        record: &StoredRecord,
        entry: &[u8],
        pending: &PendingEntry,
    ) -> Option<Self> {
        let record = record.in_memory()?;
        if record.len() < SPILL_BYTES_MIN || !shard.memory.is_under_pressure() {
            return None;
        }
        Some(Self {
            counter,
            record: record.clone(),
            pending: pending.clone(),
            location: record_locations(entry, pending.location.as_ref()?).pop()?,
        })
    }
}

impl CellState {
    /// Spills synced dead letters. Returns true if others remain. A dead letter stays in memory if its record has
    /// changed since.
    fn spill_dead_letters(&mut self) -> bool {
        let synced = self.unspilled.extract_if(.., |unspilled| unspilled.pending.is_synced());
        for UnspilledDeadLetter {
            counter,
            record,
            location,
            ..
        } in synced
        {
            self.dead_letters.spill(counter, &record, location);
        }
        !self.unspilled.is_empty()
    }
}

impl Shard {
    /// Spills dead letters that are synced by now, without waiting.
    pub fn spill_dead_letters(&self) {
        if !self.has_unspilled.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut more = false;
        for state in self.lock_cells().iter_mut().flatten() {
            more |= state.spill_dead_letters();
        }
        if more {
            self.has_unspilled.store(true, Ordering::Release);
        }
    }

    /// True while dead letters are to be spilled.
    pub(crate) fn has_unspilled(&self) -> bool {
        self.has_unspilled.load(Ordering::Acquire)
    }

    /// Spills the dead letters of a call before it returns, so that calls cannot fill the memory. Waits for the sync
    /// of the last one. If that fails, they stay in memory and the shard is out of service.
    pub(crate) fn spill_dead_letters_after(&self, last: &PendingEntry, wait: &Wait<'_>) {
        if self.has_unspilled() {
            let _ = self.wait_until(last, Durability::Fsync, CallKind::Change, wait);
            self.spill_dead_letters();
        }
    }

    /// Keeps dead letters in memory after their log was replaced.
    pub(super) fn keep_dead_letters_in_memory(&self) {
        for state in self.lock_cells().iter_mut().flatten() {
            state.unspilled.clear();
        }
    }
}

impl Cell {
    /// The record of a message, in memory or read from disk.
    #[inline]
    pub fn load(&self, stored: &StoredRecord) -> Result<Record> {
        match stored.in_memory() {
            Some(record) => Ok(record.clone()),
            None => stored.load().map_err(|error| self.shard.unreadable(error)),
        }
    }

    /// Passes the records of messages to `show`, in order. Adjacent records are read together.
    pub fn load_each<'a>(
        &self,
        messages: impl Iterator<Item = &'a StoredRecord>,
        reader: &mut CoalescingReader,
        show: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        reader.read(messages, |error| self.shard.unreadable(error), show)
    }

    /// Loads the record of a message into memory.
    #[inline]
    pub fn load_in_place(&self, stored: &mut StoredRecord) -> Result<()> {
        if stored.in_memory().is_none() {
            *stored = self.load(stored)?.into();
        }
        Ok(())
    }
}
