// SPDX-License-Identifier: Apache-2.0
//! Messages in the hands of a reservation, and what is kept of the consumers whose reservations they are.
//!
//! The hold of a reservation on a message has no end of its own: the reservation has. It is not in the journal, because the
//! reservation is, and takes its messages again when the directory is opened. What it charges is.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use oxbus_model::name::SubQueue;
use oxbus_model::{Error, Ticks};
use oxbus_store::shard_log::Room;
use oxbus_store::{Claimed, Hold, LockKey, Outcome, Settled};

use super::journal::{ConsumerRecord, Event, HandedOut, Pending};
use super::settle::Burial;
use super::{Cell, Deed, Ended};

/// How a reservation holds its messages.
pub const RESERVED: Hold = Hold::Lock { deadline: Ticks::NEVER };

/// A message in the hands of a reservation.
#[derive(Debug, Clone, Copy)]
pub struct Reserved {
    /// The hold.
    pub key: LockKey,
    /// Deliveries charged so far.
    pub delivery_count: u32,
    /// Bytes of its record.
    pub bytes: u32,
}

impl From<&Claimed> for Reserved {
    fn from(claimed: &Claimed) -> Self {
        Self {
            key: claimed.key,
            delivery_count: claimed.delivery_count,
            bytes: u32::try_from(claimed.record.len()).unwrap_or(u32::MAX),
        }
    }
}

/// The consumers of a cell, by sub-queue and name.
pub(super) type Consumers = BTreeMap<(SubQueue, Arc<str>), Arc<ConsumerRecord>>;

impl Cell {
    /// Ends holds whose time is over: each is charged a delivery, and who has none left is buried.
    pub fn lapse(&self, sub_queue: SubQueue, held: &[Reserved], max_delivery_count: u32, ticks: Ticks) -> Ended {
        let mut ready = Vec::with_capacity(held.len());
        let mut exhausted = Vec::new();
        for reserved in held {
            let outcome = Outcome::Abandon {
                max_delivery_count,
                replacement: None,
            };
            match self.store(sub_queue).settle(reserved.key, outcome, ticks) {
                Ok(Settled::Exhausted(message)) => exhausted.push(message),
                Ok(_) => ready.push(*reserved),
                Err(_) => {}
            }
        }
        // Not waited for: if it is lost, the reservation is live again and lapses again.
        let _ = self.note_charged(sub_queue, &ready);
        let buried = self.bury(exhausted, Burial::DeliveriesExhausted);
        Ended::of(sub_queue, ready.len()).and(Ended::of(SubQueue::DeadLetter, buried))
    }

    /// Charges a delivery to holds that stay. Who has none left is buried and is not held any more. What to wait for, so
    /// that the delivery counts whatever becomes of the holder.
    pub fn charge(
        &self,
        sub_queue: SubQueue,
        held: &mut Vec<Reserved>,
        max_delivery_count: u32,
        ticks: Ticks,
    ) -> (Ended, Result<Option<Pending>, Error>) {
        let mut exhausted = Vec::new();
        let store = self.store(sub_queue);
        held.retain(|reserved| match store.charge(reserved.key, max_delivery_count, ticks) {
            Ok(None) => true,
            Ok(Some(message)) => {
                exhausted.push(message);
                false
            }
            Err(_) => false,
        });
        let pending = self.note_charged(sub_queue, held);
        for reserved in held {
            reserved.delivery_count = reserved.delivery_count.saturating_add(1);
        }
        let buried = self.bury(exhausted, Burial::DeliveriesExhausted);
        (Ended::of(SubQueue::DeadLetter, buried), pending)
    }

    /// Ends holds that were never used, nothing charged; how many messages are ready by it.
    pub fn let_go<'a>(&self, sub_queue: SubQueue, held: impl Iterator<Item = &'a Reserved>, ticks: Ticks) -> usize {
        let store = self.store(sub_queue);
        held.filter(|it| store.settle(it.key, Outcome::Release, ticks).is_ok())
            .count()
    }

    /// Writes that a delivery was charged to messages; what to wait for.
    pub fn note_charged(&self, sub_queue: SubQueue, held: &[Reserved]) -> Result<Option<Pending>, Error> {
        if held.is_empty() {
            return Ok(None);
        }
        let charged = |reserved: &Reserved| HandedOut {
            counter: reserved.key.counter,
            generation: reserved.key.generation,
            count_after: reserved.delivery_count.saturating_add(1),
            deferred: false,
        };
        self.note(Deed::Change, || Event::HandOut {
            sub_queue,
            messages: held.iter().map(charged).collect(),
        })
    }

    /// What is kept of the consumers that have their place here.
    pub fn consumers(&self) -> BTreeMap<(SubQueue, Arc<str>), Arc<ConsumerRecord>> {
        self.consumers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True when consumers are to be kept.
    pub fn keeps_consumers(&self) -> bool {
        self.shard.journal().is_some()
    }

    /// Keeps a consumer; what to wait for. Calls for one consumer follow each other.
    pub fn keep_consumer(
        &self,
        sub_queue: SubQueue,
        name: &Arc<str>,
        record: ConsumerRecord,
        room: Room,
    ) -> Result<Option<Pending>, Error> {
        let Some(journal) = self.shard.journal() else {
            return Ok(None);
        };
        let record = Arc::new(record);
        // Kept first: a snapshot that knows the event finds it.
        self.consumers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert((sub_queue, Arc::clone(name)), Arc::clone(&record));
        let mut entry = Vec::new();
        let event = Event::Consumer {
            sub_queue,
            name,
            record,
        };
        event.encode(self.entity, &mut entry);
        let order = journal.order_for(room, entry.len());
        let appended = order.and_then(|order| order.append(room, &entry));
        appended
            .map(Some)
            .map_err(|error| self.shard.refuse(&error, Deed::Change))
    }
}
