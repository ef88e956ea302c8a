// SPDX-License-Identifier: Apache-2.0
//! Scheduled messages of a cell by due time (B-232 … B-238).

use std::collections::BTreeSet;

use oxbus_model::{Counter, Timestamp};

/// Due times, earliest first; messages due at the same time keep the order in which they were scheduled.
#[derive(Debug, Default)]
pub struct Schedule(BTreeSet<(Timestamp, Counter)>);

impl Schedule {
    /// Adds a message that becomes active at `due`.
    pub fn add(&mut self, due: Timestamp, counter: Counter) {
        self.0.insert((due, counter));
    }

    /// Removes a message. Returns false if it was not there.
    pub fn remove(&mut self, due: Timestamp, counter: Counter) -> bool {
        self.0.remove(&(due, counter))
    }

    /// Number of scheduled messages.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The earliest due time; [`Timestamp::NEVER`] if nothing is scheduled.
    pub fn next_due(&self) -> Timestamp {
        self.0.first().map_or(Timestamp::NEVER, |&(due, _)| due)
    }

    /// Removes and returns the earliest due message and its due time.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, Counter)> {
        self.0.first().filter(|(due, _)| *due <= now)?;
        self.0.pop_first()
    }
}
