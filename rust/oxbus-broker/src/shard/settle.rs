// SPDX-License-Identifier: Apache-2.0
//! Ends of holds: completed, back in their place, deferred, dead-lettered, cancelled.
//!
//! The store decides who wins a settlement; the winner journals it and waits. An abandoned message needs no event: what it
//! counts was written when it was handed out.

use std::sync::atomic::Ordering;

use oxbus_model::name::SubQueue;
use oxbus_model::options::Durability;
use oxbus_model::{Counter, Error, ErrorKind, Ticks, Timestamp};
use oxbus_store::shard_log::Room;
use oxbus_store::{LockKey, LockLost, MessageStore, Outcome, Peeked, Phase, Record, Removed, Settled, Stored};

use super::journal::{Changed, Event, Journal, Pending, Ranges};
use super::spill::Buried;
use super::{Cell, CellState, Deed, Ended};
use crate::record::with_dead_letter;

/// Why a settlement did not work, or may not have.
#[derive(Debug)]
pub enum SettleError {
    /// The hold is over.
    LockLost,
    /// The journal did not take it.
    Store(Error),
}

impl From<LockLost> for SettleError {
    fn from(_: LockLost) -> Self {
        Self::LockLost
    }
}

impl From<Error> for SettleError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// Why the system dead-letters a message, in the service's words (B-267).
#[derive(Debug, Clone, Copy)]
pub(super) enum Burial {
    /// Its deliveries are used up.
    DeliveriesExhausted,
    /// Its time to live is over.
    Expired,
    /// Its entity is received by session, and it has none (B-185).
    SessionIdNull,
}

impl Cell {
    /// Ends a hold of the main store or of the dead-letter queue; a message whose deliveries are used up is buried.
    /// Returns what became ready, and what to wait for before anything is acknowledged.
    pub fn settle(
        &self,
        sub_queue: SubQueue,
        key: LockKey,
        outcome: Outcome,
        ticks: Ticks,
    ) -> Result<(Ended, Option<Pending>), SettleError> {
        let event = self.event_of(sub_queue, key, &outcome)?;
        let settled = self.store(sub_queue).settle(key, outcome, ticks)?;
        let mut ended = Ended::default();
        match settled {
            Settled::Exhausted(message) => {
                ended.dead_letters = self.bury(vec![message], Burial::DeliveriesExhausted);
                return Ok((ended, None));
            }
            Settled::Ready if sub_queue == SubQueue::DeadLetter => ended.dead_letters = 1,
            Settled::Ready => ended.main = 1,
            Settled::Completed | Settled::Deferred | Settled::Removed(_) => {}
        }
        let pending = match event {
            Some(entry) => self.append_note(&entry)?,
            None => None,
        };
        Ok((ended, pending))
    }

    /// Completes many; pushes the index of each key that was lost. Wait for the result, if there is one, before
    /// anything is acknowledged.
    pub fn complete(
        &self,
        sub_queue: SubQueue,
        keys: &[LockKey],
        ticks: Ticks,
        lost: &mut Vec<usize>,
    ) -> Result<Option<Pending>, Error> {
        let lost_before = lost.len();
        self.store(sub_queue).complete(keys, ticks, lost);
        let lost_here = &lost[lost_before..];
        if self.shard.journal().is_none() || lost_here.len() == keys.len() {
            return Ok(None);
        }
        let completed = keys.iter().enumerate().filter(|(index, _)| !lost_here.contains(index));
        self.note_removed(sub_queue, completed.map(|(_, key)| key.counter))
    }

    /// Waits for an entry about a change, if there is one, at the level that calls get which ask for none.
    pub fn finish(&self, pending: Option<&Pending>) -> Result<(), Error> {
        let wait = |pending| self.shard.wait_until(pending, self.durability(None), Deed::Change);
        pending.map_or(Ok(()), wait)
    }

    /// What to wait for so that all that was noted here before is safe, whoever noted it. `None` in memory.
    pub fn noted_so_far(&self) -> Option<Pending> {
        self.shard.journal().map(Journal::last)
    }

    /// Has an entry made as safe as [`Cell::finish`] waits for, while the caller waits for another cell.
    pub fn begin(&self, pending: &Pending) {
        let buries = self.shard.has_buried.load(Ordering::Acquire);
        pending.begin(if buries {
            Durability::Fsync
        } else {
            self.durability(None)
        });
    }

    /// What a settlement changes in the journal, encoded before the hold ends: only its holder knows the message.
    pub(super) fn event_of(
        &self,
        sub_queue: SubQueue,
        key: LockKey,
        outcome: &Outcome,
    ) -> Result<Option<Vec<u8>>, SettleError> {
        if self.shard.journal().is_none() {
            return Ok(None);
        }
        let (replacement, defers, charges) = match outcome {
            Outcome::Abandon { replacement: None, .. } => return Ok(None),
            Outcome::Abandon { replacement, .. } => (replacement.as_ref(), false, true),
            Outcome::Defer { replacement } => (replacement.as_ref(), true, false),
            Outcome::Release => (None, false, false),
            Outcome::Complete | Outcome::Remove => {
                let counters = Ranges::from_iter([key.counter]);
                return Ok(Some(self.encoded(&Event::Remove { sub_queue, counters })));
            }
        };
        let mut found: Vec<Peeked> = Vec::new();
        self.store(sub_queue).peek(key.counter, 1, &mut found);
        let message = found.pop().filter(|message| message.counter == key.counter);
        let message = message.ok_or(SettleError::LockLost)?;
        let fetched = message.phase == Phase::DeferredLocked;
        let event = Event::Return {
            sub_queue,
            counter: key.counter,
            generation: key.generation,
            // A deferred message was charged at its fetch.
            delivery_count: message.delivery_count + u32::from(charges && !fetched),
            deferred: defers || fetched,
            record: replacement
                .and_then(|record| record.in_memory())
                .map(|record| Changed::of(record, message.record.in_memory())),
        };
        Ok(Some(self.encoded(&event)))
    }

    fn encoded(&self, event: &Event<'_>) -> Vec<u8> {
        let mut entry = Vec::new();
        event.encode(self.entity, &mut entry);
        entry
    }

    fn append_note(&self, entry: &[u8]) -> Result<Option<Pending>, Error> {
        let Some(journal) = self.shard.journal() else {
            return Ok(None);
        };
        let order = journal.order_for(Room::Frees, entry.len());
        let appended = order.and_then(|order| order.append(Room::Frees, entry));
        appended
            .map(Some)
            .map_err(|error| self.shard.refuse(&error, Deed::Change))
    }

    /// Moves a locked message to the dead-letter queue with `record` in place of its bytes, in one step. Returns what to
    /// wait for before it is acknowledged.
    pub fn dead_letter(&self, key: LockKey, record: Record, ticks: Ticks) -> Result<Option<Pending>, SettleError> {
        self.shard.with(self.no, |state| {
            let Settled::Removed(message) = self.main.settle(key, Outcome::Remove, ticks)? else {
                unreachable!("remove removes");
            };
            self.put_into_dead_letters(state, &message, record)
                .map_err(SettleError::Store)
        })
    }

    /// Stores a message that left the main store in the dead-letter queue, with `record` in place of its bytes, and notes
    /// that in the journal; what to wait for.
    fn put_into_dead_letters(
        &self,
        state: &mut CellState,
        message: &Removed,
        record: Record,
    ) -> Result<Option<Pending>, Error> {
        let entry = self.dead_letter_entry(message, &record);
        let (counter, record) = (message.counter, Stored::from(record));
        let message = Removed {
            record: record.clone(),
            ..*message
        };
        let stored = state.dead_letters.insert(message);
        debug_assert!(stored, "a number is in one place at a time");
        let Some(entry) = entry else { return Ok(None) };
        let pending = self.append_note(&entry)?;
        let buried = pending
            .as_ref()
            .and_then(|pending| Buried::of(&self.shard, counter, &record, &entry, pending));
        if let Some(buried) = buried {
            state.buried.push(buried);
            self.shard.has_buried.store(true, Ordering::Release);
        }
        Ok(pending)
    }

    /// Puts messages that left the main store into the dead-letter queue with the system's reason. Returns how many.
    pub(super) fn bury(&self, messages: Vec<Removed>, burial: Burial) -> usize {
        if messages.is_empty() {
            return 0;
        }
        let mark = |message: Removed| {
            // One that cannot be read back stays what the journal says: the shard is out of service.
            let record = self.load(&message.record).ok()?;
            Some((mark(record, message.delivery_count, burial), message))
        };
        let marked: Vec<(Record, Removed)> = messages.into_iter().filter_map(mark).collect();
        let count = marked.len();
        self.shard.with(self.no, |state| {
            for (record, message) in marked {
                // Not waited for: until it is on disk the next open buries the message again. A failure takes the shard
                // out of service.
                let _ = self.put_into_dead_letters(state, &message, record);
            }
        });
        count
    }

    fn dead_letter_entry(&self, message: &Removed, record: &Record) -> Option<Vec<u8>> {
        let journal = self.shard.journal()?;
        // A message that is to leave memory is read back from the entry, so that holds all of it; unless a full disk has no
        // room for that.
        let leaves_memory = self.shard.memory.is_tight() && !journal.is_full();
        let record = if leaves_memory {
            Changed::Whole(record)
        } else {
            Changed::of(record, message.record.in_memory())
        };
        Some(self.encoded(&Event::DeadLetter {
            counter: message.counter,
            enqueued_at: message.enqueued_at,
            expires_at: message.expires_at,
            delivery_count: message.delivery_count,
            record,
        }))
    }

    /// Removes scheduled messages: all of `counters`, or none and those that are not scheduled (B-238).
    pub fn cancel_scheduled(&self, counters: &[Counter]) -> Result<Result<(), Vec<Counter>>, Error> {
        let cancelled = self.shard.with(self.no, |state| {
            let mut missing = Vec::new();
            let mut cancelled: Vec<(Timestamp, Counter)> = Vec::new();
            for &counter in counters {
                match self.due_of(counter) {
                    Some(due) if state.schedule.remove(due, counter) => cancelled.push((due, counter)),
                    _ => missing.push(counter),
                }
            }
            if missing.is_empty() {
                for (_, counter) in cancelled {
                    self.main.take_scheduled(counter);
                }
                return Ok(());
            }
            for (due, counter) in cancelled {
                state.schedule.add(due, counter);
            }
            Err(missing)
        });
        if cancelled.is_ok() {
            let pending = self.note_removed(SubQueue::Main, counters.iter().copied())?;
            self.finish(pending.as_ref())?;
        }
        Ok(cancelled)
    }

    /// Waits at a level of its own choice; for what is held by reservations.
    pub fn wait_written(&self, pending: &Pending) -> Result<(), Error> {
        self.shard.wait_until(pending, Durability::Os, Deed::Change)
    }
}

/// The record of a message with the system's reason.
fn mark(record: Record, delivery_count: u32, burial: Burial) -> Record {
    let (reason, description) = match burial {
        Burial::DeliveriesExhausted => (
            "MaxDeliveryCountExceeded",
            format!("Message could not be consumed after {delivery_count} delivery attempts."),
        ),
        Burial::Expired => (
            "TTLExpiredException",
            "The message expired and was dead lettered.".to_owned(),
        ),
        Burial::SessionIdNull => (
            "Session id is null.",
            "Session enabled entity doesn't allow a message whose session identifier is null.".to_owned(),
        ),
    };
    let marked = with_dead_letter(&record, Some(reason), Some(&description), &[]);
    // Bytes that do not decode are kept as they are: better without a reason than gone.
    debug_assert!(
        !matches!(&marked, Err(error) if error.kind() != ErrorKind::Corrupt),
        "only corrupt bytes fail"
    );
    marked.unwrap_or(record)
}
