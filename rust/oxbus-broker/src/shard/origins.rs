// SPDX-License-Identifier: Apache-2.0
//! Origins of messages that were forwarded from other shards. They prevent duplicates.
//!
//! Forwarding to another shard takes three steps: store the message here with its origin, remove it at the source,
//! forget the origin here. A retry that finds the origin here continues with the second step.

use std::collections::BTreeSet;

use super::Cell;
use super::guarded::StateGuard;
use super::journal::Origin;

impl Cell {
    fn lock_origins(&self) -> StateGuard<'_, BTreeSet<Origin>> {
        self.origins.lock(&self.shard.health)
    }

    /// Origins of messages that may still be at their source.
    pub fn origins(&self) -> Vec<Origin> {
        self.lock_origins().iter().copied().collect()
    }

    /// True if the message of an origin is here.
    pub fn has_arrived(&self, origin: &Origin) -> bool {
        self.lock_origins().contains(origin)
    }

    /// Adds origins. If `forget` is true, removes them: their messages have left the source, or did not arrive.
    pub(crate) fn note_origins(&self, forget: bool, origins: &[Origin]) {
        if forget {
            self.lock_origins().retain(|origin| !origins.contains(origin));
        } else {
            self.lock_origins().extend(origins);
        }
    }
}
