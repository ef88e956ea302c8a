// SPDX-License-Identifier: Apache-2.0
//! What is handed out is written down first.
//!
//! Otherwise a consumer that takes its own process down with a message would meet it again for ever: the delivery would
//! never count. The operating system having it is enough; the loss of power may forget a delivery.

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Result};
use oxbus_store::Claimed;
use oxbus_store::shard_log::Room;

use super::Cell;
use super::journal::{Event, HandedOut, Pending, Ranges};

impl Cell {
    /// Writes that messages go out under locks. `None` in memory; otherwise wait for it before they do.
    pub fn note_handed_out<'a>(
        &self,
        sub_queue: SubQueue,
        messages: impl Iterator<Item = &'a Claimed>,
    ) -> Result<Option<Pending>> {
        let handed_out = |claimed: &Claimed| HandedOut {
            counter: claimed.key.counter,
            generation: claimed.key.generation,
            // A deferred message was charged at its fetch.
            count_after: claimed.delivery_count.saturating_add(u32::from(!claimed.deferred)),
            deferred: claimed.deferred,
        };
        self.note(|| Event::HandOut {
            sub_queue,
            messages: messages.map(handed_out).collect(),
        })
    }

    /// Writes that messages are gone. `None` in memory.
    pub fn note_removed(
        &self,
        sub_queue: SubQueue,
        counters: impl Iterator<Item = Counter>,
    ) -> Result<Option<Pending>> {
        self.note(|| Event::Remove {
            sub_queue,
            counters: Ranges::from_iter(counters),
        })
    }

    /// Writes an event that frees something or is small.
    pub(super) fn note<'e>(&self, event: impl FnOnce() -> Event<'e>) -> Result<Option<Pending>> {
        let Some(journal) = self.shard.journal() else {
            return Ok(None);
        };
        let mut entry = Vec::new();
        event().encode(self.entity, &mut entry);
        let order = journal.order_for(Room::Frees, entry.len());
        let appended = order.and_then(|order| order.append(Room::Frees, &entry));
        appended.map(Some).map_err(|error| self.shard.refuse(&error))
    }
}
