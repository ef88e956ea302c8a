// SPDX-License-Identifier: Apache-2.0
//! The places of records in a snapshot that keeps them apart from its events, so that an open reads only these.
//!
//! Records that follow each other in a file do so in the snapshot, too, with the few bytes between them. So the snapshot
//! can share many records with that file at once.

use crate::StoredRecord;
use crate::extent::CHECKSUM_BYTES;

/// Shorter records in memory stay among the events: a place takes about as many bytes.
const APART_BYTES_MIN: usize = 24;
/// Records with more bytes between them do not count as following each other.
const GAP_BYTES_MAX: u64 = 64;

/// A record and its place in the file of a snapshot.
#[derive(Debug)]
pub struct PlacedRecord {
    /// The record.
    pub record: StoredRecord,
    /// Where it begins in the file.
    pub position: u64,
    /// The number of a file that has its bytes and their checksum, and where they begin in it.
    pub(crate) shared: Option<(u64, u64)>,
}

impl PlacedRecord {
    /// Bytes of the record and its checksum.
    pub(crate) fn bytes(&self) -> u64 {
        (self.record.len() + CHECKSUM_BYTES) as u64
    }
}

/// Assigns places in the file of a snapshot.
#[derive(Debug)]
pub struct RecordPlaces {
    /// The end of the last record.
    end: u64,
    /// The file that has the last record, by its number, and the end of the record there.
    shared: Option<(u64, u64)>,
    /// True if records in memory are written, whether or not a file has them.
    writes_memory: bool,
}

impl RecordPlaces {
    /// Places from `position` on.
    pub fn starting_at(position: u64) -> Self {
        Self {
            end: position,
            shared: None,
            writes_memory: false,
        }
    }

    /// Places for a snapshot that replaces files which may be damaged: records in memory are written.
    #[must_use]
    pub fn writing_memory(self) -> Self {
        Self {
            writes_memory: true,
            ..self
        }
    }

    /// The place of the next record, or `None` if the record belongs among the events.
    pub fn assign(&mut self, record: &StoredRecord) -> Option<PlacedRecord> {
        let is_in_memory = record.in_memory().is_some();
        if is_in_memory && record.len() < APART_BYTES_MIN {
            return None;
        }
        let is_written = self.writes_memory && is_in_memory;
        let shared = if is_written { None } else { record.shared_place() };
        let gap = match (self.shared, shared) {
            (Some((file, end)), Some((of, from))) if of == file => from.checked_sub(end),
            _ => None,
        };
        let placed = PlacedRecord {
            record: record.clone(),
            position: self.end + gap.filter(|gap| *gap <= GAP_BYTES_MAX).unwrap_or(0),
            shared,
        };
        self.end = placed.position + placed.bytes();
        self.shared = shared.map(|(of, from)| (of, from + placed.bytes()));
        Some(placed)
    }
}
