// SPDX-License-Identifier: Apache-2.0
//! Messages that came from other shards: told apart from those that did not, so that none comes twice.
//!
//! A message is forwarded to another shard in three steps: it is stored here with its origin, it is removed there, the origin
//! is forgotten here. Who finds a message there whose origin is known here goes on with the second step.

use std::collections::BTreeSet;

use super::Cell;
use super::guarded::Guard;
use super::journal::Origin;

impl Cell {
    fn origins(&self) -> Guard<'_, BTreeSet<Origin>> {
        self.arrived.lock(&self.shard.health)
    }

    /// The origins of messages that may be there still.
    pub fn arrived(&self) -> Vec<Origin> {
        self.origins().iter().copied().collect()
    }

    /// True when the message of an origin is here.
    pub fn has_arrived(&self, origin: &Origin) -> bool {
        self.origins().contains(origin)
    }

    /// Notes origins, or forgets them: their messages have left there, or did not come.
    pub(crate) fn note_origins(&self, is_over: bool, origins: &[Origin]) {
        if is_over {
            self.origins().retain(|origin| !origins.contains(origin));
        } else {
            self.origins().extend(origins);
        }
    }
}
