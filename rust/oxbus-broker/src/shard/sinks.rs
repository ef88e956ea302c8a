// SPDX-License-Identifier: Apache-2.0
//! What the sinks of staged sends committed last, for those that are at home in this shard.
//!
//! A sink's latest intent is replaced as a whole, in the journal and then here, by whoever has the turn of that sink. A snapshot
//! does not look in between: an intent that is written is here before it goes on (`unit`).

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use oxbus_model::caps::SINK_MS;
use oxbus_model::options::Durability;
use oxbus_model::{Result, Timestamp};
use oxbus_store::shard_log::{AppendError, Room};

use super::journal::{EntityId, Event, Intent, Journal, Pending};
use super::{Deed, Refusal, Shard};

/// Intents belong to no entity.
const NO_ENTITY: EntityId = EntityId(0);

impl Shard {
    fn sinks(&self) -> MutexGuard<'_, BTreeMap<String, Intent>> {
        self.sinks.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub(crate) fn undone_since(&self) -> Option<Timestamp> {
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

    /// Decides a batch: once this returns it is committed, whatever happens. After an error that is definite it is not.
    pub(crate) fn decide(&self, sink: &str, intent: Intent) -> std::result::Result<(), Refusal> {
        if let Some(journal) = self.journal() {
            let _in_flight = self.health.enter(self.id)?;
            let written = self.unit();
            let refuse = |error: AppendError| Refusal {
                is_definite: !matches!(error, AppendError::Unknown(_)),
                error: self.refuse(&error, Deed::Send),
                late: None,
            };
            let pending = note(journal, sink, &intent, Room::Adds).map_err(refuse)?;
            pending.wait(self.durability(None)).map_err(refuse)?;
            self.sinks().insert(sink.to_owned(), intent);
            drop(written);
            return Ok(());
        }
        self.sinks().insert(sink.to_owned(), intent);
        Ok(())
    }

    /// Changes what is known of a committed batch. Not waited for: what is lost is found out again.
    pub(crate) fn amend(&self, sink: &str, intent: Intent) {
        let written = self.unit();
        if let Some(journal) = self.journal() {
            let _ = note(journal, sink, &intent, Room::Frees);
        }
        self.sinks().insert(sink.to_owned(), intent);
        drop(written);
    }

    /// The last entry that was appended, to be waited for; `None` without a journal.
    pub(crate) fn last_pending(&self) -> Option<Pending> {
        Some(self.journal()?.order().pending())
    }

    /// Waits until an entry is safe from a loss of power.
    pub(crate) fn wait_synced(&self, pending: &Pending) -> Result<()> {
        self.wait_until(pending, Durability::Fsync, Deed::Send)
    }
}

fn note(journal: &Journal, sink: &str, intent: &Intent, room: Room) -> std::result::Result<Pending, AppendError> {
    let mut entry = Vec::new();
    push_intent(sink, intent.clone(), &mut entry);
    journal.order_for(room, entry.len())?.append(room, &entry)
}

/// Adds the event of an intent to an entry or a snapshot.
pub(super) fn push_intent(sink: &str, intent: Intent, out: &mut Vec<u8>) {
    Event::Intent { sink, intent }.encode(NO_ENTITY, out);
}
