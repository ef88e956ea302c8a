// SPDX-License-Identifier: Apache-2.0
//! The first half of a write: everything up to its entry in the journal.

use oxbus_model::options::Durability;
use oxbus_store::Wait;
use oxbus_store::shard_log::{AppendError, Room};

use super::error::WriteError;
use super::pins::Pins;
use super::records;
use super::settlements::{settle_remove, settle_return};
use super::shard_write::{DeadLetter, HandOut, Leaving, Operation, ShardWrite};
use super::ticket::Ticket;
use crate::shard::high_water::Ahead;
use crate::shard::journal::{Event, Journal, Pending, push_intent};
use crate::shard::{Deed, SessionLost, Shard};

/// Bytes of a mark of how far numbers go, at most.
const MARK_BYTES: usize = 32;

/// Appends an entry that uses no numbers; what to wait for. `None` in memory.
pub(super) fn append(shard: &Shard, room: Room, entry: &[u8], wait: &Wait<'_>) -> Result<Option<Pending>, AppendError> {
    let Some(journal) = shard.journal() else {
        return Ok(None);
    };
    journal.order_for(room, entry.len())?.append(room, entry).map(Some)
}

impl Shard {
    /// Starts a write. Its entry is in the journal after this, or in its buffer, and nobody has waited for a disk while they
    /// held a lock. Callers over several shards begin all writes before they finish the first: their syncs run side by side.
    ///
    /// An error leaves messages that come in where they were.
    #[inline]
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
    #[inline]
    fn start(&mut self, wait: &Wait<'_>) -> Result<(), WriteError> {
        let shard = self.shard;
        let arrives = self.write.arrives();
        let is_atomic = self.write.is_atomic;
        self.changes_later = self.write.changes_later();
        let Some(journal) = shard.journal() else {
            if is_atomic {
                self.pin()?;
            } else {
                self.settle_all(None, wait)?;
            }
            if arrives {
                self.numbers = self.write.reserve(self.write.next_numbers());
            }
            return Ok(());
        };
        let decides = self.changes_later && self.write.room() == Room::Adds;
        if arrives || is_atomic || decides {
            self.in_flight = Some(shard.health().enter(shard.id())?);
        }
        if is_atomic {
            self.pin()?;
        } else if self.changes_later {
            self.unit = Some(shard.unit());
        }
        if arrives || is_atomic {
            return self.append_arriving(journal, wait);
        }
        let mut entry = Vec::new();
        self.settle_all(Some(&mut entry), wait)?;
        if !entry.is_empty() {
            let appended = append(shard, self.write.room(), &entry, wait);
            self.pending = appended.map_err(|error| shard.refuse(&error, self.write.deed()))?;
        }
        Ok(())
    }

    /// Takes all locks and checks all sessions of an atomic write, and holds snapshots off until it has its effect.
    fn pin(&mut self) -> Result<(), WriteError> {
        self.pins = Some(Pins::take(self.write)?);
        self.unit = Some(self.shard.unit());
        for operation in &self.write.operations {
            if let Operation::SessionState { cell, accepted, .. } = operation {
                let sessions = cell.sessions().ok_or(SessionLost)?;
                sessions.state(accepted, self.write.moment.ticks)?;
            }
        }
        Ok(())
    }

    /// Lets the operations take effect that do so before they are journaled, and adds their events.
    #[inline]
    fn settle_all(&mut self, mut entry: Option<&mut Vec<u8>>, wait: &Wait<'_>) -> Result<(), WriteError> {
        let (write, done) = (&mut *self.write, &mut self.done);
        let ticks = write.moment.ticks;
        for operation in &mut write.operations {
            match operation {
                Operation::Remove {
                    cell,
                    sub_queue,
                    leaving,
                } => settle_remove(cell, *sub_queue, leaving, ticks, entry.as_deref_mut(), done)?,
                Operation::Return {
                    cell,
                    sub_queue,
                    key,
                    outcome,
                } => {
                    let outcome = std::mem::replace(outcome, oxbus_store::Outcome::Release);
                    let lock = (*cell, *sub_queue, *key);
                    settle_return(lock, outcome, ticks, entry.as_deref_mut(), done, wait)?;
                }
                Operation::DeadLetter { cell, dead_letter } => match dead_letter {
                    DeadLetter::Moved(key, record) => {
                        self.pending = cell.dead_letter_locked(*key, record, ticks, wait)?;
                        done.ended.dead_letters = 1;
                    }
                    DeadLetter::Removed(messages, reason) => {
                        let messages = std::mem::take(messages);
                        done.ended.dead_letters = cell.dead_letter_removed(messages, *reason, wait);
                    }
                    DeadLetter::New(..) => {}
                },
                Operation::SessionState { cell, accepted, state } => {
                    self.pending = records::set_state(cell, accepted, state.take(), write.moment, wait)?;
                }
                Operation::Intent { sink, intent, room } => {
                    if *room == Room::Frees {
                        self.shard.set_intent(sink, intent.clone());
                    }
                    if let Some(entry) = entry.as_deref_mut() {
                        push_intent(sink, intent.clone(), entry);
                    }
                }
                _ => {
                    if let Some(entry) = entry.as_deref_mut() {
                        operation.encode_other(write.moment, entry);
                    }
                }
            }
        }
        Ok(())
    }

    /// Gives messages numbers and appends all events in one step.
    fn append_arriving(&mut self, journal: &Journal, wait: &Wait<'_>) -> Result<(), WriteError> {
        let (shard, write) = (self.shard, &mut *self.write);
        let moment = write.moment;
        let mut others = Vec::new();
        for operation in &mut write.operations {
            operation.encode_other(moment, &mut others);
        }
        if let Some(pins) = &self.pins {
            pins.encode(write, &mut others)?;
        }
        write.encode_states(&mut others);
        let bytes = write.arriving_bytes() + others.len() + MARK_BYTES * write.cells.len();
        let room = write.room();
        let order = journal.order_for(room, bytes);
        let order = order.map_err(|error| shard.refuse(&error, Deed::Send))?;
        let mut entry = Vec::with_capacity(bytes);
        let ahead = if write.exact_numbers {
            Ahead::Nothing
        } else {
            Ahead::Usual
        };
        let numbers = write.next_numbers();
        let mut marks = smallvec::SmallVec::<[_; 1]>::new();
        for (cell, numbers) in write.cells.iter().zip(&numbers) {
            let end = numbers.first.0 + numbers.count as u64;
            let next = cell.high_water.due(end, ahead);
            if let Some(next) = next {
                Event::Number { next }.encode(cell.entity, &mut entry);
            }
            marks.push((end, next));
        }
        write.encode_arrivals(numbers.clone(), &mut entry);
        entry.append(&mut others);
        if entry.is_empty() {
            // No subscription wants the messages (B-344).
            return Ok(());
        }
        let appended = order.append(room, &entry);
        let pending = appended.map_err(|error| shard.refuse(&error, Deed::Send))?;
        for (cell, (end, next)) in write.cells.iter().zip(marks) {
            cell.high_water.note(end, next, pending.lsn);
        }
        self.numbers = write.reserve(numbers);
        self.pending = Some(pending);
        drop(order);
        if shard.memory.spills() {
            self.level = Durability::Fsync;
            self.entry = Some(entry);
        }
        Ok(())
    }
}

impl ShardWrite<'_> {
    /// True when something changes in memory once the journal has the write: no snapshot looks in between.
    fn changes_later(&self) -> bool {
        self.operations.iter().any(|operation| match operation {
            Operation::Remove {
                leaving: Leaving::Taken(_),
                ..
            }
            | Operation::Intent { room: Room::Adds, .. } => true,
            Operation::HandOut {
                then: HandOut::Delivered(fetched),
                ..
            } => !fetched.is_empty(),
            _ => false,
        })
    }

    /// Whether its entry needs room that a full disk does not have.
    fn room(&self) -> Room {
        let adds = self.operations.iter().any(|operation| match operation {
            Operation::SessionState { state, .. } => state.is_some(),
            Operation::Consumer { room, .. } | Operation::Intent { room, .. } => *room == Room::Adds,
            // The message leaves its cell with the same entry.
            Operation::Activate { message: None, .. } => false,
            other => other.arrives(),
        });
        if adds { Room::Adds } else { Room::Frees }
    }

    /// What its errors say about its effect.
    pub(super) fn deed(&self) -> Deed {
        match self.operations.first() {
            Some(Operation::HandOut {
                then: HandOut::Delivered(_),
                ..
            }) => Deed::HandOut,
            Some(Operation::Remove {
                leaving: Leaving::Taken(_),
                ..
            }) => Deed::Removal,
            Some(Operation::Intent { .. }) => Deed::Send,
            _ if self.is_atomic || self.arrives() => Deed::Send,
            _ => Deed::Change,
        }
    }

    /// Adds the events of session states that change with an atomic write.
    fn encode_states(&self, entry: &mut Vec<u8>) {
        for operation in &self.operations {
            if let Operation::SessionState { cell, accepted, state } = operation {
                records::state_event(cell, accepted, state.as_ref(), self.moment.now, entry);
            }
        }
    }
}

impl Operation<'_> {
    /// Adds the event of an operation that no store decides, and notes it where that comes first.
    fn encode_other(&mut self, _: oxbus_model::Moment, entry: &mut Vec<u8>) {
        match self {
            Self::HandOut {
                cell,
                sub_queue,
                messages,
                ..
            } => {
                let (sub_queue, messages) = (*sub_queue, std::mem::take(messages));
                Event::HandOut { sub_queue, messages }.encode(cell.entity, entry);
            }
            Self::Seen(cell, admission) if !admission.identities().is_empty() => {
                let identities = admission.dated();
                Event::Seen { identities }.encode(cell.entity, entry);
            }
            Self::Attached(cell, admission) => {
                let identities = admission.dated();
                Event::Attached { identities }.encode(cell.entity, entry);
            }
            Self::Arrived { cell, is_over, origins } => records::note_origins(cell, *is_over, origins, entry),
            Self::Consumer {
                cell,
                sub_queue,
                name,
                record,
                ..
            } => records::keep_consumer(cell, *sub_queue, name, record, entry),
            _ => {}
        }
    }
}
