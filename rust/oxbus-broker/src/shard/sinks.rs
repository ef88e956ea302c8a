// SPDX-License-Identifier: Apache-2.0
//! What the sinks of staged sends committed last, for those that are at home in this shard.
//!
//! A sink's latest intent is replaced as a whole, in the journal and here, by whoever has the turn of that sink. A snapshot
//! does not look in between.

use std::collections::BTreeMap;

use oxbus_model::Timestamp;
use oxbus_model::caps::SINK_MS;

use super::Shard;
use super::guarded::StateGuard;
use super::journal::Intent;

impl Shard {
    fn sinks(&self) -> StateGuard<'_, BTreeMap<String, Intent>> {
        self.sinks.lock(&self.health)
    }

    /// What a sink committed last.
    pub fn intent(&self, sink: &str) -> Option<Intent> {
        self.sinks().get(sink).cloned()
    }

    /// What all sinks committed last.
    pub fn intents(&self) -> Vec<(String, Intent)> {
        let sinks = self.sinks();
        sinks
            .iter()
            .map(|(sink, intent)| (sink.clone(), intent.clone()))
            .collect()
    }

    /// When the oldest commit was decided that is not published yet.
    pub(crate) fn unpublished_since(&self) -> Option<Timestamp> {
        let sinks = self.sinks();
        let undone = sinks.values().filter(|intent| !intent.is_done);
        undone.map(|intent| intent.at).min()
    }

    /// Takes over what the journal tells.
    pub(crate) fn restore_intents(&self, sinks: BTreeMap<String, Intent>) {
        *self.sinks() = sinks;
    }

    /// Forgets sinks that have not committed for long.
    pub(crate) fn forget_sinks(&self, now: Timestamp) {
        self.sinks()
            .retain(|_, intent| !intent.is_done || intent.at.plus_ms(SINK_MS) > now);
    }

    /// Replaces what is known of a sink.
    pub(crate) fn set_intent(&self, sink: &str, intent: Intent) {
        self.sinks().insert(sink.to_owned(), intent);
    }
}
