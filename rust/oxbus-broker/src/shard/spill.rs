// SPDX-License-Identifier: Apache-2.0
//! Messages that stay on disk: where they are, and reading them back.
//!
//! A message stays where the journal wrote it, once that is synced: what a failed sync loses must still be in memory.
//! A snapshot that holds it takes over (`snapshot`), so old files are let go of.

use std::io;

use oxbus_model::options::Durability;
use oxbus_model::{Counter, Error, ErrorKind, Result};
use oxbus_store::extent::Place;
use oxbus_store::{NewMessage, Record, Stored};

use super::journal::{Event, Events, Pending};
use super::{Cell, Fault, Shard};
use crate::memory::SPILL_BYTES_MIN;

/// Where in `entry` a part of it stands.
pub(crate) fn offset_in(entry: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr() - entry.as_ptr().addr()
}

/// Where the messages that an entry brings in, or into the dead-letter queue, stand, in order.
pub(super) fn places(entry: &[u8], place: &Place) -> Vec<Place> {
    let at = |bytes: &[u8]| place.plus(offset_in(entry, bytes));
    let mut places = Vec::new();
    for (_, event) in Events::of(entry).flatten() {
        match event {
            Event::Append { messages, .. } => places.extend(messages.iter().map(|message| at(message.bytes))),
            Event::Schedule { bytes, .. } | Event::Activate { bytes, .. } | Event::DeadLetter { bytes, .. } => {
                places.push(at(bytes));
            }
            _ => {}
        }
    }
    places
}

/// Leaves messages on disk.
pub(super) fn leave_on_disk<'m>(messages: impl Iterator<Item = &'m mut NewMessage>, places: Vec<Place>) {
    for (message, place) in messages.zip(places) {
        if message.record.len() >= SPILL_BYTES_MIN {
            message.record = Stored::on_disk(message.record.len(), place);
        }
    }
}

impl Shard {
    /// The error of a message that could not be read back; the shard is out of service.
    #[cold]
    pub(super) fn unreadable(&self, error: &io::Error) -> Error {
        let id = self.id();
        let reason = format!("a message could not be read back: {error}");
        // What was not written so will not become so by trying again.
        let fault = match error.kind() {
            io::ErrorKind::InvalidData => Fault::Damaged,
            _ => Fault::Failed,
        };
        self.health.fail(fault, reason.clone());
        let detail = format!("{reason}; see to the disk, then open the namespace again or salvage it: partition={id}");
        Error::new(ErrorKind::PartitionUnavailable, detail)
    }
}

/// A message that just came into the dead-letter queue, and where its bytes stand in the journal.
pub struct Buried {
    counter: Counter,
    record: Record,
    pending: Pending,
    place: Place,
}

impl Buried {
    /// `None` when it is to stay in memory.
    pub(super) fn of(shard: &Shard, counter: Counter, record: &Stored, entry: &[u8], pending: Pending) -> Option<Self> {
        let record = record.in_memory()?.clone();
        if !shard.memory.spills() || record.len() < SPILL_BYTES_MIN {
            return None;
        }
        let place = places(entry, pending.place.as_ref()?).pop()?;
        Some(Self {
            counter,
            record,
            pending,
            place,
        })
    }
}

impl Cell {
    /// Leaves messages of the dead-letter queue on disk, once they are synced there. Who changed one meanwhile keeps it.
    pub fn leave_buried(&self, buried: Vec<Buried>) -> Result<()> {
        if buried.is_empty() {
            return Ok(());
        }
        for Buried { pending, .. } in &buried {
            self.shard.wait_until(pending, Durability::Fsync)?;
        }
        self.shard.with(self.no, |state| {
            for Buried {
                counter, record, place, ..
            } in buried
            {
                state.dead_letters.leave_on_disk(counter, &record, place);
            }
        });
        Ok(())
    }

    /// The bytes of a message, wherever they are.
    #[inline]
    pub fn load(&self, stored: &Stored) -> Result<Record> {
        match stored.in_memory() {
            Some(record) => Ok(record.clone()),
            None => stored.load().map_err(|error| self.shard.unreadable(&error)),
        }
    }

    /// Brings the bytes of a message into memory.
    #[inline]
    pub fn load_in_place(&self, stored: &mut Stored) -> Result<()> {
        if stored.in_memory().is_none() {
            *stored = self.load(stored)?.into();
        }
        Ok(())
    }
}
