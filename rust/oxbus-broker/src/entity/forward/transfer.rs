// SPDX-License-Identifier: Apache-2.0
//! Messages on their way from a cell of their entity to a cell of the destination.
//!
//! In one shard that is one entry of the journal. Between two it is three steps, each written before the next: stored there
//! with the origin, removed here, origin forgotten there. What is found here while its origin is known there goes on with
//! the second step, so it is neither lost nor doubled (B-330).

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
use crate::shard::{Admission, Cell};
use crate::write::{LockEnd, Removal, ShardWrite, Ticket, WriteOperation};

/// Where messages are moved from.
#[derive(Clone, Copy)]
pub(super) struct ForwardSource<'a> {
    pub(super) sub_queue: SubQueue,
    pub(super) index: usize,
    pub(super) cell: &'a Cell,
}

/// A message on its way, with the hold on it.
pub(super) struct MovingMessage {
    pub(super) key: LockKey,
    /// As the destination gets it.
    pub(super) record: Record,
}

/// Messages as the destination gets them.
struct DestinationWrite<'a> {
    batch: WriteBatch<'a>,
    /// Which are new, where copies are dropped.
    admission: Option<Admission<'a>>,
    numbers: ForwardNumbers<'a>,
}

/// Numbers that were taken for messages. Those that no message has are given up when it is dropped.
struct ForwardNumbers<'a> {
    cell: &'a Cell,
    taken: Vec<Counter>,
    /// Of these, messages that wait for their time.
    waiting: Vec<Counter>,
}

impl Drop for ForwardNumbers<'_> {
    fn drop(&mut self) {
        for counter in self.taken.drain(..).chain(self.waiting.drain(..)) {
            self.cell.give_up_numbers(counter, 1);
        }
    }
}

impl Entity {
    /// Where a message comes from.
    pub(super) fn origin(&self, source: ForwardSource<'_>, counter: Counter) -> Origin {
        Origin {
            entity: self.id(),
            partition: self.shard(source.index).id().0,
            is_dead_letter: source.sub_queue == SubQueue::DeadLetter,
            counter,
        }
    }

    /// Moves messages to one cell of the destination, all or none.
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
        let origin = |moving: &MovingMessage| self.origin(source, moving.key.counter);
        let is_new = |moving: &&MovingMessage| same_shard || !target.has_arrived(&origin(moving));
        let incoming: Vec<&MovingMessage> = messages.iter().filter(is_new).collect();
        let subscribers = destination.subscribers();
        let records: Vec<&Record> = incoming.iter().map(|moving| &moving.record).collect();
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
        let origins: Vec<Origin> = incoming.iter().map(|moving| origin(moving)).collect();
        if same_shard {
            write.set_atomic();
            for moving in messages {
                let complete = LockEnd::Outcome(Outcome::Complete);
                write.push(WriteOperation::settle(
                    source.cell,
                    source.sub_queue,
                    moving.key,
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
        numbers.waiting.clear();
        drop(numbers);
        if !same_shard && source.remove(messages, moment, wait) {
            forget_origins(target, messages.iter().map(origin).collect(), wait);
        }
        destination.touch(moment.now);
        notifications.announce(wait);
        true
    }

    /// Messages for a cell of this entity, which is a queue or a topic, by its own rules (B-337).
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
            taken: Vec::new(),
            waiting: Vec::new(),
        };
        for (position, (record, fields)) in records.iter().zip(&fields).enumerate() {
            if admission.as_ref().is_some_and(|it| !it.fresh()[position]) {
                continue;
            }
            let record = Record::clone(record);
            let expires_at = self.expires_at(fields.time_to_live_ms, moment.now);
            if let Some(due) = fields.scheduled_enqueue_time.filter(|due| *due > moment.now) {
                let counter = cell.take_numbers(1);
                numbers.waiting.push(counter);
                let record = record.into();
                batch.schedule((self, index), counter, due, NewMessage { record, expires_at });
            } else {
                let (cell, number) = (numbers.cell, fields.enqueued_number);
                let destination_write = (record, expires_at);
                let counter = self.add_message((index, cell), subscribers, &mut batch, destination_write, number)?;
                numbers.taken.extend(counter);
            }
        }
        Ok(DestinationWrite {
            batch,
            admission,
            numbers,
        })
    }
}

/// The operation of messages that came to a cell from other shards, or have left there.
pub(crate) fn arrived_operation(cell: &Cell, is_over: bool, origins: Vec<Origin>) -> WriteOperation<'_> {
    WriteOperation::Arrived { cell, is_over, origins }
}

/// Forgets where messages came from: they have left there, or did not come.
pub(crate) fn forget_origins(cell: &Cell, origins: Vec<Origin>, wait: &Wait<'_>) {
    // Not waited for: until it is written, an origin is known for which there is nothing.
    let _ = cell.write_unawaited(arrived_operation(cell, true, origins), wait);
}

impl ForwardSource<'_> {
    /// Removes messages that are stored at their destination; true once that is written.
    fn remove(&self, messages: &[MovingMessage], moment: Moment, wait: &Wait<'_>) -> bool {
        let keys: Vec<_> = messages.iter().map(|moving| moving.key).collect();
        let remove = WriteOperation::Remove {
            cell: self.cell,
            sub_queue: self.sub_queue,
            removal: Removal::Completed(&keys),
        };
        let mut write = ShardWrite::of(remove, moment);
        write.commit(self.cell, self.cell.durability(None), wait).is_ok()
    }

    /// Moves a message that will not be taken to the dead-letter queue of its entity.
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
        // Not waited for: until it is on disk the next open forwards the message again.
        let begun = write.begin(self.cell, Durability::Memory, wait);
        begun.map(Ticket::detach).is_ok()
    }
}
