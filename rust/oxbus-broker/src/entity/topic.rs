// SPDX-License-Identifier: Apache-2.0
//! Sends to a topic: each subscription whose rules select a message gets a copy (B-343 … B-381).
//!
//! A copy is stored in the partition of the topic's message (B-353). The topic and its subscriptions have cells in the
//! same shards.

use oxbus_model::message::Fields;
use oxbus_model::options::Durability;
use oxbus_model::{Counter, Moment, Result, Ticks, Timestamp};
use oxbus_store::{MessageStore, NewMessage, Wait};

use super::Entity;
use super::kind::Subscribers;
use super::write_batch::{Notifications, WriteBatch};
use crate::filter::{MessageCopy, RuleInput, Selection};
use crate::record::encode;
use crate::shard::{Admission, Cell, Meter};
use crate::write::{EncodedMessage, WriteError, WriteOperation};

/// Time, durability and duplicate history of messages sent to a topic.
#[derive(Clone, Copy)]
pub(crate) struct FanOutOptions<'a> {
    pub(crate) now: Timestamp,
    pub(crate) durability: Durability,
    pub(crate) admitted: Option<&'a Admission<'a>>,
}

/// A moment without ticks, because a send to a topic locks no message.
fn at_time(now: Timestamp) -> Moment {
    Moment { now, ticks: Ticks(0) }
}

impl Entity {
    /// Stores messages sent to a cell of a topic, all or none. They go to the subscriptions whose rules select them.
    /// Scheduled ones stay in the topic until they are due. Returns the counter of the first.
    pub(crate) async fn append_to_topic(
        &self,
        index: usize,
        cell: &Cell,
        messages: &[EncodedMessage],
        options: FanOutOptions<'_>,
        wait: &Wait<'_>,
    ) -> std::result::Result<Counter, WriteError> {
        let first = cell.take_numbers(messages.len());
        match self.fan_out_all((index, cell), first, messages, options, wait).await {
            Ok(active) => {
                cell.meter(Meter::Sent, active.len());
                for counter in active {
                    cell.give_up_numbers(counter, 1);
                }
                Ok(first)
            }
            Err(error) => {
                cell.give_up_numbers(first, messages.len());
                Err(error)
            }
        }
    }

    /// Stores one active message sent to a topic, when the namespace is in memory. This is the fast path of
    /// [`Entity::append_to_topic`] for most sends: it builds no list and encodes the record once.
    pub(crate) fn send_to_subscriptions(
        &self,
        index: usize,
        cell: &Cell,
        mut fields: Fields<'_>,
        now: Timestamp,
        wait: &Wait<'_>,
    ) -> Result<Counter> {
        let counter = cell.take_numbers(1);
        fields.enqueued_number = Some(Self::sequence_number(index, counter));
        let sent = self.fan_out_one(index, cell, &fields, now, wait);
        cell.give_up_numbers(counter, 1);
        cell.meter(Meter::Sent, usize::from(sent.is_ok()));
        sent.map(|()| counter)
    }

    fn fan_out_one(
        &self,
        index: usize,
        cell: &Cell,
        fields: &Fields<'_>,
        now: Timestamp,
        wait: &Wait<'_>,
    ) -> Result<()> {
        let expires_at = self.expires_at(fields.time_to_live_ms, now);
        let record = encode(fields);
        let input = RuleInput {
            fields,
            enqueued_at: now,
            enqueued_number: fields.enqueued_number,
            expires_at,
            size_bytes: record.len(),
            delivery_count: 0,
        };
        let subscribers = self.subscribers();
        let mut selected = Vec::new();
        subscribers.rules().select(&input, &mut selected);
        if !selected.iter().all(|it| matches!(it.copy, MessageCopy::AsSent)) {
            let mut batch = WriteBatch::new(at_time(now));
            let number = fields.enqueued_number.expect("set above");
            batch.fan_out(&subscribers, index, &record, expires_at, number)?;
            let (mut write, notifications) = batch.finish(cell);
            write.commit(cell, Durability::Memory, wait)?;
            notifications.announce(wait);
            return Ok(());
        }
        for Selection { subscription, .. } in selected {
            let entity = &subscribers.entities[subscription];
            let message = NewMessage {
                record: record.clone().into(),
                expires_at: expires_at.min(entity.expires_at(None, now)),
            };
            let to = entity.cell_for_append(index);
            to.main().append_one(message, now);
            to.meter(Meter::Sent, 1);
            entity.notify_after_fence(index, wait);
        }
        Ok(())
    }

    /// Stores the messages. Returns the counters of those that are not scheduled and thus not stored in the topic.
    async fn fan_out_all(
        &self,
        (index, cell): (usize, &Cell),
        first: Counter,
        messages: &[EncodedMessage],
        options: FanOutOptions<'_>,
        wait: &Wait<'_>,
    ) -> std::result::Result<Vec<Counter>, WriteError> {
        let subscribers = self.subscribers();
        let mut batch = WriteBatch::new(at_time(options.now));
        let mut active = Vec::new();
        for (counter, message) in (first.0..).map(Counter).zip(messages) {
            let record = &message.record;
            let expires_at = self.expires_at(message.time_to_live_ms, options.now);
            if let Some(due) = message.due.filter(|due| *due > options.now) {
                let record = record.clone().into();
                batch.schedule((self, index), counter, due, NewMessage { record, expires_at });
            } else {
                let number = Self::sequence_number(index, counter);
                batch.fan_out(&subscribers, index, record, expires_at, number)?;
                active.push(counter);
            }
        }
        let (mut write, notifications) = batch.finish(cell);
        if let Some(admitted) = options.admitted {
            write.push(WriteOperation::Seen(cell, admitted));
        }
        write.commit_async(cell, options.durability, wait).await?;
        notifications.announce(wait);
        Ok(active)
    }

    /// Sends due messages to the subscriptions as if they had been sent at their scheduled time (B-114).
    pub(super) fn activate_due(&self, index: usize, cell: &Cell, now: Timestamp, wait: &Wait<'_>) {
        if !cell.has_due(now) {
            return;
        }
        let subscribers = self.subscribers();
        let mut notifications = Notifications::default();
        cell.for_each_due(now, |due_at, counter| -> std::result::Result<(), WriteError> {
            if let Some(one) = activate(&subscribers, (index, cell), due_at, counter, wait)? {
                notifications.join(one);
            }
            Ok(())
        });
        notifications.announce(wait);
    }
}

/// Activates one message of a topic. Returns `None` if it was cancelled.
fn activate<'a>(
    subscribers: &'a Subscribers,
    (index, cell): (usize, &'a Cell),
    due_at: Timestamp,
    counter: Counter,
    wait: &Wait<'_>,
) -> std::result::Result<Option<Notifications<'a>>, WriteError> {
    let Some((record, time_to_live_ms)) = cell.scheduled(counter)? else {
        return Ok(None);
    };
    let expires_at = time_to_live_ms.map_or(Timestamp::NEVER, |ms| due_at.plus_ms(ms));
    let new_counter = cell.take_numbers(1);
    let mut batch = WriteBatch::new(at_time(due_at));
    let number = Entity::sequence_number(index, new_counter);
    let sent = batch
        .fan_out(subscribers, index, &record, expires_at, number)
        .map_err(WriteError::from)
        .and_then(|()| {
            let (mut write, notifications) = batch.finish(cell);
            let message = None;
            write.push(WriteOperation::Activate { cell, counter, message });
            write.commit(cell, Durability::Os, wait).map(|_| notifications)
        });
    cell.give_up_numbers(new_counter, 1);
    sent.map(Some)
}
