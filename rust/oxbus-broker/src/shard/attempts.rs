// SPDX-License-Identifier: Apache-2.0
//! What is handed out is written down first.
//!
//! Otherwise a consumer that takes its own process down with a message would meet it again for ever: the delivery would
//! never count. The operating system having it is enough; the loss of power may forget a delivery.

use std::sync::RwLockReadGuard;

use oxbus_model::name::SubQueue;
use oxbus_model::options::Durability;
use oxbus_model::{Counter, Result, Ticks};
use oxbus_store::shard_log::Room;
use oxbus_store::{Claimed, Hold, LockKey, LockLost, Outcome, Settled};

use super::journal::{Event, HandedOut, Pending};
use super::{Cell, Deed, Ended};

/// How messages are held that leave for good once the journal says so: no delivery, nothing charged if they stay.
pub const LEAVING: Hold = Hold::Lock { deadline: Ticks::NEVER };

impl Cell {
    /// Ends holds of messages that are handed out for good, once the journal says that they are gone.
    pub fn let_leave(&self, sub_queue: SubQueue, keys: &[LockKey], ticks: Ticks) {
        // One that a cache took out before is not there any more.
        self.store(sub_queue).complete(keys, ticks, &mut Vec::new());
    }

    /// Makes a hold on a fetched message a delivery that ends, once the journal says so.
    pub fn charge_fetched(&self, sub_queue: SubQueue, key: LockKey, deadline: Ticks, ticks: Ticks) {
        let store = self.store(sub_queue);
        // A session that ended meanwhile has given it back.
        if store.charge(key, u32::MAX, ticks).is_ok() {
            let _ = store.renew(key, deadline, ticks);
        }
    }

    /// Ends a hold of which the journal says nothing, nothing charged; what is ready by it. An error when it is over.
    pub fn take_back(&self, sub_queue: SubQueue, key: LockKey, ticks: Ticks) -> std::result::Result<Ended, LockLost> {
        let settled = self.store(sub_queue).settle(key, Outcome::Release, ticks)?;
        let ready = usize::from(matches!(settled, Settled::Ready));
        Ok(Ended::of(sub_queue, ready))
    }

    /// Waits until the operating system has a hand-out.
    pub fn wait_handed_out(&self, pending: &Pending) -> Result<()> {
        self.shard.wait_until(pending, Durability::Os, Deed::HandOut)
    }

    /// Waits until a removal is as safe as a completion.
    pub fn wait_removed(&self, pending: &Pending) -> Result<()> {
        self.shard.wait_until(pending, self.durability(None), Deed::Removal)
    }

    /// Keeps snapshots from looking while messages are handed out whose holds change once that is written.
    pub fn unit(&self) -> RwLockReadGuard<'_, ()> {
        self.shard.unit()
    }

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
        self.note(Deed::HandOut, || Event::HandOut {
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
        self.note(Deed::Change, || Event::Remove {
            sub_queue,
            counters: counters.collect(),
        })
    }

    /// Writes that messages are gone which are held still. `None` in memory; otherwise wait for it before they go.
    pub fn note_leaving(
        &self,
        sub_queue: SubQueue,
        counters: impl Iterator<Item = Counter>,
    ) -> Result<Option<Pending>> {
        self.note(Deed::Removal, || Event::Remove {
            sub_queue,
            counters: counters.collect(),
        })
    }

    /// Writes an event that frees something or is small.
    pub(super) fn note<'e>(&self, deed: Deed, event: impl FnOnce() -> Event<'e>) -> Result<Option<Pending>> {
        let Some(journal) = self.shard.journal() else {
            return Ok(None);
        };
        let mut entry = Vec::new();
        event().encode(self.entity, &mut entry);
        let order = journal.order_for(Room::Frees, entry.len());
        let appended = order.and_then(|order| order.append(Room::Frees, &entry));
        appended.map(Some).map_err(|error| self.shard.refuse(&error, deed))
    }
}
