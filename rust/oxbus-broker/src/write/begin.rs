// SPDX-License-Identifier: Apache-2.0
//! The first half of a write: everything up to its entry in the journal.

use oxbus_model::Moment;
use oxbus_model::options::Durability;
use oxbus_store::shard_log::{AppendError, SpaceClass};
use oxbus_store::{Outcome, Wait};

use super::cell_records;
use super::error::WriteError;
use super::pinned_locks::PinnedLocks;
use super::settlements::{settle_remove, settle_return};
use super::shard_write::{DeadLetterInput, DeliveryEffect, Removal, ShardWrite, WriteOperation};
use super::ticket::{CommittedWrite, Ticket, WriteGuards};
use crate::shard::high_water_mark::NumberReserve;
use crate::shard::journal::{Intent, Journal, JournalEvent, PendingEntry, push_intent};
use crate::shard::{CallKind, SessionLost, Shard};

/// Upper limit of the bytes of a high-water mark.
const MARK_BYTES: usize = 32;

/// Appends an entry that uses no numbers. Returns `None` without a journal.
pub(super) fn append(
    shard: &Shard,
    space_class: SpaceClass,
    entry: &[u8],
    wait: &Wait<'_>,
) -> Result<Option<PendingEntry>, AppendError> {
    let Some(journal) = shard.journal() else {
        return Ok(None);
    };
    journal
        .lock_with_space(shard.health(), space_class, entry.len(), wait)?
        .append(space_class, entry, wait)
        .map(Some)
}

impl Shard {
    /// Starts a write. Afterwards its entry is in the journal or its buffer. No lock is held during a wait for the
    /// disk. A call over several shards begins all writes before it finishes the first, so that their syncs run in
    /// parallel.
    ///
    /// After an error arriving messages are still in the write.
    pub fn begin<'w, 'a>(
        &'a self,
        write: &'w mut ShardWrite<'a>,
        level: Durability,
        wait: &Wait<'_>,
    ) -> Result<Ticket<'w, 'a>, WriteError> {
        let mut ticket = Ticket::new(self, write, level);
        ticket.start(wait)?;
        Ok(ticket)
    }
}

impl<'a> Ticket<'_, 'a> {
    pub(super) fn start(&mut self, wait: &Wait<'_>) -> Result<(), WriteError> {
        match self.shard.journal() {
            None => self.start_in_memory(wait),
            Some(journal) if self.write.takes_effect_later => self.start_later(journal, wait),
            Some(_) => self.start_journaled(wait),
        }
    }

    /// Without a journal a write takes effect here, unless it is atomic.
    fn start_in_memory(&mut self, wait: &Wait<'_>) -> Result<(), WriteError> {
        if self.write.is_atomic {
            self.pin()?;
            self.takes_effect_later = true;
        } else if !self.write.only_arrives() {
            self.settle_all(None, wait)?;
        }
        if self.write.takes_effect_later {
            self.numbers = self.write.next_numbers();
            self.write.reserve(&mut self.numbers);
            if !self.write.is_atomic {
                self.take_effect(wait);
            }
        }
        Ok(())
    }

    /// Starts a write that takes effect before it is journaled.
    fn start_journaled(&mut self, wait: &Wait<'_>) -> Result<(), WriteError> {
        let mut entry = Vec::new();
        self.settle_all(Some(&mut entry), wait)?;
        self.append_settled(&entry, wait)
    }

    /// Starts a write of which a part takes effect after the wait.
    fn start_later(&mut self, journal: &'a Journal, wait: &Wait<'_>) -> Result<(), WriteError> {
        let (shard, is_atomic) = (self.shard, self.write.is_atomic);
        let arrives = self.write.arrives() || is_atomic;
        if arrives || self.write.space_class() == SpaceClass::Adds {
            self.in_flight = Some(shard.health().enter(shard.id())?);
        }
        if is_atomic {
            self.pin()?;
        } else if !arrives {
            self.guards().snapshot_hold = Some(shard.hold_off_snapshots());
        }
        if arrives {
            self.append_arriving(journal, wait)?;
        } else {
            self.start_journaled(wait)?;
        }
        self.takes_effect_later = true;
        Ok(())
    }

    fn guards(&mut self) -> &mut WriteGuards<'a> {
        self.guards.get_or_insert_default()
    }

    /// Appends the events of operations that have taken effect.
    fn append_settled(&mut self, entry: &[u8], wait: &Wait<'_>) -> Result<(), WriteError> {
        if entry.is_empty() {
            return Ok(());
        }
        let appended = append(self.shard, self.write.space_class(), entry, wait);
        self.pending = appended.map_err(|error| self.shard.fail_call(&error, self.write.call_kind()))?;
        Ok(())
    }

    /// Pins all locks and checks all sessions of an atomic write, and holds off snapshots until it takes effect.
    fn pin(&mut self) -> Result<(), WriteError> {
        let (pins, snapshot_hold) = (PinnedLocks::pin_all(self.write)?, self.shard.hold_off_snapshots());
        let guards = self.guards();
        (guards.pins, guards.snapshot_hold) = (Some(pins), Some(snapshot_hold));
        for operation in &self.write.operations {
            if let WriteOperation::SessionState { cell, accepted, .. } = operation {
                let sessions = cell.sessions().ok_or(SessionLost)?;
                sessions.state(accepted, self.write.moment.ticks)?;
            }
        }
        Ok(())
    }

    /// Applies the operations that take effect before they are journaled, and writes their events.
    fn settle_all(&mut self, mut entry: Option<&mut Vec<u8>>, wait: &Wait<'_>) -> Result<(), WriteError> {
        let ticks = self.write.moment.ticks;
        for operation in &mut self.write.operations {
            let (entry, done) = (entry.as_deref_mut(), &mut self.done);
            match operation {
                WriteOperation::Remove {
                    cell,
                    sub_queue,
                    removal,
                } => settle_remove(cell, *sub_queue, removal, ticks, entry, done)?,
                WriteOperation::Return {
                    cell,
                    sub_queue,
                    key,
                    outcome,
                    delay,
                } => {
                    let outcome = (std::mem::replace(outcome, Outcome::Release), delay.as_ref());
                    settle_return((cell, *sub_queue, *key), outcome, ticks, entry, done, wait)?;
                }
                other => {
                    if let Some(pending) = other.change(self.shard, self.write.moment, entry, done, wait)? {
                        self.pending = Some(pending);
                    }
                }
            }
        }
        Ok(())
    }

    /// Assigns numbers and appends all events under the append guard.
    fn append_arriving(&mut self, journal: &Journal, wait: &Wait<'_>) -> Result<(), WriteError> {
        let (shard, write) = (self.shard, &mut *self.write);
        let mut others = Vec::new();
        for operation in &mut write.operations {
            operation.encode_other(&mut others);
        }
        if let Some(pins) = self.guards.as_ref().and_then(|guards| guards.pins.as_ref()) {
            pins.encode(write, &mut others)?;
        }
        write.encode_states(&mut others);
        let bytes = write.arriving_bytes() + others.len() + MARK_BYTES * write.cells.len();
        let space_class = write.space_class();
        let append_guard = journal.lock_with_space(shard.health(), space_class, bytes, wait);
        let append_guard = append_guard.map_err(|error| shard.fail_call(&error, CallKind::Send))?;
        let mut entry = Vec::with_capacity(bytes);
        let reserve = if write.exact_numbers {
            NumberReserve::Exact
        } else {
            NumberReserve::Ahead
        };
        let mut numbers = write.next_numbers();
        for (cell, numbers) in write.cells.iter().zip(&mut numbers) {
            numbers.mark = cell
                .high_water_mark
                .next_mark(numbers.next.0 + numbers.count as u64, reserve);
            if let Some(next) = numbers.mark {
                JournalEvent::Number { next }.encode(cell.entity, &mut entry);
            }
        }
        write.encode_arrivals(&mut numbers, &mut entry);
        entry.append(&mut others);
        if entry.is_empty() {
            // No subscription selects the messages (B-344).
            return Ok(());
        }
        let appended = append_guard.append(space_class, &entry, wait);
        let pending = appended.map_err(|error| shard.fail_call(&error, CallKind::Send))?;
        for (cell, numbers) in write.cells.iter().zip(&numbers) {
            // Each number has an event, so `next` is now past all of them.
            cell.high_water_mark.advance(numbers.next.0, numbers.mark, pending.lsn);
        }
        write.reserve(&mut numbers);
        self.numbers = numbers;
        self.pending = Some(pending);
        drop(append_guard);
        let spills = shard.memory.spills();
        if spills {
            self.level = Durability::Fsync;
        }
        if spills || journal.keeps_locations() {
            self.guards().entry = Some((entry, spills));
        }
        Ok(())
    }
}

impl ShardWrite<'_> {
    /// `Adds` if its entry adds data, which a full disk rejects.
    fn space_class(&self) -> SpaceClass {
        let adds = self.operations.iter().any(|operation| match operation {
            WriteOperation::SessionState { state, .. } => state.is_some(),
            WriteOperation::Consumer { space_class, .. } | WriteOperation::Intent { space_class, .. } => {
                *space_class == SpaceClass::Adds
            }
            // The same entry removes the message from its cell.
            WriteOperation::Activate { message: None, .. } => false,
            other => other.arrives(),
        });
        if adds { SpaceClass::Adds } else { SpaceClass::Frees }
    }

    /// The kind of call, for errors.
    pub(super) fn call_kind(&self) -> CallKind {
        match self.operations.first() {
            Some(WriteOperation::HandOut {
                then: DeliveryEffect::Delivered(_),
                ..
            }) => CallKind::Receive,
            Some(WriteOperation::Remove {
                removal: Removal::Received(_),
                ..
            }) => CallKind::ReceiveAndDelete,
            Some(WriteOperation::Intent { .. }) => CallKind::Send,
            _ if self.is_atomic || self.arrives() => CallKind::Send,
            _ => CallKind::Change,
        }
    }

    /// Writes the events of session states that change with an atomic write.
    fn encode_states(&self, entry: &mut Vec<u8>) {
        for operation in &self.operations {
            if let WriteOperation::SessionState { cell, accepted, state } = operation {
                cell_records::state_event(cell, accepted, state.as_ref(), self.moment.now, entry);
            }
        }
    }
}

impl WriteOperation<'_> {
    /// Applies an operation and writes its event, or appends it if both must be one step. Returns the entry to wait
    /// for.
    fn change(
        &mut self,
        shard: &Shard,
        moment: Moment,
        entry: Option<&mut Vec<u8>>,
        done: &mut CommittedWrite,
        wait: &Wait<'_>,
    ) -> Result<Option<PendingEntry>, WriteError> {
        match self {
            WriteOperation::DeadLetter { cell, dead_letter } => match dead_letter {
                DeadLetterInput::Moved(key, record) => {
                    let pending = cell.dead_letter_locked(*key, record, moment.ticks, wait)?;
                    done.ended.dead_letters = 1;
                    return Ok(pending);
                }
                DeadLetterInput::Removed(messages, reason) => {
                    let messages = std::mem::take(messages);
                    done.ended.dead_letters = cell.dead_letter_removed(messages, *reason, wait);
                }
                DeadLetterInput::New(..) => {}
            },
            WriteOperation::SessionState { cell, accepted, state } => {
                return cell_records::set_state(cell, accepted, state.take(), moment, wait);
            }
            WriteOperation::Intent {
                sink,
                intent,
                space_class,
            } => {
                if *space_class == SpaceClass::Frees {
                    shard.set_intent(sink, Intent::clone(intent));
                }
                if let Some(entry) = entry {
                    push_intent(sink, Intent::clone(intent), entry);
                }
            }
            other => {
                if let Some(entry) = entry {
                    other.encode_other(entry);
                }
            }
        }
        Ok(None)
    }

    /// Writes the event of an operation that no store decides. Origins and consumers are stored first.
    fn encode_other(&mut self, entry: &mut Vec<u8>) {
        match self {
            Self::HandOut {
                cell,
                sub_queue,
                messages,
                ..
            } => {
                let (sub_queue, messages) = (*sub_queue, std::mem::take(messages));
                JournalEvent::HandOut { sub_queue, messages }.encode(cell.entity, entry);
            }
            Self::Seen(cell, admission) if !admission.identities().is_empty() => {
                let identities = admission.dated();
                JournalEvent::Seen { identities }.encode(cell.entity, entry);
            }
            Self::Attached(cell, admission) => {
                let identities = admission.dated();
                JournalEvent::Attached { identities }.encode(cell.entity, entry);
            }
            Self::Arrived { cell, forget, origins } => cell_records::note_origins(cell, *forget, origins, entry),
            Self::Consumer {
                cell,
                sub_queue,
                name,
                record,
                ..
            } => cell_records::store_consumer(cell, *sub_queue, name, record, entry),
            _ => {}
        }
    }
}
