// SPDX-License-Identifier: Apache-2.0
//! A sender: validates, chooses the partition, stores, announces.
//!
//! Everything that can refuse a message is checked before its number is taken, so numbers have no gaps (B-105).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use oxbus_model::caps::{MESSAGE_SIZE_BYTES_MAX, STORE_ANSWER_MS_MAX};
use oxbus_model::message::Fields;
use oxbus_model::name::SubQueue;
use oxbus_model::options::Durability;
use oxbus_model::tier::Tier;
use oxbus_model::{Counter, Effect, Error, ErrorKind, PartitionId, Result, SequenceNumber, Timestamp};
use oxbus_store::{MessageStore, NewMessage, Record, leave};

use super::batch::{Batch, Entry};
use crate::clock::leaving_after;
use crate::entity::Entity;
use crate::entity::topic::Terms;
use crate::record;
use crate::routing::{RoundRobin, Route, route};
use crate::shard::{Admission, Arrival, Cell, Refusal};

/// A sender to one queue.
pub struct Sender {
    pub(super) queue: Arc<Entity>,
    turn: RoundRobin,
    /// What the last send got: 0 before the first, or 1 + durability.
    reached: AtomicU8,
    closed: AtomicBool,
}

/// Messages on their way to a cell.
pub(super) enum Outgoing {
    Active(Vec<NewMessage>),
    /// Some wait for their time.
    Mixed(Vec<Arrival>),
}

impl Sender {
    pub(crate) fn new(queue: Arc<Entity>) -> Self {
        let first = queue.core().next_turn();
        Self {
            queue,
            turn: RoundRobin::starting_at(first),
            reached: AtomicU8::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// The queue it sends to.
    #[inline]
    pub fn queue(&self) -> &Arc<Entity> {
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

    /// What the last send is safe from; `None` before the first.
    pub fn last_durability(&self) -> Option<Durability> {
        match self.reached.load(Ordering::Relaxed) {
            1 => Some(Durability::Memory),
            2 => Some(Durability::Os),
            3 => Some(Durability::Fsync),
            _ => None,
        }
    }

    pub(super) fn reach(&self, durability: Durability) {
        self.reached.store(1 + durability as u8, Ordering::Relaxed);
    }

    /// Stores one message.
    pub fn send(&self, fields: &Fields<'_>, durability: Option<Durability>) -> Result<SequenceNumber> {
        self.check_sends()?;
        fields.check()?;
        let route = route(self.queue.key_of(fields)?, self.queue.partitions());
        let len = fields.encoded_len();
        self.check_size(len)?;
        let core = self.queue.core();
        let now = core.clock().now();
        let identity = self.queue.identity_of(fields)?;
        if core.is_durable() || identity.is_some() || fields.scheduled_enqueue_time.is_some_and(|due| due > now) {
            let entry = Entry {
                record: record::encode_sized(len, fields),
                time_to_live_ms: fields.time_to_live_ms,
                due: fields.scheduled_enqueue_time,
            };
            let sent = self.store_new(route, len, vec![entry], &[identity], now, durability)?;
            return Ok(sent.numbers(1)[0]);
        }
        let (index, cell) = self.admit(route, len, 1)?;
        if self.queue.is_topic() {
            let counter = self.queue.send_to_subscriptions(index, cell, *fields, now)?;
            self.reach(Durability::Memory);
            self.queue.touch(now);
            return Ok(Entity::sequence_number(index, counter));
        }
        let message = self.new_message(record::encode_sized(len, fields), fields.time_to_live_ms, now);
        let counter = cell.main().append_one(message, now);
        self.reach(Durability::Memory);
        self.queue.touch(now);
        self.queue.publish_after_fence(index);
        Ok(Entity::sequence_number(index, counter))
    }

    /// Stores all messages of a batch in one partition, or none. Their numbers in order.
    pub fn send_batch(&self, batch: Batch, durability: Option<Durability>) -> Result<Vec<SequenceNumber>> {
        self.check_sends()?;
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.check_size(batch.largest_message_bytes())?;
        self.check_batch_size(&batch)?;
        let (count, bytes) = (batch.len(), batch.size_bytes());
        let route = self.route_batch(&batch)?;
        let identities = self.identities(&batch.entries)?;
        let now = self.queue.core().clock().now();
        let sent = self.store_new(route, bytes, batch.entries, &identities, now, durability)?;
        Ok(sent.numbers(count))
    }

    /// Where a row of a table goes (B-061 … B-073).
    pub fn route(&self, fields: &Fields<'_>) -> Result<Route> {
        Ok(route(self.queue.key_of(fields)?, self.queue.partitions()))
    }

    /// The partitions in the order in which a keyless message tries them.
    pub fn turn(&self) -> impl Iterator<Item = PartitionId> + use<> {
        self.turn.turn(self.queue.partitions())
    }

    /// Stores rows of a table in one partition, all or none, in order. `rows` is left as it was when that fails.
    pub fn send_rows(&self, partition: PartitionId, rows: &mut Vec<Row>) -> std::result::Result<(), Refusal> {
        self.check_sends()?;
        let bytes = rows.iter().map(|row| row.0.record.len()).sum();
        let (count, now) = (rows.len(), self.queue.core().clock().now());
        if self.queue.core().is_durable() || self.queue.detects_duplicates() || self.queue.is_topic() {
            // The rows stay whole until all are stored: they may go elsewhere when this fails.
            let entries: Vec<Entry> = rows.iter().map(|Row(entry)| entry.clone()).collect();
            let identities = self.identities(&entries)?;
            self.store_new(Route::Keyed(partition), bytes, entries, &identities, now, None)?;
            rows.clear();
            return Ok(());
        }
        let index = usize::from(partition.0);
        let cell = self.admit_to(index, bytes, count)?;
        let entries = std::mem::take(rows).into_iter().map(|Row(entry)| entry).collect();
        let mut outgoing = self.outgoing(entries, now);
        self.append(index, cell, &mut outgoing, now, Durability::Memory, None)?;
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
            let numbers = counters
                .iter()
                .map(|counter| SequenceNumber::new(first.partition(), *counter));
            let shown: Vec<String> = counters.iter().map(|counter| counter.0.to_string()).collect();
            let detail = format!("Messages not found. Missing sequence numbers: {}", shown.join(", "));
            Error::new(ErrorKind::MessageNotFound, detail)
                .with_effect(Effect::None)
                .with_numbers(numbers)
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
        cell.cancel_scheduled(&counters)?.map_err(missing)
    }

    pub(super) fn outgoing(&self, entries: Vec<Entry>, now: Timestamp) -> Outgoing {
        let is_active = |entry: &Entry| entry.due.is_none_or(|due| due <= now);
        let message = |entry: Entry| self.new_message(entry.record, entry.time_to_live_ms, now);
        if entries.iter().all(is_active) {
            return Outgoing::Active(entries.into_iter().map(message).collect());
        }
        let arrival = |entry: Entry| Arrival {
            due: entry.due.filter(|due| *due > now),
            message: message(entry),
        };
        Outgoing::Mixed(entries.into_iter().map(arrival).collect())
    }

    /// Stores messages in the partition of their key or, without one, in the first in turn that takes them: its index,
    /// and the first number.
    pub(super) fn store(
        &self,
        route: Route,
        bytes: usize,
        count: usize,
        mut outgoing: Outgoing,
        now: Timestamp,
        durability: Option<Durability>,
    ) -> std::result::Result<(usize, Counter), Refusal> {
        let (keyed, partitions) = match route {
            Route::Keyed(partition) => (Some(partition), None),
            Route::Keyless => (None, Some(self.turn())),
        };
        let mut refused = None;
        for partition in keyed.into_iter().chain(partitions.into_iter().flatten()) {
            let index = usize::from(partition.0);
            let mut attempt = || {
                let cell = self.admit_to(index, bytes, count)?;
                let durability = cell.durability(durability);
                self.append(index, cell, &mut outgoing, now, durability, None)
            };
            let tried = if keyed.is_none() && self.queue.may_wait() {
                leaving_after(STORE_ANSWER_MS_MAX, attempt)
            } else {
                attempt()
            };
            match tried {
                Ok(first) => return Ok((index, first)),
                Err(refusal) => refused = Some(self.go_on(partition, refusal)?),
            }
        }
        Err(refused.expect("an entity has at least one partition").into())
    }

    /// Why a partition did not take messages that may be stored elsewhere without being stored twice, while there is time.
    fn go_on(&self, partition: PartitionId, refusal: Refusal) -> std::result::Result<Error, Refusal> {
        if refusal.error.kind() == ErrorKind::Timeout {
            if leave::is_due() {
                return Err(refusal);
            }
            self.queue.shard(partition.0.into()).give_up_waiting();
        }
        if refusal.is_definite {
            return Ok(refusal.error);
        }
        // Nobody knows whether they were stored: storing them elsewhere may double them, unless the entry never counts.
        match refusal.late {
            Some(late) if self.queue.core().fence(partition, late).is_ok() => {
                Ok(refusal.error.with_effect(Effect::None))
            }
            _ => Err(refusal),
        }
    }

    /// Stores messages in a cell, all or none, and tells who waits for them. Returns the number of the first. They stay
    /// in `outgoing` when they are refused.
    pub(super) fn append(
        &self,
        index: usize,
        cell: &Cell,
        outgoing: &mut Outgoing,
        now: Timestamp,
        durability: Durability,
        admitted: Option<&Admission<'_>>,
    ) -> std::result::Result<Counter, Refusal> {
        let (first, ready) = if self.queue.is_topic() {
            let terms = Terms {
                now,
                durability,
                admitted,
            };
            let first = self.queue.append_to_topic(index, cell, &outgoing.departing(), terms)?;
            (first, None)
        } else {
            let (first, ready) = match outgoing {
                Outgoing::Active(messages) => {
                    let count = messages.len();
                    (cell.append(messages, now, durability, admitted)?, count)
                }
                Outgoing::Mixed(arrivals) => cell.append_arrivals(arrivals, now, durability, admitted)?,
            };
            (first, Some(ready))
        };
        self.reach(durability);
        self.queue.touch(now);
        if let Some(ready) = ready {
            self.announce(index, ready);
        }
        Ok(first)
    }

    fn new_message(&self, record: Record, time_to_live_ms: Option<u64>, now: Timestamp) -> NewMessage {
        NewMessage {
            record: record.into(),
            expires_at: self.queue.expires_at(time_to_live_ms, now),
        }
    }

    /// Rings for what is ready; a schedule changes when the sleepers must look again, so it rings too.
    pub(super) fn announce(&self, index: usize, ready: usize) {
        if ready > 0 {
            self.queue.publish(SubQueue::Main, index, ready);
        } else {
            self.queue.receivable(SubQueue::Main).doorbell.ring_all();
        }
    }

    /// Refuses a batch that the tier does not take (B-053, B-054). One message has the limit of messages only.
    pub(super) fn check_batch_size(&self, batch: &Batch) -> Result<()> {
        let bytes = batch.size_bytes();
        let tier = self.queue.core().plan().tier.filter(|_| batch.len() > 1);
        let Some(max) = tier.map(Tier::batch_size_bytes_max).filter(|max| bytes > *max) else {
            return Ok(());
        };
        let detail =
            format!("the batch is too large for the tier; send less at once: size={bytes} bytes, limit={max} bytes");
        Err(Error::new(ErrorKind::MessageSizeExceeded, detail))
    }

    pub(super) fn check_size(&self, bytes: usize) -> Result<()> {
        let max = self.queue.message_size_bytes_max();
        if bytes <= max {
            return Ok(());
        }
        let advice = match self.queue.core().plan().tier {
            Some(tier @ (Tier::Basic | Tier::Standard)) if max == tier.message_size_bytes_default() => {
                ", or open the namespace with another tier"
            }
            _ if max < MESSAGE_SIZE_BYTES_MAX => ", or raise max_message_size_in_kilobytes of the queue",
            _ => "",
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

    pub(super) fn admit_to(&self, index: usize, bytes: usize, messages: usize) -> Result<&Cell> {
        self.queue.admit(index, bytes, messages)
    }
}

/// A row of a table, encoded and checked.
#[derive(Debug, Clone)]
pub struct Row(Entry);

impl Row {
    /// Bytes of the record.
    pub(crate) fn bytes(&self) -> usize {
        self.0.record.len()
    }

    pub(super) fn into_entry(self) -> Entry {
        self.0
    }

    /// The record.
    pub(crate) fn record(&self) -> &Record {
        &self.0.record
    }

    /// A row of which the bytes were kept.
    pub(crate) fn of_record(record: Record) -> Result<Self> {
        let fields = Fields::decode(&record)?;
        let (time_to_live_ms, due) = (fields.time_to_live_ms, fields.scheduled_enqueue_time);
        Ok(Self(Entry {
            record,
            time_to_live_ms,
            due,
        }))
    }

    /// Checks and encodes the fields of a row.
    pub fn new(fields: &Fields<'_>, size_bytes_max: usize) -> Result<Self> {
        let len = Self::checked_len(fields, size_bytes_max)?;
        Ok(Self::encode(fields, len))
    }

    /// Checks the fields of a row: the bytes it takes.
    #[inline]
    pub fn checked_len(fields: &Fields<'_>, size_bytes_max: usize) -> Result<usize> {
        fields.check()?;
        let len = fields.encoded_len();
        if len > size_bytes_max {
            let detail = format!("the message is too large; send less: size={len} bytes, limit={size_bytes_max} bytes");
            return Err(Error::new(ErrorKind::MessageSizeExceeded, detail));
        }
        Ok(len)
    }

    /// Encodes the fields of a row of which [`Row::checked_len`] told the bytes.
    #[inline]
    pub fn encode(fields: &Fields<'_>, len: usize) -> Self {
        Self(Entry {
            record: record::encode_sized(len, fields),
            time_to_live_ms: fields.time_to_live_ms,
            due: fields.scheduled_enqueue_time,
        })
    }
}
