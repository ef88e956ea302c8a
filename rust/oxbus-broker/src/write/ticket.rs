// SPDX-License-Identifier: Apache-2.0
//! The second half of a write: the wait for its entry, and what takes effect after it.

use std::time::Instant;

use oxbus_model::options::Durability;
use oxbus_model::{Counter, Effect};
use oxbus_store::shard_log::{AppendError, LogFailure};
use oxbus_store::{LockKey, Wait};

use super::arrivals::{NumbersByCell, RecordLocations};
use super::error::{UnconfirmedEntry, WriteError};
use super::pinned_locks::PinnedLocks;
use super::shard_write::{DeliveryEffect, Removal, ShardWrite, WriteOperation};
use crate::shard::guarded::BarrierGuard;
use crate::shard::health::InFlightSend;
use crate::shard::journal::{Intent, PendingEntry};
use crate::shard::spill::record_locations;
use crate::shard::{ReadyCounts, Shard};

/// A write that has begun.
#[derive(Debug)]
#[must_use = "a call may be acknowledged only once its ticket is finished"]
pub struct Ticket<'w, 'a> {
    pub(super) shard: &'a Shard,
    pub(super) write: &'w mut ShardWrite<'a>,
    /// The durability to wait for.
    pub(super) level: Durability,
    /// `None` in memory, and if nothing is journaled.
    pub(super) pending: Option<PendingEntry>,
    pub(super) done: CommittedWrite,
    /// True if a part takes effect after the wait.
    pub(super) takes_effect_later: bool,
    /// The numbers of arriving messages.
    pub(super) numbers: NumbersByCell,
    pub(super) guards: Option<Box<WriteGuards<'a>>>,
    /// Declared last, so that everything else is dropped before it checks for a panic.
    pub(super) in_flight: Option<InFlightSend<'a>>,
}

/// What some writes hold until they take effect: guards, reservations and times.
#[derive(Debug, Default)]
pub(super) struct WriteGuards<'a> {
    /// The entry, if its messages keep their locations in it, and whether they are spilled.
    pub(super) entry: Option<(Vec<u8>, bool)>,
    /// The locks of an atomic write.
    pub(super) pins: Option<PinnedLocks<'a>>,
    /// Holds off snapshots while the write is journaled and has not taken effect.
    pub(super) snapshot_hold: Option<BarrierGuard<'a>>,
    /// When a suspended call began to wait, if waits are timed.
    wait_began: Option<Instant>,
}

/// Finishes writes to several shards. All syncs are started before the first is awaited.
pub fn finish_all(
    tickets: Vec<Ticket<'_, '_>>,
    wait: &Wait<'_>,
) -> impl Iterator<Item = Result<CommittedWrite, WriteError>> {
    tickets.iter().skip(1).for_each(Ticket::start_sync);
    tickets.into_iter().map(|ticket| ticket.finish(wait))
}

/// The result of a write.
#[derive(Debug, Default)]
pub struct CommittedWrite {
    /// The number of the first message of the first cell.
    pub first: Counter,
    /// Messages that are ready in the first cell.
    pub ready: usize,
    /// Messages that became ready when locks ended.
    pub ended: ReadyCounts,
    /// True if a message is kept until a delay ends. Waiting receivers then recalculate when to look again.
    pub delayed: bool,
    /// Positions of the lost locks when a list of messages is completed.
    pub lost: Vec<usize>,
    /// Messages that each settlement of an atomic write made ready.
    pub each: Vec<ReadyCounts>,
}

impl<'w, 'a> Ticket<'w, 'a> {
    #[inline]
    pub(super) fn new(shard: &'a Shard, write: &'w mut ShardWrite<'a>, level: Durability) -> Self {
        Self {
            shard,
            write,
            level,
            pending: None,
            done: CommittedWrite::default(),
            takes_effect_later: false,
            numbers: NumbersByCell::new(),
            guards: None,
            in_flight: None,
        }
    }

    /// Effects that have happened already: ends of locks outside an atomic write.
    pub fn done(&self) -> &CommittedWrite {
        &self.done
    }

    /// True if there is an entry to wait for.
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Starts the sync of the entry, if its durability needs one, while the caller waits for another write.
    pub fn start_sync(&self) {
        if let Some(pending) = &self.pending {
            let leaves_memory = self.done.ended.dead_letters > 0 && self.shard.has_unspilled();
            pending.begin_sync(if leaves_memory { Durability::Fsync } else { self.level });
        }
    }

    /// Ends the write without a wait. Call it only for operations that happen again if the entry is lost.
    pub fn detach(self) -> CommittedWrite {
        debug_assert!(!self.takes_effect_later, "nothing is left to take effect");
        self.done
    }

    /// Suspends a call until [`Ticket::finish`] does not wait for a store. Ends at once if the caller's thread waits.
    pub async fn until_committed(&mut self, wait: &Wait<'_>) {
        if let Some(pending) = self.pending.as_ref().filter(|_| wait.suspends()) {
            if let Some(began) = self.shard.wait_begins() {
                self.guards.get_or_insert_default().wait_began = Some(began);
            }
            pending.until_committed(wait).await;
        }
    }

    /// Waits until the entry has its durability, and applies the rest. After an error the write is unchanged, unless
    /// its effect is unknown.
    pub fn finish(mut self, wait: &Wait<'_>) -> Result<CommittedWrite, WriteError> {
        if let Some(pending) = &self.pending {
            self.await_entry(pending, wait)?;
        }
        if self.takes_effect_later {
            self.take_effect(wait);
        }
        Ok(self.done)
    }

    #[inline(never)]
    fn await_entry(&self, pending: &PendingEntry, wait: &Wait<'_>) -> Result<(), WriteError> {
        let began = self.guards.as_ref().and_then(|guards| guards.wait_began);
        let began = began.or_else(|| self.shard.wait_begins());
        let waited = self.await_numbers(pending, wait);
        let waited = waited.and_then(|()| pending.wait(self.level, wait));
        self.shard.wait_ended(self.write.call_kind(), began);
        let Err(error) = waited else {
            if self.done.ended.dead_letters > 0 {
                // Calls must not fill the memory, so a call spills what it dead-lettered before it returns.
                self.shard.spill_dead_letters_after(pending, wait);
            }
            return Ok(());
        };
        // Reported first: once the numbers are given up, the shard may heal, and a later report would take it out of
        // service again.
        let cause = self.shard.entry_failed(pending, &error, self.write.call_kind());
        self.write.give_up(&self.numbers);
        let is_unconfirmed = matches!(error, AppendError::Unknown(LogFailure::Unresponsive));
        Err(WriteError {
            effect: match error {
                AppendError::Unknown(_) => Effect::Unknown,
                _ => Effect::None,
            },
            cause: super::error::Cause::Refused(cause),
            unconfirmed: is_unconfirmed.then(|| {
                let (epoch, lsn) = pending.epoch_and_lsn();
                UnconfirmedEntry { epoch, lsn }
            }),
        })
    }

    /// Waits until the numbers may become visible: a visible number is never assigned again, even after a power loss.
    fn await_numbers(&self, pending: &PendingEntry, wait: &Wait<'_>) -> Result<(), AppendError> {
        if self.write.exact_numbers {
            return Ok(());
        }
        let mut cells = self.write.cells.iter();
        cells.try_for_each(|cell| pending.wait_for(cell.high_water_mark.covered_at(), Durability::Fsync, wait))
    }

    /// Applies the rest. The write is in the journal, or there is none.
    pub(super) fn take_effect(&mut self, wait: &Wait<'_>) {
        if let Some(first) = self.numbers.first() {
            self.done.first = first.next;
            let locations = self.locations();
            self.done.ready = self.write.publish(&mut self.numbers, locations);
        }
        match self.guards.as_mut().and_then(|guards| guards.pins.take()) {
            Some(mut pins) => {
                self.done.each = pins.end(self.write, wait);
                self.set_session_states();
            }
            None => self.finish_operations(),
        }
        self.guards = None;
        self.in_flight = None;
    }

    /// Locations of the messages in the journal, if they keep them.
    fn locations(&self) -> Option<RecordLocations> {
        let (entry, spills) = self.guards.as_ref()?.entry.as_ref()?;
        let location = self.pending.as_ref()?.location.as_ref()?;
        Some(RecordLocations {
            left: record_locations(entry, location).into_iter(),
            spills: *spills,
        })
    }

    fn set_session_states(&mut self) {
        for operation in &mut self.write.operations {
            if let WriteOperation::SessionState { cell, accepted, state } = operation
                && let Some(sessions) = cell.sessions()
            {
                sessions.set_pinned_state(accepted, state.take());
            }
        }
    }

    /// Removes received messages, counts the delivery of fetched ones, and stores intents.
    fn finish_operations(&mut self) {
        let ticks = self.write.moment.ticks;
        for operation in &mut self.write.operations {
            match operation {
                WriteOperation::Remove {
                    cell,
                    sub_queue,
                    removal: Removal::Received(keys),
                } => {
                    let keys: Vec<LockKey> = std::mem::take(keys);
                    // A receive cache may have removed some of them before.
                    cell.store(*sub_queue).complete(&keys, ticks, &mut Vec::new());
                }
                WriteOperation::HandOut {
                    cell,
                    sub_queue,
                    then: DeliveryEffect::Delivered(fetched),
                    ..
                } => {
                    let store = cell.store(*sub_queue);
                    for (key, deadline) in fetched.drain(..) {
                        // The end of its session may have returned it.
                        if store.count_delivery(key, ticks).is_ok() {
                            let _ = store.renew(key, deadline, ticks);
                        }
                    }
                }
                WriteOperation::Intent { sink, intent, .. } => self.shard.set_intent(sink, Intent::clone(intent)),
                _ => {}
            }
        }
    }
}
