// SPDX-License-Identifier: Apache-2.0
//! A sender: validates, chooses the partition, stores, announces.
//!
//! Everything that can refuse a message is checked before its number is taken, so numbers have no gaps (B-105).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use oxbus_model::caps::MESSAGE_SIZE_BYTES_MAX;
use oxbus_model::message::{AssignedId, Fields};
use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Error, ErrorKind, PartitionId, Result, SequenceNumber, Timestamp};
use oxbus_store::{MessageStore, NewMessage, Record};

use super::batch::{Batch, Entry};
use crate::clock::random_bytes;
use crate::entity::Queue;
use crate::record;
use crate::routing::{RoundRobin, Route, route};
use crate::shard::Cell;

/// Bytes a stored message takes beyond its record, for the memory limit.
const SLOT_BYTES: usize = 40;

/// A sender to one queue.
pub struct Sender {
    queue: Arc<Queue>,
    turn: RoundRobin,
    id_prefix: u64,
    id_count: AtomicU64,
    closed: AtomicBool,
}

impl Sender {
    pub(crate) fn new(queue: Arc<Queue>) -> Result<Self> {
        let first = queue.core().next_turn();
        Ok(Self {
            queue,
            turn: RoundRobin::starting_at(first),
            id_prefix: u64::from_ne_bytes(random_bytes()?),
            id_count: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        })
    }

    /// The queue it sends to.
    #[inline]
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Ends the sender: later sends fail.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// True after [`Sender::close`].
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// A message id that no other message has (B-067).
    #[inline]
    pub fn assign_id(&self) -> AssignedId {
        AssignedId::new(self.id_prefix, self.id_count.fetch_add(1, Ordering::Relaxed))
    }

    /// Refuses when the sender or the queue cannot send now.
    #[inline]
    pub fn check_sends(&self) -> Result<()> {
        if self.is_closed() {
            return Err(Error::new(
                ErrorKind::Closed,
                "the sender was closed; get a new one from the client",
            ));
        }
        self.queue.check_sends()
    }

    /// Stores one message.
    pub fn send(&self, fields: &Fields<'_>) -> Result<SequenceNumber> {
        self.check_sends()?;
        fields.check()?;
        let route = route(fields.key()?, self.queue.partitions());
        let len = fields.encoded_len();
        self.check_size(len)?;
        let now = self.queue.core().clock().now();
        let (index, cell) = self.admit(route, len, 1)?;
        let record = record::encode(fields);
        let entry = Entry {
            record,
            time_to_live_ms: fields.time_to_live_ms,
            due: fields.scheduled_enqueue_time,
        };
        let (counter, ready) = self.store(cell, entry, now);
        self.queue.touch(now);
        self.announce(index, ready);
        Ok(Queue::sequence_number(index, counter))
    }

    /// Stores all messages of a batch in one partition, or none. Their numbers in order.
    pub fn send_batch(&self, batch: Batch) -> Result<Vec<SequenceNumber>> {
        self.check_sends()?;
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.check_size(batch.largest_message_bytes())?;
        // Only a partitioned entity needs one key for all (B-084).
        let key = if self.queue.is_partitioned() {
            batch.key()?
        } else {
            None
        };
        let count = batch.len();
        let now = self.queue.core().clock().now();
        let (index, cell) = self.admit(route(key, self.queue.partitions()), batch.size_bytes(), count)?;
        let mut ready = 0;
        let numbers = if batch.entries.iter().all(|entry| entry.due.is_none()) {
            let mut messages = batch
                .entries
                .into_iter()
                .map(|entry| self.new_message(entry.record, entry.time_to_live_ms, now))
                .collect();
            let first = cell.main().append(&mut messages, now);
            ready = count;
            (first.0..)
                .take(count)
                .map(|counter| Queue::sequence_number(index, Counter(counter)))
                .collect()
        } else {
            let store = |entry| {
                let (counter, active) = self.store(cell, entry, now);
                ready += active;
                Queue::sequence_number(index, counter)
            };
            batch.entries.into_iter().map(store).collect()
        };
        self.queue.touch(now);
        self.announce(index, ready);
        Ok(numbers)
    }

    /// Where a row of a table goes (B-061 … B-073).
    pub fn route(&self, fields: &Fields<'_>) -> Result<Route> {
        Ok(route(fields.key()?, self.queue.partitions()))
    }

    /// The partitions in the order in which a keyless message tries them.
    pub fn turn(&self) -> impl Iterator<Item = PartitionId> + use<> {
        self.turn.turn(self.queue.partitions())
    }

    /// Stores rows of a table in one partition, all or none, in order. `rows` is left as it was when that fails.
    pub fn send_rows(&self, partition: PartitionId, rows: &mut Vec<Row>) -> Result<()> {
        self.check_sends()?;
        let bytes = rows.iter().map(|row| row.0.record.len()).sum();
        let index = usize::from(partition.0);
        let now = self.queue.core().clock().now();
        let cell = self.admit_to(index, bytes, rows.len())?;
        let mut ready = rows.len();
        if rows.iter().all(|row| row.0.due.is_none()) {
            let mut messages = rows
                .drain(..)
                .map(|Row(entry)| self.new_message(entry.record, entry.time_to_live_ms, now))
                .collect();
            cell.main().append(&mut messages, now);
        } else {
            ready = rows.drain(..).map(|Row(entry)| self.store(cell, entry, now).1).sum();
        }
        self.queue.touch(now);
        self.announce(index, ready);
        Ok(())
    }

    /// Removes scheduled messages: all of one partition, or none (B-238).
    pub fn cancel_scheduled(&self, numbers: &[SequenceNumber]) -> Result<()> {
        self.check_sends()?;
        let Some(first) = numbers.first() else { return Ok(()) };
        if numbers.iter().any(|number| number.partition() != first.partition()) {
            let detail =
                "sequence numbers of different partitions cannot be cancelled in one call; make one call per partition";
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        let missing = |counters: Vec<Counter>| {
            let shown: Vec<String> = counters.iter().map(|counter| counter.0.to_string()).collect();
            let detail = format!("Messages not found. Missing sequence numbers: {}", shown.join(", "));
            Error::new(ErrorKind::MessageNotFound, detail)
        };
        let counters: Vec<Counter> = numbers.iter().map(|number| number.counter()).collect();
        let Some(index) = self.queue.index_of(*first) else {
            return Err(missing(counters));
        };
        self.queue.shard(index).health().check_serves(first.partition())?;
        let Some(cell) = self.queue.cell(index) else {
            return Err(missing(counters));
        };
        let core = self.queue.core();
        self.queue.tick(core.clock().moment());
        cell.cancel_scheduled(&counters).map_err(missing)
    }

    /// Stores one entry as active or scheduled; how many became ready.
    fn store(&self, cell: &Cell, entry: Entry, now: Timestamp) -> (Counter, usize) {
        let message = self.new_message(entry.record, entry.time_to_live_ms, now);
        match entry.due {
            Some(due) if due > now => (cell.schedule(message, due, now), 0),
            _ => (cell.main().append_one(message, now), 1),
        }
    }

    fn new_message(&self, record: Record, time_to_live_ms: Option<u64>, now: Timestamp) -> NewMessage {
        NewMessage {
            record,
            expires_at: self.queue.expires_at(time_to_live_ms, now),
        }
    }

    /// Rings for what is ready; a schedule changes when the sleepers must look again, so it rings too.
    fn announce(&self, index: usize, ready: usize) {
        let receivable = self.queue.receivable(SubQueue::Main);
        if ready > 0 {
            receivable.publish(index, ready);
        } else {
            receivable.doorbell.ring_all();
        }
    }

    fn check_size(&self, bytes: usize) -> Result<()> {
        let max = self.queue.message_size_bytes_max();
        if bytes <= max {
            return Ok(());
        }
        let advice = if max < MESSAGE_SIZE_BYTES_MAX {
            " or raise max_message_size_in_kilobytes of the queue"
        } else {
            ""
        };
        let detail = format!("the message is too large; send less{advice}: size={bytes} bytes, limit={max} bytes");
        Err(Error::new(ErrorKind::MessageSizeExceeded, detail))
    }

    /// The cell that takes the message: the key's or none; without a key the first in turn that can.
    fn admit(&self, route: Route, bytes: usize, messages: usize) -> Result<(usize, &Cell)> {
        match route {
            Route::Keyed(partition) => {
                let index = usize::from(partition.0);
                Ok((index, self.admit_to(index, bytes, messages)?))
            }
            Route::Keyless => {
                let mut refusal = None;
                for partition in self.turn() {
                    let index = usize::from(partition.0);
                    match self.admit_to(index, bytes, messages) {
                        Ok(cell) => return Ok((index, cell)),
                        Err(error) => refusal = Some(error),
                    }
                }
                Err(refusal.expect("an entity has at least one partition"))
            }
        }
    }

    fn admit_to(&self, index: usize, bytes: usize, messages: usize) -> Result<&Cell> {
        let shard = self.queue.shard(index);
        shard.health().check_send(shard.id())?;
        self.queue.core().check_memory(bytes + messages * SLOT_BYTES)?;
        let cell = self.queue.cell_for_append(index);
        if cell.has_schedule() {
            // What became active before this message comes before it.
            self.queue.tick(self.queue.core().clock().moment());
        }
        if let Some(max) = self.queue.size_bytes_max()
            && !cell.has_room(bytes as u64, max)
        {
            let detail = format!(
                "The maximum entity size has been reached or exceeded for Queue: '{}'. Receive and complete messages of that \
                 partition, or raise max_size_in_megabytes. Partition: {}, Max entity size in bytes: {max}.",
                self.queue.name().as_str(),
                shard.id()
            );
            return Err(Error::new(ErrorKind::QuotaExceeded, detail));
        }
        Ok(cell)
    }
}

/// A row of a table, encoded and checked.
#[derive(Debug)]
pub struct Row(Entry);

impl Row {
    /// Checks and encodes the fields of a row.
    pub fn new(fields: &Fields<'_>, size_bytes_max: usize) -> Result<Self> {
        fields.check()?;
        let len = fields.encoded_len();
        if len > size_bytes_max {
            let detail = format!("the message is too large; send less: size={len} bytes, limit={size_bytes_max} bytes");
            return Err(Error::new(ErrorKind::MessageSizeExceeded, detail));
        }
        Ok(Self(Entry {
            record: record::encode(fields),
            time_to_live_ms: fields.time_to_live_ms,
            due: fields.scheduled_enqueue_time,
        }))
    }
}
