// SPDX-License-Identifier: Apache-2.0
//! Messages that stay on disk: where they are, and reading them back.
//!
//! A message stays where the journal wrote it, once that is synced: what a failed sync loses must still be in memory.
//! A snapshot that holds it takes over (`snapshot`), so old files are let go of.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use oxbus_model::options::Durability;
use oxbus_model::{Counter, Effect, Error, ErrorKind, Result, Source};
use oxbus_store::extent::ExtentLocation;
use oxbus_store::{CoalescingReader, Record, StoredRecord, Wait};

use super::journal::{EventReader, JournalEvent, PendingEntry, RecordChange};
use super::{CallKind, Cell, CellState, FaultReason, PartitionFault, Shard};
use crate::memory::SPILL_BYTES_MIN;

/// Where in `entry` a part of it stands.
pub(crate) fn offset_in(entry: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr() - entry.as_ptr().addr()
}

/// Where the messages that an entry brings in, or into the dead-letter queue, stand, in order.
pub(crate) fn record_locations(entry: &[u8], location: &ExtentLocation) -> Vec<ExtentLocation> {
    let at = |bytes: &[u8]| location.plus(offset_in(entry, bytes));
    let mut record_locations = Vec::new();
    for (_, event) in EventReader::of(entry).flatten() {
        match event {
            JournalEvent::Append { messages, .. } => {
                record_locations.extend(messages.iter().map(|message| at(message.bytes)))
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
    /// The error of a message that could not be read back; the shard is out of service.
    #[cold]
    pub(super) fn unreadable(&self, error: io::Error) -> Error {
        let id = self.id();
        let reason = format!("a message could not be read back: {error}");
        // What was not written so will not become so by trying again.
        let fault = match error.kind() {
            io::ErrorKind::InvalidData => PartitionFault::Damaged,
            _ => PartitionFault::Failed,
        };
        let source: Source = Arc::new(error);
        self.health
            .fail(fault, FaultReason::of(reason.clone(), Some(Arc::clone(&source))));
        let detail = format!("{reason}; see to the disk, then open the namespace again or salvage it: partition={id}");
        Error::new(ErrorKind::PartitionUnavailable, detail)
            .with_effect(Effect::None)
            .with_shared_source(Some(source))
    }
}

/// A message that came into the dead-letter queue, and where its bytes stand in the journal: it leaves memory once they
/// are synced there.
#[derive(Debug)]
pub(crate) struct UnspilledDeadLetter {
    counter: Counter,
    record: Record,
    pending: PendingEntry,
    location: ExtentLocation,
}

impl UnspilledDeadLetter {
    /// `None` when it is to stay in memory.
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
    /// Takes messages out of memory that are synced; true when others wait for it. Who changed one meanwhile keeps it.
    fn spill_dead_letters(&mut self) -> bool {
        let synced = self.unspilled.extract_if(.., |unspilled| unspilled.pending.is_synced());
        for UnspilledDeadLetter {
            counter,
            record,
            location,
            ..
        } in synced
        {
            self.dead_letters.leave_on_disk(counter, &record, location);
        }
        !self.unspilled.is_empty()
    }
}

impl Shard {
    /// Takes messages of the dead-letter queues out of memory that are synced by now. Waits for nothing.
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

    /// True while messages of dead-letter queues are to leave memory.
    pub(crate) fn has_unspilled(&self) -> bool {
        self.has_unspilled.load(Ordering::Acquire)
    }

    /// Has messages that a call dead-lettered leave memory before the call ends, so that calls do not fill it: waits for
    /// the sync of the last one. They stay in memory when that fails, and the shard is out of service.
    pub(crate) fn spill_dead_letters_after(&self, last: &PendingEntry, wait: &Wait<'_>) {
        if self.has_unspilled() {
            let _ = self.wait_until(last, Durability::Fsync, CallKind::Change, wait);
            self.spill_dead_letters();
        }
    }

    /// Keeps them in memory: the log they were written to is no longer in use.
    pub(super) fn keep_dead_letters_in_memory(&self) {
        for state in self.lock_cells().iter_mut().flatten() {
            state.unspilled.clear();
        }
    }
}

impl Cell {
    /// The bytes of a message, wherever they are.
    #[inline]
    pub fn load(&self, stored: &StoredRecord) -> Result<Record> {
        match stored.in_memory() {
            Some(record) => Ok(record.clone()),
            None => stored.load().map_err(|error| self.shard.unreadable(error)),
        }
    }

    /// Shows the bytes of messages, in order: those that stand side by side on disk are read in one go.
    pub fn load_each<'a>(
        &self,
        messages: impl Iterator<Item = &'a StoredRecord>,
        reader: &mut CoalescingReader,
        show: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        reader.read(messages, |error| self.shard.unreadable(error), show)
    }

    /// Brings the bytes of a message into memory.
    #[inline]
    pub fn load_in_place(&self, stored: &mut StoredRecord) -> Result<()> {
        if stored.in_memory().is_none() {
            *stored = self.load(stored)?.into();
        }
        Ok(())
    }
}
