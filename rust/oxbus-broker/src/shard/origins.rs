// SPDX-License-Identifier: Apache-2.0
//! Messages that came from other shards: told apart from those that did not, so that none comes twice.
//!
//! A message is forwarded to another shard in three steps: it is stored here with its origin, it is removed there, the origin
//! is forgotten here. Who finds a message there whose origin is known here goes on with the second step.

use std::collections::BTreeSet;

use super::Cell;
use super::guarded::StateGuard;
use super::journal::Origin;

impl Cell {
    fn lock_origins(&self) -> StateGuard<'_, BTreeSet<Origin>> {
        self.origins.lock(&self.shard.health)
    }

    /// The origins of messages that may be there still.
    pub fn origins(&self) -> Vec<Origin> {
        self.lock_origins().iter().copied().collect()
    }

    /// True when the message of an origin is here.
    pub fn has_arrived(&self, origin: &Origin) -> bool {
        self.lock_origins().contains(origin)
    }

    /// Notes origins, or forgets them: their messages have left there, or did not come.
    pub(crate) fn note_origins(&self, is_over: bool, origins: &[Origin]) {
        if is_over {
            self.lock_origins().retain(|origin| !origins.contains(origin));
        } else {
            self.lock_origins().extend(origins);
        }
    }
}
