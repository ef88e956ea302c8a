// SPDX-License-Identifier: Apache-2.0
//! Messages that come in, now or at their time.
//!
//! In a durable namespace: numbers are reserved and the event is appended in one step, the commit is waited for, then
//! the messages are published. Until then nobody can receive them. When the journal refuses, the numbers are given up and no
//! trace is left; when it fails half-way, likewise, and what the disk has of it is dropped when the shard heals.

use std::sync::atomic::Ordering;

use oxbus_model::options::Durability;
use oxbus_model::{Counter, Error, Timestamp};
use oxbus_store::extent::Place;
use oxbus_store::shard_log::{AppendError, Failure, Lsn, Room};
use oxbus_store::{MessageStore, NewMessage, NumberedStore};

use super::health::InFlight;
use super::journal::{Event, Journal, Pending, push_append};
use super::promise::Ahead;
use super::spill::{leave_on_disk, places};
use super::{Admission, Cell, Deed};

/// A message that comes in.
#[derive(Debug)]
pub struct Arrival {
    /// The message.
    pub message: NewMessage,
    /// When it becomes active, if that is not now.
    pub due: Option<Timestamp>,
}

/// Why messages did not come in.
#[derive(Debug)]
pub struct Refusal {
    /// For the caller.
    pub error: Error,
    /// Nothing was stored: they may go elsewhere. Otherwise nobody knows before the shard heals.
    pub is_definite: bool,
    /// The entry, when the store did not answer in time: fenced, it never counts, and they may go elsewhere, too.
    pub late: Option<Late>,
}

/// An entry that may arrive after its caller has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late {
    /// Under which it was written.
    pub epoch: u64,
    /// Its number.
    pub lsn: Lsn,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self {
            error,
            is_definite: true,
            late: None,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        refusal.error
    }
}

/// Reserved numbers on their way.
pub(super) struct Reserved {
    pub(super) first: Counter,
    count: usize,
    pending: Pending,
    /// The entry, when its messages are to stay on disk.
    entry: Option<Vec<u8>>,
}

impl Reserved {
    /// Where its messages stand, when they are to stay there.
    pub(super) fn places(&self) -> Option<Vec<Place>> {
        Some(places(self.entry.as_ref()?, self.pending.place.as_ref()?))
    }
}

/// Bytes of an event, at most, beside those of its message: for a buffer that need not grow.
pub(super) const MESSAGE_BYTES: usize = 64;

/// The bytes of a message that comes in.
pub(super) fn bytes_of(message: &NewMessage) -> &[u8] {
    message.record.in_memory().expect("what comes in is in memory")
}

impl Cell {
    /// Stores a batch, all or nothing, and returns the first number; leaves `batch` empty. What was `admitted` is
    /// remembered with it.
    pub fn append(
        &self,
        batch: &mut Vec<NewMessage>,
        now: Timestamp,
        durability: Durability,
        admitted: Option<&Admission<'_>>,
    ) -> Result<Counter, Refusal> {
        let Some(journal) = self.shard.journal() else {
            let first = self.main.append(batch, now);
            admitted.inspect(|it| it.keep());
            return Ok(first);
        };
        let bytes = batch.iter().map(|message| message.record.len() + MESSAGE_BYTES).sum();
        let _in_flight = self.enter()?;
        let reserved = self.reserve(journal, batch.len(), bytes, |first, entry| {
            let messages = batch.iter().map(|message| (message.expires_at, bytes_of(message)));
            push_append(self.entity, first, now, messages, entry);
            self.push_seen(admitted, entry);
        })?;
        self.commit(&reserved, durability)?;
        if let Some(places) = reserved.places() {
            leave_on_disk(batch.iter_mut(), places);
        }
        // Before the numbers are settled: a snapshot that waits for them knows the identities too.
        admitted.inspect(|it| it.keep());
        self.main.publish(reserved.first, batch, now);
        Ok(reserved.first)
    }

    /// Stores messages of which some wait for their time, all or nothing; leaves `arrivals` empty. The first number, and
    /// how many are active.
    pub fn append_arrivals(
        &self,
        arrivals: &mut Vec<Arrival>,
        now: Timestamp,
        durability: Durability,
        admitted: Option<&Admission<'_>>,
    ) -> Result<(Counter, usize), Refusal> {
        let count = arrivals.len();
        let first = match self.shard.journal() {
            None => self.main.reserve(count),
            Some(journal) => {
                let _in_flight = self.enter()?;
                let bytes = arrivals.iter().map(|it| it.message.record.len() + MESSAGE_BYTES).sum();
                let reserved = self.reserve(journal, count, bytes, |first, entry| {
                    for (counter, arrival) in (first.0..).map(Counter).zip(&*arrivals) {
                        self.push_arrival(counter, arrival, now, entry);
                    }
                    self.push_seen(admitted, entry);
                })?;
                self.commit(&reserved, durability)?;
                if let Some(places) = reserved.places() {
                    leave_on_disk(arrivals.iter_mut().map(|arrival| &mut arrival.message), places);
                }
                reserved.first
            }
        };
        admitted.inspect(|it| it.keep());
        let mut active = 0;
        self.shard.with(self.no, |state| {
            for (counter, Arrival { message, due }) in (first.0..).map(Counter).zip(arrivals.drain(..)) {
                if let Some(due) = due {
                    self.main.publish_scheduled(counter, message, now);
                    state.schedule.add(due, counter);
                    self.next_due.fetch_min(due.0, Ordering::SeqCst);
                } else {
                    self.main.publish(counter, &mut vec![message], now);
                    active += 1;
                }
            }
        });
        Ok((first, active))
    }

    pub(super) fn push_arrival(&self, counter: Counter, arrival: &Arrival, now: Timestamp, entry: &mut Vec<u8>) {
        let Arrival { message, due } = arrival;
        let (expires_at, bytes) = (message.expires_at, bytes_of(message));
        match *due {
            None => push_append(self.entity, counter, now, std::iter::once((expires_at, bytes)), entry),
            Some(due) => Event::Schedule {
                counter,
                due,
                enqueued_at: now,
                expires_at,
                bytes,
            }
            .encode(self.entity, entry),
        }
    }

    /// Waits until what came in before is as safe as a call asks: its copy is acknowledged by it.
    pub fn wait_for_earlier(&self, durability: Durability) -> Result<(), Error> {
        let Some(journal) = self.shard.journal() else {
            return Ok(());
        };
        let last = journal.order().pending();
        self.shard.wait_until(&last, durability, Deed::Send)
    }

    /// Adds what is to be remembered of the messages of an entry.
    pub(crate) fn push_seen(&self, admitted: Option<&Admission<'_>>, entry: &mut Vec<u8>) {
        let Some(admitted) = admitted.filter(|it| !it.identities().is_empty()) else {
            return;
        };
        let identities = admitted.dated();
        Event::Seen { identities }.encode(self.entity, entry);
    }

    /// Adds the name of the rows that an entry attaches.
    pub(crate) fn push_attached(&self, admitted: &Admission<'_>, entry: &mut Vec<u8>) {
        let identities = admitted.dated();
        Event::Attached { identities }.encode(self.entity, entry);
    }

    /// Reserves numbers and appends what `push` says about them, in about so many `bytes`, in one step.
    pub(super) fn reserve(
        &self,
        journal: &Journal,
        count: usize,
        bytes: usize,
        push: impl FnOnce(Counter, &mut Vec<u8>),
    ) -> Result<Reserved, Refusal> {
        let order = journal.order_for(Room::Adds, bytes + MESSAGE_BYTES);
        let order = order.map_err(|error| self.refusal(&error))?;
        let first = self.main.next();
        let end = first.0 + count as u64;
        let mut entry = Vec::with_capacity(bytes + MESSAGE_BYTES);
        let tells = self.promise.due(end, Ahead::Usual);
        if let Some(next) = tells {
            Event::Number { next }.encode(self.entity, &mut entry);
        }
        push(first, &mut entry);
        let pending = order.append(Room::Adds, &entry).map_err(|error| self.refusal(&error))?;
        self.promise.note(end, tells, pending.lsn);
        let reserved = self.main.reserve(count);
        debug_assert_eq!(reserved, first, "numbers are given out under the journal's order");
        let entry = self.shard.memory.spills().then_some(entry);
        Ok(Reserved {
            first,
            count,
            pending,
            entry,
        })
    }

    /// Waits for the journal; gives the numbers up when it fails.
    pub(super) fn commit(&self, reserved: &Reserved, durability: Durability) -> Result<(), Refusal> {
        let durability = if reserved.entry.is_some() {
            Durability::Fsync
        } else {
            durability
        };
        self.wait_shown(&reserved.pending, durability).map_err(|error| {
            // First: once its numbers are settled, the shard may heal, and would be put out of service again.
            let refusal = self.refusal_of(&reserved.pending, &error);
            self.main.give_up(reserved.first, reserved.count);
            refusal
        })
    }

    /// Counts a send that may wait for the journal.
    pub(super) fn enter(&self) -> Result<InFlight<'_>, Error> {
        self.shard.health.enter(self.shard.id)
    }

    /// Waits until an entry has reached its level and its numbers may be shown: a number that was shown is not given
    /// out again even when the entry is lost with the power.
    pub(super) fn wait_shown(&self, pending: &Pending, durability: Durability) -> Result<(), AppendError> {
        pending.wait_for(self.promise.covered_at(), Durability::Fsync)?;
        pending.wait(durability)
    }

    pub(super) fn refusal(&self, error: &AppendError) -> Refusal {
        let is_definite = !matches!(error, AppendError::Unknown(_));
        Refusal {
            error: self.shard.refuse(error, Deed::Send),
            is_definite,
            late: None,
        }
    }

    /// The refusal of an entry that was appended.
    pub(super) fn refusal_of(&self, pending: &Pending, error: &AppendError) -> Refusal {
        let is_late = matches!(error, AppendError::Unknown(Failure::Silent));
        Refusal {
            late: is_late.then(|| pending.late()),
            ..self.refusal(error)
        }
    }
}
