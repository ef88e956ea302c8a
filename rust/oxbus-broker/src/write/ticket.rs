// SPDX-License-Identifier: Apache-2.0
//! The second half of a write: the wait for its entry, and what takes effect behind it.

use oxbus_model::options::Durability;
use oxbus_model::{Counter, Effect};
use oxbus_store::extent::ExtentLocation;
use oxbus_store::shard_log::{AppendError, LogFailure};
use oxbus_store::{LockKey, Wait};

use super::arrivals::NumbersByCell;
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
#[must_use = "nothing may be acknowledged before the ticket is finished"]
pub struct Ticket<'w, 'a> {
    pub(super) shard: &'a Shard,
    pub(super) write: &'w mut ShardWrite<'a>,
    /// How safe the entry is to be.
    pub(super) level: Durability,
    /// `None` in memory, and when nothing is journaled.
    pub(super) pending: Option<PendingEntry>,
    pub(super) done: CommittedWrite,
    /// Something takes effect behind the wait.
    pub(super) takes_effect_later: bool,
    /// The numbers of the messages that come in behind the wait.
    pub(super) numbers: NumbersByCell,
    pub(super) guards: Option<Box<WriteGuards<'a>>>,
    /// Last: a panic is noticed when all else is dropped.
    pub(super) in_flight: Option<InFlightSend<'a>>,
}

/// What some writes hold until they have taken effect.
#[derive(Debug, Default)]
pub(super) struct WriteGuards<'a> {
    /// The entry, when its messages are to stay on disk.
    pub(super) entry: Option<Vec<u8>>,
    /// The locks of an atomic write.
    pub(super) pins: Option<PinnedLocks<'a>>,
    /// Keeps snapshots from looking while the write is journaled and has not taken effect.
    pub(super) snapshot_hold: Option<BarrierGuard<'a>>,
}

/// Finishes writes in several shards: all their entries are on their way before the first is waited for.
pub fn finish_all(
    tickets: Vec<Ticket<'_, '_>>,
    wait: &Wait<'_>,
) -> impl Iterator<Item = Result<CommittedWrite, WriteError>> {
    tickets.iter().skip(1).for_each(Ticket::start_sync);
    tickets.into_iter().map(|ticket| ticket.finish(wait))
}

/// What a write did.
#[derive(Debug, Default)]
pub struct CommittedWrite {
    /// The number of the first message of the first cell.
    pub first: Counter,
    /// Messages that are ready in the first cell.
    pub ready: usize,
    /// What became ready by the end of locks.
    pub ended: ReadyCounts,
    /// The positions of locks that were lost, of a list.
    pub lost: Vec<usize>,
    /// What became ready by each settlement of an atomic write.
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

    /// What has had its effect already: the ends of locks that are not part of an atomic write.
    pub fn done(&self) -> &CommittedWrite {
        &self.done
    }

    /// True when there is something to wait for.
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Has the entry made as safe as it is to be while the caller waits for another write.
    pub fn start_sync(&self) {
        if let Some(pending) = &self.pending {
            let leaves_memory = self.done.ended.dead_letters > 0 && self.shard.has_unspilled();
            pending.begin(if leaves_memory { Durability::Fsync } else { self.level });
        }
    }

    /// Leaves the write without a wait: if it is lost with the process, it happens again by itself.
    pub fn detach(self) -> CommittedWrite {
        debug_assert!(!self.takes_effect_later, "it has taken effect");
        self.done
    }

    /// Waits until the entry is as safe as it is to be, and lets the write take effect. After an error the write is as it was,
    /// unless its effect is unknown.
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
        let waited = self.shard.timed(self.write.call(), || {
            self.await_numbers(pending, wait)
                .and_then(|()| pending.wait(self.level, wait))
        });
        let Err(error) = waited else {
            if self.done.ended.dead_letters > 0 {
                // Calls must not fill the memory: what they dead-letter leaves it before they end.
                self.shard.spill_dead_letters_after(pending, wait);
            }
            return Ok(());
        };
        // First: once its numbers are given up, the shard may heal, and would be put out of service again.
        let cause = self.shard.entry_failed(pending, &error, self.write.call());
        self.write.give_up(&self.numbers);
        let is_unconfirmed = matches!(error, AppendError::Unknown(LogFailure::Silent));
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

    /// Waits until the numbers may be shown: one that was shown is not given out again even when the entry is lost with the
    /// power.
    fn await_numbers(&self, pending: &PendingEntry, wait: &Wait<'_>) -> Result<(), AppendError> {
        if self.write.exact_numbers {
            return Ok(());
        }
        let mut cells = self.write.cells.iter();
        cells.try_for_each(|cell| pending.wait_for(cell.high_water_mark.covered_at(), Durability::Fsync, wait))
    }

    /// Lets the rest take effect: the journal has the write, or there is none.
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

    /// Where the messages stand in the journal, when they are to stay there.
    fn locations(&self) -> Option<Vec<ExtentLocation>> {
        let entry = self.guards.as_ref()?.entry.as_ref()?;
        let location = self.pending.as_ref()?.location.as_ref()?;
        Some(record_locations(entry, location))
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

    /// Ends the locks of what is gone now, and charges what was fetched.
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
                    // One that a cache took out before is not there any more.
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
                        // A session that ended meanwhile has given it back.
                        if store.charge(key, u32::MAX, ticks).is_ok() {
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
