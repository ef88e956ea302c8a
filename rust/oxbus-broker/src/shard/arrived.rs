// SPDX-License-Identifier: Apache-2.0
//! Messages that came from other shards: told apart from those that did not, so that none comes twice.
//!
//! A message is forwarded to another shard in three steps: it is stored here with its origin, it is removed there, the origin
//! is forgotten here. Who finds a message there whose origin is known here goes on with the second step.

use std::collections::BTreeSet;
use std::sync::{MutexGuard, PoisonError};

use super::journal::{Event, Origin};
use super::{Cell, Deed};

impl Cell {
    fn origins(&self) -> MutexGuard<'_, BTreeSet<Origin>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The origins of messages that may be there still.
    pub fn arrived(&self) -> Vec<Origin> {
        self.origins().iter().copied().collect()
    }

    /// True when the message of an origin is here.
    pub fn has_arrived(&self, origin: &Origin) -> bool {
        self.origins().contains(origin)
    }

    /// Notes origins; the event says so to the journal, in the entry of their messages. In memory nothing is noted.
    pub(crate) fn note_arrival(&self, origins: Vec<Origin>) -> Vec<u8> {
        let mut events = Vec::new();
        if self.shard.journal().is_some() && !origins.is_empty() {
            self.origins().extend(&origins);
            let is_over = false;
            Event::Arrived { is_over, origins }.encode(self.entity, &mut events);
        }
        events
    }

    /// Forgets origins: their messages are gone there, or they did not come.
    pub(crate) fn forget_arrival(&self, forgotten: Vec<Origin>) {
        if self.shard.journal().is_none() || forgotten.is_empty() {
            return;
        }
        self.origins().retain(|origin| !forgotten.contains(origin));
        // Not waited for: until it is written, an origin is known for which there is nothing.
        let (is_over, origins) = (true, forgotten);
        let _ = self.note(Deed::Change, || Event::Arrived { is_over, origins });
    }
}
