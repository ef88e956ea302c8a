// SPDX-License-Identifier: Apache-2.0
//! How messages come into an entity: a queue keeps them, a topic passes them on to its subscriptions.

use oxbus_model::message::Fields;
use oxbus_model::name::SubQueue;
use oxbus_model::options::Durability;
use oxbus_model::{Counter, Moment, Result, SequenceNumber, Ticks, Timestamp};
use oxbus_store::{MessageStore, NewMessage, Record, Wait};

use super::{Entity, KindState, Subscribers};
use crate::entity::topic::FanOutOptions;
use crate::entity::write_batch::WriteBatch;
use crate::record::encode_sized;
use crate::shard::{Admission, Cell};
use crate::write::{EncodedMessage, ShardWrite, WriteError, WriteOperation};

/// Messages on their way to one cell, whichever takes them.
pub(crate) struct PendingSend<'a> {
    messages: SendContent<'a>,
    /// How many there are.
    pub(crate) count: usize,
    now: Timestamp,
}

enum SendContent<'a> {
    Store(ShardWrite<'a>),
    /// Which subscriptions get copies depends on the cell.
    FanOut(Vec<EncodedMessage>),
}

impl Entity {
    /// Stores one message in memory and announces it. This and, to a topic, `Entity::fan_out_one` are the only ways past
    /// `crate::write`: nothing can refuse a message that is alone, and most sends in memory are this.
    #[inline]
    pub(crate) fn store_one(
        &self,
        (index, cell): (usize, &Cell),
        fields: &Fields<'_>,
        len: usize,
        now: Timestamp,
        wait: &Wait<'_>,
    ) -> Result<Counter> {
        if self.is_topic() {
            let counter = self.send_to_subscriptions(index, cell, *fields, now, wait)?;
            self.touch(now);
            return Ok(counter);
        }
        let expires_at = self.expires_at(fields.time_to_live_ms, now);
        let record = encode_sized(len, fields).into();
        let counter = cell.main().append_one(NewMessage { record, expires_at }, now);
        self.touch(now);
        self.notify_after_fence(index, wait);
        Ok(counter)
    }

    /// Messages that are to come into a cell of this entity.
    pub(crate) fn pending_send<'a>(&self, messages: Vec<EncodedMessage>, now: Timestamp) -> PendingSend<'a> {
        PendingSend {
            count: messages.len(),
            messages: match self.kind {
                KindState::Topic(_) => SendContent::FanOut(messages),
                KindState::Queue | KindState::Subscription(_) => SendContent::Store(self.queue_write(messages, now)),
            },
            now,
        }
    }

    /// The write of messages into one cell, which is named later.
    fn queue_write<'a>(&self, messages: Vec<EncodedMessage>, now: Timestamp) -> ShardWrite<'a> {
        let mut write = ShardWrite::into_cells([], Moment { now, ticks: Ticks(0) });
        let is_active = |message: &EncodedMessage| message.due.is_none_or(|due| due <= now);
        let new = |message: EncodedMessage| NewMessage {
            expires_at: self.expires_at(message.time_to_live_ms, now),
            record: message.record.into(),
        };
        if messages.iter().all(is_active) {
            write.push(WriteOperation::Append(messages.into_iter().map(new).collect()));
            return write;
        }
        for message in messages {
            match message.due.filter(|due| *due > now) {
                None => write.push(WriteOperation::Append(vec![new(message)])),
                Some(due) => write.push(WriteOperation::Schedule {
                    to: 0,
                    counter: None,
                    due,
                    message: new(message),
                }),
            }
        }
        write
    }

    /// Stores messages in a cell, all or none, and tells who waits for them. Returns the number of the first. They stay
    /// in `pending` when they are refused.
    pub(crate) fn append<'a>(
        &self,
        (index, cell): (usize, &'a Cell),
        pending: &mut PendingSend<'a>,
        durability: Durability,
        admitted: Option<&'a Admission<'a>>,
        wait: &Wait<'_>,
    ) -> std::result::Result<Counter, WriteError> {
        let now = pending.now;
        let write = match &mut pending.messages {
            SendContent::FanOut(messages) => {
                let options = FanOutOptions {
                    now,
                    durability,
                    admitted,
                };
                let first = self.append_to_topic(index, cell, messages, options, wait)?;
                self.touch(now);
                return Ok(first);
            }
            SendContent::Store(write) => write,
        };
        write.redirect(cell);
        if let Some(admitted) = admitted {
            write.push(WriteOperation::Seen(cell, admitted));
        }
        let committed = write.commit(cell, durability, wait)?;
        self.touch(now);
        if committed.ready > 0 {
            self.notify(SubQueue::Main, index, committed.ready, wait);
        } else {
            // A schedule changes when the sleepers must look again.
            self.receivable(SubQueue::Main).wait_queue.notify_all();
        }
        Ok(committed.first)
    }

    /// Notes that messages come to this entity: the numbers that a topic takes and the identities that it remembers are
    /// journaled also when no subscription wants the messages.
    pub(crate) fn join_batch<'a>(&'a self, index: usize, batch: &mut WriteBatch<'a>) {
        if self.is_topic() {
            batch.add_participant(self, index);
        }
    }

    /// Adds an active message to what comes into cells of one shard. A topic takes a number for it, which it shows to its
    /// subscriptions unless the message has one: the caller gives it up afterwards.
    pub(crate) fn add_message<'a>(
        &'a self,
        (index, cell): (usize, &Cell),
        subscribers: &'a Subscribers,
        batch: &mut WriteBatch<'a>,
        (record, expires_at): (Record, Timestamp),
        number_at_source: Option<SequenceNumber>,
    ) -> Result<Option<Counter>> {
        if !self.is_topic() {
            batch.add(self, index, record, expires_at);
            return Ok(None);
        }
        let counter = cell.take_numbers(1);
        let number = number_at_source.unwrap_or(Self::sequence_number(index, counter));
        match batch.fan_out(subscribers, index, &record, expires_at, number) {
            Ok(()) => Ok(Some(counter)),
            Err(error) => {
                cell.give_up_numbers(counter, 1);
                Err(error)
            }
        }
    }
}
