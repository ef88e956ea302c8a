// SPDX-License-Identifier: Apache-2.0
//! Sends messages to an entity: a queue stores them, a topic passes them to its subscriptions.

use oxbus_model::message::Fields;
use oxbus_model::name::SubQueue;
use oxbus_model::options::Durability;
use oxbus_model::{Counter, Moment, Result, SequenceNumber, Ticks, Timestamp};
use oxbus_store::{MessageStore, NewMessage, Record, Wait};

use super::{Entity, KindState, Subscribers};
use crate::entity::topic::FanOutOptions;
use crate::entity::write_batch::WriteBatch;
use crate::record::encode_sized;
use crate::shard::{Admission, Cell, Meter};
use crate::write::{EncodedMessage, ShardWrite, WriteError, WriteOperation};

/// Messages to be stored in one cell that is selected later.
pub(crate) struct PendingSend<'a> {
    messages: SendContent<'a>,
    /// Number of messages.
    pub(crate) count: usize,
    now: Timestamp,
}

impl PendingSend<'_> {
    /// The messages, after an error. They may be stored elsewhere, without keys and identities.
    pub(crate) fn into_messages(self) -> Vec<EncodedMessage> {
        match self.messages {
            SendContent::FanOut(messages) => messages,
            SendContent::Store(write) => {
                let of_record =
                    |record| EncodedMessage::of_record(record).expect("the record was encoded for this send");
                write.into_arriving().map(of_record).collect()
            }
        }
    }
}

enum SendContent<'a> {
    Store(ShardWrite<'a>),
    /// Messages of a topic, whose copies are determined once the cell is known.
    FanOut(Vec<EncodedMessage>),
}

impl Entity {
    /// Stores one message in memory and announces it. This and, for a topic, `Entity::fan_out_one` are the only writes
    /// that bypass `crate::write`: storing a single message cannot fail, and most sends in memory are of this kind.
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
        cell.meter(Meter::Sent, 1);
        self.touch(now);
        self.notify_after_fence(index, wait);
        Ok(counter)
    }

    /// Prepares messages to be stored in a cell of this entity.
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

    /// The write of messages into one cell that is selected later.
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

    /// Stores messages in a cell, all or none, and announces them. Returns the counter of the first. After an error
    /// `pending` still contains them.
    pub(crate) async fn append<'a>(
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
                let first = self.append_to_topic(index, cell, messages, options, wait).await?;
                self.touch(now);
                return Ok(first);
            }
            SendContent::Store(write) => write,
        };
        write.redirect(cell);
        if let Some(admitted) = admitted {
            write.push(WriteOperation::Seen(cell, admitted));
        }
        let committed = write.commit_async(cell, durability, wait).await?;
        self.touch(now);
        if committed.ready > 0 {
            self.notify(SubQueue::Main, index, committed.ready, wait);
        } else {
            // Waiting receivers recalculate when to look again.
            self.receivable(SubQueue::Main).wait_queue.notify_all();
        }
        Ok(committed.first)
    }

    /// Includes a topic in the batch: its assigned numbers and remembered identities are journaled even if no
    /// subscription selects the messages.
    pub(crate) fn join_batch<'a>(&'a self, index: usize, batch: &mut WriteBatch<'a>) {
        if self.is_topic() {
            batch.add_participant(self, index);
        }
    }

    /// Adds an active message to a batch. A topic reserves a number for it, which the caller gives up after the write.
    /// The copies have that number as their enqueued number, unless the message has `number_at_source`.
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
