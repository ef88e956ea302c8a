// SPDX-License-Identifier: Apache-2.0
//! Locks that end with an atomic write, all or none (B-306 … B-330).
//!
//! Before the write is journaled, each lock gets a key that only the write knows, and loses its deadline. So no other
//! call can settle its message, and nothing can fail once the write is in the journal. A write that fails restores the
//! keys and deadlines.

use oxbus_model::Ticks;
use oxbus_model::name::SubQueue;
use oxbus_store::{LockKey, LockLost, MessageStore, Outcome, Record, RemovedMessage, SettleResult, Wait};

use super::DeadLetterReason;
use super::error::{Cause, WriteError};
use super::settlements::{end_lock, event_of, removed};
use super::shard_write::{DeadLetterInput, Removal, ShardWrite, WriteOperation};
use crate::shard::journal::{JournalEvent, RecordChange};
use crate::shard::{Cell, Meter, ReadyCounts};

/// A lock pinned by a write.
#[derive(Debug)]
pub(super) struct PinnedLock<'a> {
    cell: &'a Cell,
    sub_queue: SubQueue,
    /// The receiver's key.
    before: LockKey,
    /// The key while it is pinned.
    key: LockKey,
    /// The original deadline.
    deadline: Ticks,
}

/// All locks that end with a write, in the order of their operations.
#[derive(Debug, Default)]
pub(super) struct PinnedLocks<'a> {
    locks: Vec<PinnedLock<'a>>,
    ticks: Ticks,
}

impl Drop for PinnedLocks<'_> {
    /// Restores the locks after a failed write.
    fn drop(&mut self) {
        for lock in self.locks.drain(..) {
            let store = lock.cell.store(lock.sub_queue);
            let back = store.rekey(lock.key, lock.before.generation, lock.deadline, self.ticks);
            debug_assert!(back.is_ok(), "only this write knows the key");
        }
    }
}

impl<'a> PinnedLocks<'a> {
    /// Pins the locks of all settlements, or none if one of them is lost.
    pub(super) fn pin_all(write: &ShardWrite<'a>) -> Result<Self, WriteError> {
        let mut pins = Self {
            locks: Vec::new(),
            ticks: write.moment.ticks,
        };
        for operation in &write.operations {
            let Some((cell, sub_queue, before)) = lock_of(operation) else {
                continue;
            };
            match PinnedLock::pin(cell, sub_queue, before, pins.ticks) {
                Ok(lock) => pins.locks.push(lock),
                Err(LockLost) => return Err(WriteError::none(Cause::LockLost(pins.locks.len()))),
            }
        }
        Ok(pins)
    }

    /// Writes the events of the settlements.
    pub(super) fn encode(&self, write: &ShardWrite<'_>, entry: &mut Vec<u8>) -> Result<(), WriteError> {
        let settlements = write.operations.iter().filter(|it| lock_of(it).is_some());
        for (position, (operation, lock)) in settlements.zip(&self.locks).enumerate() {
            lock.encode(operation, entry).map_err(|error| match error.cause {
                Cause::LockLost(_) => WriteError::none(Cause::LockLost(position)),
                _ => error,
            })?;
        }
        Ok(())
    }

    /// Ends the locks once the write is in the journal. Returns what became ready, by settlement.
    pub(super) fn end(&mut self, write: &mut ShardWrite<'_>, wait: &Wait<'_>) -> Vec<ReadyCounts> {
        let ticks = self.ticks;
        let settlements = write.operations.iter_mut().filter(|it| lock_of(it).is_some());
        let ended = settlements.zip(self.locks.drain(..));
        ended
            .map(|(operation, lock)| lock.end(operation, ticks, wait))
            .collect()
    }
}

/// The lock that an operation ends.
fn lock_of<'a>(operation: &WriteOperation<'a>) -> Option<(&'a Cell, SubQueue, LockKey)> {
    match operation {
        WriteOperation::Return {
            cell, sub_queue, key, ..
        }
        | WriteOperation::Remove {
            cell,
            sub_queue,
            removal: Removal::One(key),
        } => Some((cell, *sub_queue, *key)),
        WriteOperation::DeadLetter {
            cell,
            dead_letter: DeadLetterInput::Moved(key, _),
        } => Some((cell, SubQueue::Main, *key)),
        _ => None,
    }
}

impl<'a> PinnedLock<'a> {
    fn pin(cell: &'a Cell, sub_queue: SubQueue, before: LockKey, ticks: Ticks) -> Result<Self, LockLost> {
        let key = before.next();
        let store = cell.store(sub_queue);
        let deadline = store.rekey(before, key.generation, Ticks::OPEN_END, ticks)?;
        Ok(Self {
            cell,
            sub_queue,
            before,
            key,
            deadline,
        })
    }

    fn encode(&self, operation: &WriteOperation<'_>, entry: &mut Vec<u8>) -> Result<(), WriteError> {
        match operation {
            WriteOperation::Return { outcome, delay, .. } => {
                event_of(self.cell, self.sub_queue, self.key, (outcome, delay.as_ref()), entry)
            }
            WriteOperation::DeadLetter {
                dead_letter: DeadLetterInput::Moved(_, record),
                ..
            } => self.encode_dead_letter(record, entry),
            _ => {
                removed(self.cell, self.sub_queue, [self.key.counter], entry);
                Ok(())
            }
        }
    }

    fn encode_dead_letter(&self, record: &Record, entry: &mut Vec<u8>) -> Result<(), WriteError> {
        let message = self.cell.peek_one(self.key.counter).ok_or(LockLost)?;
        let event = JournalEvent::DeadLetter {
            counter: message.counter,
            enqueued_at: message.enqueued_at,
            expires_at: message.expires_at,
            delivery_count: message.delivery_count,
            record: RecordChange::of(record, message.record.in_memory()),
        };
        event.encode(self.cell.entity, entry);
        Ok(())
    }

    /// Ends the lock as the operation requires. Returns what became ready.
    fn end(self, operation: &mut WriteOperation<'_>, ticks: Ticks, wait: &Wait<'_>) -> ReadyCounts {
        let Self {
            cell, sub_queue, key, ..
        } = self;
        let mut ended = ReadyCounts::default();
        let settled = match operation {
            WriteOperation::DeadLetter {
                dead_letter: DeadLetterInput::Moved(_, record),
                ..
            } => {
                ended.dead_letters = 1;
                cell.meter_settled(Meter::Rejected, [key]);
                // Under one lock, so that the message is always visible in one of the queues.
                cell.shard.with_cell_state(cell.state_id, |state| {
                    let settled = cell.main.settle(key, Outcome::Remove, ticks)?;
                    if let SettleResult::Removed(message) = settled {
                        let record = record.clone().into();
                        state.dead_letters.insert(RemovedMessage { record, ..message });
                    }
                    Ok(SettleResult::Completed)
                })
            }
            WriteOperation::Return { outcome, delay, .. } => {
                let outcome = std::mem::replace(outcome, Outcome::Release);
                end_lock(cell, sub_queue, key, (outcome, delay.as_ref()), ticks)
            }
            // Whoever made the write counts it: a message that is forwarded was not completed by a receiver.
            _ => cell.store(sub_queue).settle(key, Outcome::Complete, ticks),
        };
        debug_assert!(settled.is_ok(), "only this write knows the key");
        match settled {
            Ok(SettleResult::Exhausted(message)) => {
                ended.dead_letters =
                    cell.dead_letter_removed(vec![message], DeadLetterReason::DeliveriesExhausted, wait);
            }
            Ok(SettleResult::Ready) => ended = ReadyCounts::of(sub_queue, 1),
            Ok(SettleResult::Completed | SettleResult::Deferred | SettleResult::Held(_) | SettleResult::Removed(_))
            | Err(LockLost) => {}
        }
        ended
    }
}
