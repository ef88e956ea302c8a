// SPDX-License-Identifier: Apache-2.0
//! The places of records in a snapshot that keeps them apart from its events, so that an open reads only these.
//!
//! Records that follow each other in a file do so in the snapshot, too, with the few bytes between them. So the snapshot
//! can share many records with that file at once.

use crate::StoredRecord;
use crate::extent::CHECKSUM_BYTES;

/// Shorter records stay among the events: a place takes about as many bytes.
const APART_BYTES_MIN: usize = 24;
/// Records with more bytes between them do not count as following each other.
const GAP_BYTES_MAX: u64 = 64;

/// Assigns places in the file of a snapshot.
#[derive(Debug)]
pub struct RecordPlaces {
    /// The end of the last record.
    end: u64,
    /// The file that has the last record now, by its number, and the end of the record there.
    shared: Option<(u64, u64)>,
}

impl RecordPlaces {
    /// Places from `position` on.
    pub fn starting_at(position: u64) -> Self {
        Self {
            end: position,
            shared: None,
        }
    }

    /// The position of the next record, or `None` if the record belongs among the events.
    pub fn assign(&mut self, record: &StoredRecord) -> Option<u64> {
        if record.len() < APART_BYTES_MIN {
            return None;
        }
        let bytes = (record.len() + CHECKSUM_BYTES) as u64;
        let place = record.shared_place();
        let gap = match (self.shared, place) {
            (Some((file, end)), Some((of, from))) if of == file => from.checked_sub(end),
            _ => None,
        };
        let position = self.end + gap.filter(|gap| *gap <= GAP_BYTES_MAX).unwrap_or(0);
        self.end = position + bytes;
        self.shared = place.map(|(of, from)| (of, from + bytes));
        Some(position)
    }
}
