// SPDX-License-Identifier: Apache-2.0
//! The latest intents of the sinks whose home is this shard.
//!
//! The holder of a sink's commit slot replaces its intent as a whole, in the journal and here. A snapshot never sees
//! one without the other.

use std::collections::BTreeMap;

use oxbus_model::Timestamp;
use oxbus_model::caps::SINK_RETENTION_MS;

use super::Shard;
use super::guarded::StateGuard;
use super::journal::Intent;

impl Shard {
    fn sinks(&self) -> StateGuard<'_, BTreeMap<String, Intent>> {
        self.sinks.lock(&self.health)
    }

    /// The latest intent of a sink.
    pub fn intent(&self, sink: &str) -> Option<Intent> {
        self.sinks().get(sink).cloned()
    }

    /// The latest intents of all sinks.
    pub fn intents(&self) -> Vec<(String, Intent)> {
        let sinks = self.sinks();
        sinks
            .iter()
            .map(|(sink, intent)| (sink.clone(), intent.clone()))
            .collect()
    }

    /// When the oldest unpublished batch was decided.
    pub(crate) fn unpublished_since(&self) -> Option<Timestamp> {
        let sinks = self.sinks();
        let undone = sinks.values().filter(|intent| !intent.is_done);
        undone.map(|intent| intent.at).min()
    }

    /// Restores the intents from the journal.
    pub(crate) fn restore_intents(&self, sinks: BTreeMap<String, Intent>) {
        *self.sinks() = sinks;
    }

    /// Forgets sinks whose latest batch was published more than `SINK_RETENTION_MS` ago.
    pub(crate) fn forget_sinks(&self, now: Timestamp) {
        self.sinks()
            .retain(|_, intent| !intent.is_done || intent.at.plus_ms(SINK_RETENTION_MS) > now);
    }

    /// Replaces the intent of a sink.
    pub(crate) fn set_intent(&self, sink: &str, intent: Intent) {
        self.sinks().insert(sink.to_owned(), intent);
    }
}
