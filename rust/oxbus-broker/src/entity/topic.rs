// SPDX-License-Identifier: Apache-2.0
//! A topic: what is sent to it goes to the subscriptions whose rules select it (B-343 … B-381).
//!
//! A copy stays in the partition of the topic's message (B-353): topic and subscriptions have their cells in the same shards.

use oxbus_model::message::Fields;
use oxbus_model::options::Durability;
use oxbus_model::{Counter, Result, Timestamp};
use oxbus_store::{MessageStore, NewMessage};

use super::Entity;
use super::departure::{Departure, Notices};
use super::role::Subscribers;
use crate::filter::{Copied, Selected, Subject};
use crate::record::encode;
use crate::shard::{Admission, Arrival, Cell, Refusal};

/// A message on its way to a topic.
pub(crate) struct Departing<'a> {
    pub(crate) message: &'a NewMessage,
    /// When it becomes active, if that is not now.
    pub(crate) due: Option<Timestamp>,
}

/// When, how safe, and what is remembered of it.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) now: Timestamp,
    pub(crate) durability: Durability,
    pub(crate) admitted: Option<&'a Admission<'a>>,
}

impl Entity {
    /// Stores messages that come to a cell of a topic, all or none: in the subscriptions whose rules select them, or in
    /// the topic until they are due. Returns the number of the first.
    pub(crate) fn append_to_topic(
        &self,
        index: usize,
        cell: &Cell,
        messages: &[Departing<'_>],
        terms: Terms<'_>,
    ) -> std::result::Result<Counter, Refusal> {
        let first = cell.take_numbers(messages.len());
        match self.depart(index, cell, first, messages, terms) {
            Ok(active) => {
                for counter in active {
                    cell.give_up_numbers(counter, 1);
                }
                Ok(first)
            }
            Err(refusal) => {
                cell.give_up_numbers(first, messages.len());
                Err(refusal)
            }
        }
    }

    /// Stores one active message that comes to a cell of a topic in memory. The same as [`Entity::append_to_topic`] without
    /// a list and with its record made once; most sends are this.
    pub(crate) fn send_to_subscriptions(
        &self,
        index: usize,
        cell: &Cell,
        mut fields: Fields<'_>,
        now: Timestamp,
    ) -> Result<Counter> {
        let counter = cell.take_numbers(1);
        fields.enqueued_number = Some(Self::sequence_number(index, counter));
        let sent = self.fan_out_one(index, cell, &fields, now);
        cell.give_up_numbers(counter, 1);
        sent.map(|()| counter)
    }

    fn fan_out_one(&self, index: usize, cell: &Cell, fields: &Fields<'_>, now: Timestamp) -> Result<()> {
        let expires_at = self.expires_at(fields.time_to_live_ms, now);
        let record = encode(fields);
        let subject = Subject {
            fields,
            enqueued_at: now,
            enqueued_number: fields.enqueued_number,
            expires_at,
            size_bytes: record.len(),
            delivery_count: 0,
        };
        let subscribers = self.subscribers();
        let mut selected = Vec::new();
        subscribers.rules().select(&subject, &mut selected);
        if !selected.iter().all(|it| matches!(it.copied, Copied::AsSent)) {
            let mut departure = Departure::new(now);
            let number = fields.enqueued_number.expect("set above");
            departure.add_to_all(&subscribers, index, &record, expires_at, number)?;
            let (out, notices) = departure.finish();
            cell.fan_out(out, now, Durability::Memory, None)?;
            notices.announce();
            return Ok(());
        }
        for Selected { subscription, .. } in selected {
            let entity = &subscribers.entities[subscription];
            let message = NewMessage {
                record: record.clone().into(),
                expires_at: expires_at.min(entity.expires_at(None, now)),
            };
            entity.cell_for_append(index).main().append_one(message, now);
            entity.publish_after_fence(index);
        }
        Ok(())
    }

    /// The numbers of those that did not stay in the topic.
    fn depart(
        &self,
        index: usize,
        cell: &Cell,
        first: Counter,
        messages: &[Departing<'_>],
        terms: Terms<'_>,
    ) -> std::result::Result<Vec<Counter>, Refusal> {
        let subscribers = self.subscribers();
        let mut departure = Departure::new(terms.now);
        let mut active = Vec::new();
        for (counter, &Departing { message, due }) in (first.0..).map(Counter).zip(messages) {
            let record = message.record.in_memory().expect("what comes in is in memory");
            let expires_at = message.expires_at;
            if due.is_some() {
                let record = record.clone().into();
                let message = NewMessage { record, expires_at };
                departure.schedule(self, index, counter, Arrival { message, due });
            } else {
                let number = Self::sequence_number(index, counter);
                departure.add_to_all(&subscribers, index, record, expires_at, number)?;
                active.push(counter);
            }
        }
        let (out, notices) = departure.finish();
        cell.fan_out(out, terms.now, terms.durability, terms.admitted)?;
        notices.announce();
        Ok(active)
    }

    /// Sends on what waited for its time, as if it were sent at that time (B-114).
    pub(super) fn activate_due(&self, index: usize, cell: &Cell, now: Timestamp) {
        if !cell.has_due(now) {
            return;
        }
        let subscribers = self.subscribers();
        let mut notices = Notices::default();
        cell.each_due(now, |due_at, counter| {
            if let Some(one) = activate(&subscribers, (index, cell), due_at, counter)? {
                notices.join(one);
            }
            Ok(())
        });
        notices.announce();
    }
}

/// Activates one message of a topic; `None` when it was cancelled.
fn activate<'a>(
    subscribers: &'a Subscribers,
    (index, cell): (usize, &Cell),
    due_at: Timestamp,
    counter: Counter,
) -> std::result::Result<Option<Notices<'a>>, Refusal> {
    let Some((record, lives)) = cell.scheduled(counter)? else {
        return Ok(None);
    };
    let expires_at = lives.map_or(Timestamp::NEVER, |ms| due_at.plus_ms(ms));
    let number = cell.take_numbers(1);
    let mut departure = Departure::new(due_at);
    departure.out.due = Some(counter);
    let (shown, durability) = (Entity::sequence_number(index, number), Durability::Os);
    let sent = match departure.add_to_all(subscribers, index, &record, expires_at, shown) {
        Ok(()) => {
            let (out, notices) = departure.finish();
            cell.fan_out(out, due_at, durability, None).map(|()| notices)
        }
        Err(error) => Err(error.into()),
    };
    cell.give_up_numbers(number, 1);
    sent.map(Some)
}
