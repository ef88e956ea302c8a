// SPDX-License-Identifier: Apache-2.0
//! Moves messages from a cell of their entity to a cell of the destination.
//!
//! Within one shard the move is one journal entry. Between two shards it has three steps, each written before the
//! next: store the message at the destination with its origin, remove it at the source, forget the origin at the
//! destination. If the destination knows the origin of a message at the source, the move continues with the second
//! step, so the message is neither lost nor duplicated (B-330).

use std::sync::Arc;

use oxbus_model::message::Fields;
use oxbus_model::name::SubQueue;
use oxbus_model::options::Durability;
use oxbus_model::{Counter, Moment, Result};
use oxbus_store::{LockKey, NewMessage, Outcome, Record, StoredRecord, Wait};

use super::Entity;
use crate::entity::kind::Subscribers;
use crate::entity::write_batch::WriteBatch;
use crate::record::with_dead_letter;
use crate::shard::journal::Origin;
use crate::shard::{Admission, Cell, Meter};
use crate::write::{LockEnd, Removal, ShardWrite, Ticket, WriteOperation};

/// The cell and sub-queue from which messages are moved.
#[derive(Clone, Copy)]
pub(super) struct ForwardSource<'a> {
    pub(super) sub_queue: SubQueue,
    pub(super) index: usize,
    pub(super) cell: &'a Cell,
}

/// A message to be moved, with its lock.
pub(super) struct MovingMessage {
    pub(super) key: LockKey,
    /// The record for the destination.
    pub(super) record: Record,
}

/// The write of moved messages at the destination.
struct DestinationWrite<'a> {
    batch: WriteBatch<'a>,
    /// The messages that are not duplicates, if the destination detects duplicates.
    admission: Option<Admission<'a>>,
    numbers: ForwardNumbers<'a>,
}

/// Reserved numbers of the destination cell. Dropping this gives up those that are still listed.
struct ForwardNumbers<'a> {
    cell: &'a Cell,
    /// Numbers that a topic shows to its subscriptions; its cell stores no message under them.
    fanned_out: Vec<Counter>,
    /// Numbers of scheduled messages; cleared once these are stored.
    scheduled: Vec<Counter>,
}

impl Drop for ForwardNumbers<'_> {
    fn drop(&mut self) {
        for counter in self.fanned_out.drain(..).chain(self.scheduled.drain(..)) {
            self.cell.give_up_numbers(counter, 1);
        }
    }
}

impl Entity {
    /// The origin of a message of a source cell.
    pub(super) fn origin(&self, source: ForwardSource<'_>, counter: Counter) -> Origin {
        Origin {
            entity: self.id(),
            partition: self.shard(source.index).id().0,
            is_dead_letter: source.sub_queue == SubQueue::DeadLetter,
            counter,
        }
    }

    /// Moves messages to one cell of the destination, all or none. Returns false if the write fails.
    pub(super) fn move_batch(
        &self,
        source: ForwardSource<'_>,
        (destination, to): (&Arc<Self>, usize),
        messages: &[MovingMessage],
        moment: Moment,
        wait: &Wait<'_>,
    ) -> bool {
        let target = destination.cell_for_append(to);
        let same_shard = self.shard(source.index).id() == destination.shard(to).id();
        let origin = |message: &MovingMessage| self.origin(source, message.key.counter);
        let is_new = |message: &&MovingMessage| same_shard || !target.has_arrived(&origin(message));
        let incoming: Vec<&MovingMessage> = messages.iter().filter(is_new).collect();
        let subscribers = destination.subscribers();
        let records: Vec<&Record> = incoming.iter().map(|message| &message.record).collect();
        let Ok(destination_write) = destination.destination_write(&subscribers, (target, to), &records, moment, wait)
        else {
            return false;
        };
        let DestinationWrite {
            batch,
            admission,
            mut numbers,
        } = destination_write;
        let home = if same_shard { source.cell } else { target };
        let (mut write, notifications) = batch.finish(home);
        write.reserve_operations(2 + messages.len());
        if let Some(admission) = &admission {
            write.push(WriteOperation::Seen(target, admission));
        }
        let origins: Vec<Origin> = incoming.iter().map(|message| origin(message)).collect();
        if same_shard {
            write.set_atomic();
            for message in messages {
                let complete = LockEnd::Outcome(Outcome::Complete);
                write.push(WriteOperation::settle(
                    source.cell,
                    source.sub_queue,
                    message.key,
                    complete,
                ));
            }
        } else {
            write.push(arrived_operation(target, false, origins.clone()));
        }
        if same_shard || !incoming.is_empty() {
            let done = write.commit(home, target.durability(None), wait);
            if done.is_err() {
                if !same_shard {
                    forget_origins(target, origins, wait);
                }
                return false;
            }
        }
        if let Some(admission) = &admission {
            target.meter(Meter::Duplicate, admission.duplicates());
        }
        target.meter(Meter::Sent, numbers.fanned_out.len());
        numbers.scheduled.clear();
        drop(numbers);
        if !same_shard && source.remove(messages, moment, wait) {
            forget_origins(target, messages.iter().map(origin).collect(), wait);
        }
        destination.touch(moment.now);
        notifications.announce(wait);
        true
    }

    /// Prepares the write of moved messages into a cell of this entity, a queue or a topic, by its own rules (B-337).
    fn destination_write<'a>(
        &'a self,
        subscribers: &'a Subscribers,
        (cell, index): (&'a Cell, usize),
        records: &[&Record],
        moment: Moment,
        wait: &Wait<'_>,
    ) -> Result<DestinationWrite<'a>> {
        let fields = records.iter().map(|record| Fields::decode(record));
        let fields: Vec<Fields<'_>> = fields.collect::<Result<_>>()?;
        let identities: Vec<_> = fields.iter().map(|it| self.identity_of(it)).collect::<Result<_>>()?;
        let history = cell.history();
        let admission = history
            .map(|it| it.admit(&identities, moment.now, self.settings().duplicate_window_ms, wait))
            .transpose()?;
        let mut batch = WriteBatch::new(moment);
        let mut numbers = ForwardNumbers {
            cell,
            fanned_out: Vec::new(),
            scheduled: Vec::new(),
        };
        for (position, (record, fields)) in records.iter().zip(&fields).enumerate() {
            if admission.as_ref().is_some_and(|it| !it.fresh()[position]) {
                continue;
            }
            let record = Record::clone(record);
            let expires_at = self.expires_at(fields.time_to_live_ms, moment.now);
            if let Some(due) = fields.scheduled_enqueue_time.filter(|due| *due > moment.now) {
                let counter = cell.take_numbers(1);
                numbers.scheduled.push(counter);
                let record = record.into();
                batch.schedule((self, index), counter, due, NewMessage { record, expires_at });
            } else {
                let (cell, number) = (numbers.cell, fields.enqueued_number);
                let message = (record, expires_at);
                let counter = self.add_message((index, cell), subscribers, &mut batch, message, number)?;
                numbers.fanned_out.extend(counter);
            }
        }
        Ok(DestinationWrite {
            batch,
            admission,
            numbers,
        })
    }
}

/// The operation that stores origins of messages from other shards in a cell, or forgets them.
pub(crate) fn arrived_operation(cell: &Cell, forget: bool, origins: Vec<Origin>) -> WriteOperation<'_> {
    WriteOperation::Arrived { cell, forget, origins }
}

/// Forgets the origins of messages that were removed at their source, or were not stored here.
pub(crate) fn forget_origins(cell: &Cell, origins: Vec<Origin>, wait: &Wait<'_>) {
    // No wait is needed: if this is not written, the cell only remembers an origin too long.
    let _ = cell.write_unawaited(arrived_operation(cell, true, origins), wait);
}

impl ForwardSource<'_> {
    /// Removes messages that are stored at their destination. Returns true once the removal is written.
    fn remove(&self, messages: &[MovingMessage], moment: Moment, wait: &Wait<'_>) -> bool {
        let keys: Vec<_> = messages.iter().map(|message| message.key).collect();
        let remove = WriteOperation::Remove {
            cell: self.cell,
            sub_queue: self.sub_queue,
            removal: Removal::Completed(&keys),
        };
        let mut write = ShardWrite::of(remove, moment);
        write.commit(self.cell, self.cell.durability(None), wait).is_ok()
    }

    /// Dead-letters a message that the destination rejects. Returns false on failure.
    pub(super) fn dead_letter(
        &self,
        key: LockKey,
        record: &StoredRecord,
        reason: &str,
        description: &str,
        moment: Moment,
        wait: &Wait<'_>,
    ) -> bool {
        let marked = self
            .cell
            .load(record)
            .and_then(|record| with_dead_letter(&record, Some(reason), Some(description), &[]));
        let Ok(record) = marked else {
            super::worker::unlock(self.cell, self.sub_queue, key, moment.ticks);
            return false;
        };
        let settle = WriteOperation::settle(self.cell, SubQueue::Main, key, LockEnd::DeadLetter(record));
        let mut write = ShardWrite::of(settle, moment);
        // This does not wait for the disk: if the entry is lost, the next open decides on the message again.
        let begun = write.begin(self.cell, Durability::Memory, wait);
        begun.map(Ticket::detach).is_ok()
    }
}
