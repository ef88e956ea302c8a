// SPDX-License-Identifier: Apache-2.0
//! A write of messages into cells of several entities in one shard, and the announcements after it.

use oxbus_store::Wait;
use std::collections::HashMap;

use oxbus_log::event;
use oxbus_model::message::Fields;
use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Moment, Result, SequenceNumber, Timestamp};
use oxbus_store::{NewMessage, Record};
use smallvec::smallvec;

use super::Entity;
use super::kind::Subscribers;
use crate::filter::{MessageCopy, RuleFailure, RuleInput, Selection};
use crate::record::{encode, with_dead_letter};
use crate::shard::Cell;
use crate::shard::journal::EntityId;
use crate::write::{DeadLetterInput, FanOutRecord, ShardWrite, WriteOperation};

/// A scheduled message for the cell at position `to`, under a reserved number.
struct ScheduledMessage {
    to: usize,
    counter: Counter,
    due: Timestamp,
    message: NewMessage,
}

/// Messages that one call writes into cells of one shard.
pub(crate) struct WriteBatch<'a> {
    moment: Moment,
    cells: Vec<&'a Cell>,
    fan_outs: Vec<FanOutRecord>,
    /// Copies for the dead-letter queue of their subscription; their records contain the reason.
    failed: Vec<(usize, NewMessage)>,
    scheduled: Vec<ScheduledMessage>,
    /// Entity and cell index of each cell.
    targets: Vec<(&'a Entity, usize)>,
    positions: HashMap<EntityId, usize>,
    /// Cache of the last lookup in `positions`.
    last: Option<(EntityId, usize)>,
    selected: Vec<Selection>,
}

/// Announcements after a write.
#[derive(Default)]
pub(crate) struct Notifications<'a> {
    /// Entity, cell index, and numbers of new messages in its main queue and in its dead-letter queue.
    targets: Vec<(&'a Entity, usize, usize, usize)>,
    /// Entities with new scheduled messages.
    scheduled_entities: Vec<&'a Entity>,
}

/// The service's reason and description of a copy that an action made too large (B-267).
const HEADER_TOO_LARGE: &str = "HeaderSizeExceeded";
const TOO_LARGE: &str = "The size quota for this stream has been exceeded.";

/// Dead-letter reason and description of a copy whose rule failed (B-358, B-381).
fn dead_letter_texts(failure: &RuleFailure) -> (&'static str, &str) {
    match failure {
        RuleFailure::Filter(description) => ("FilterException", description),
        RuleFailure::Action(description) => ("RuleActionException", description),
    }
}

impl<'a> WriteBatch<'a> {
    pub(crate) fn new(moment: Moment) -> Self {
        Self {
            moment,
            cells: Vec::new(),
            fan_outs: Vec::new(),
            failed: Vec::new(),
            scheduled: Vec::new(),
            targets: Vec::new(),
            positions: HashMap::new(),
            last: None,
            selected: Vec::new(),
        }
    }

    fn position(&mut self, entity: &'a Entity, index: usize) -> usize {
        if let Some((id, position)) = self.last
            && id == entity.id()
        {
            return position;
        }
        let next = self.targets.len();
        let position = *self.positions.entry(entity.id()).or_insert(next);
        if position == next {
            self.targets.push((entity, index));
            self.cells.push(entity.cell_for_append(index));
        }
        self.last = Some((entity.id(), position));
        position
    }

    /// Includes the cell of an entity in the write, even if no message is stored in it.
    pub(crate) fn add_participant(&mut self, entity: &'a Entity, index: usize) {
        self.position(entity, index);
    }

    /// Adds a message for one cell.
    pub(crate) fn add(&mut self, entity: &'a Entity, index: usize, record: Record, expires_at: Timestamp) {
        let copies = smallvec![(self.position(entity, index), expires_at)];
        self.fan_outs.push(FanOutRecord { record, copies });
    }

    /// Adds a scheduled message under a reserved number.
    pub(crate) fn schedule(
        &mut self,
        (entity, index): (&'a Entity, usize),
        counter: Counter,
        due: Timestamp,
        message: NewMessage,
    ) {
        let to = self.position(entity, index);
        self.scheduled.push(ScheduledMessage {
            to,
            counter,
            due,
            message,
        });
    }

    /// Adds a copy of a topic's message for each subscription whose rules select it.
    pub(crate) fn fan_out(
        &mut self,
        subscribers: &'a Subscribers,
        index: usize,
        record: &Record,
        expires_at: Timestamp,
        number: SequenceNumber,
    ) -> Result<()> {
        let mut fields = Fields::decode(record)?;
        fields.enqueued_number = Some(number);
        let input = RuleInput {
            fields: &fields,
            enqueued_at: self.moment.now,
            enqueued_number: Some(number),
            expires_at,
            size_bytes: record.len(),
            delivery_count: 0,
        };
        let mut selected = std::mem::take(&mut self.selected);
        selected.clear();
        subscribers.rules().select(&input, &mut selected);
        let mut unchanged = smallvec![];
        for Selection { subscription, copy } in selected.drain(..) {
            let entity = &*subscribers.entities[subscription];
            let expires_at = expires_at.min(entity.expires_at(None, self.moment.now));
            match copy {
                MessageCopy::AsSent => unchanged.push((self.position(entity, index), expires_at)),
                MessageCopy::Changed(record) if record.len() > entity.copy_bytes_max() => {
                    self.dead_letter((entity, index), &fields, expires_at, (HEADER_TOO_LARGE, TOO_LARGE))?;
                }
                MessageCopy::Changed(record) => self.add(entity, index, record, expires_at),
                MessageCopy::Failed(failure) if entity.dead_letters_failed() => {
                    self.dead_letter((entity, index), &fields, expires_at, dead_letter_texts(&failure))?;
                }
                MessageCopy::Failed(_) => {}
            }
        }
        self.selected = selected;
        if !unchanged.is_empty() {
            let (record, copies) = (encode(&fields), unchanged);
            self.fan_outs.push(FanOutRecord { record, copies });
        }
        Ok(())
    }

    /// Adds the original message for the dead-letter queue of a subscription.
    fn dead_letter(
        &mut self,
        (entity, index): (&'a Entity, usize),
        fields: &Fields<'_>,
        expires_at: Timestamp,
        (reason, description): (&str, &str),
    ) -> Result<()> {
        event!(
            MESSAGE_DEAD_LETTERED,
            entity = entity.name().as_str(),
            partition = entity.shard(index).id().0,
            reason,
            count = 1
        );
        let marked = with_dead_letter(&encode(fields), Some(reason), Some(description), &[])?;
        let position = self.position(entity, index);
        let record = marked.into();
        self.failed.push((position, NewMessage { record, expires_at }));
        Ok(())
    }

    /// The first cell of the write.
    pub(crate) fn first_cell(&self) -> Option<&'a Cell> {
        self.cells.first().copied()
    }

    /// Numbers of active and of failed copies for each cell.
    fn counts(&self) -> Vec<(usize, usize)> {
        let mut counts = vec![(0, 0); self.cells.len()];
        for (to, _) in self.fan_outs.iter().flat_map(|fan| &fan.copies) {
            counts[*to].0 += 1;
        }
        for (to, _) in &self.failed {
            counts[*to].1 += 1;
        }
        counts
    }

    /// The write, which includes the cell `home`, and the announcements after it.
    pub(crate) fn finish(self, home: &'a Cell) -> (ShardWrite<'a>, Notifications<'a>) {
        let targets = self.targets.iter().zip(self.counts());
        let notifications = Notifications {
            scheduled_entities: self.scheduled.iter().map(|it| self.targets[it.to].0).collect(),
            targets: targets
                .map(|(&(entity, index), (active, failed))| (entity, index, active, failed))
                .collect(),
        };
        let mut write = ShardWrite::into_cells(self.cells, self.moment);
        write.push_fans(home, self.fan_outs);
        for (to, message) in self.failed {
            let cell = write.cell(to);
            let dead_letter = DeadLetterInput::New(to, message);
            write.push(WriteOperation::DeadLetter { cell, dead_letter });
        }
        for ScheduledMessage {
            to,
            counter,
            due,
            message,
        } in self.scheduled
        {
            let counter = Some(counter);
            write.push(WriteOperation::Schedule {
                to,
                counter,
                due,
                message,
            });
        }
        // The write also journals the numbers that the topic assigned.
        write.add_cell(home);
        (write, notifications)
    }
}

impl<'a> Notifications<'a> {
    /// Adds the announcements of a later write.
    pub(crate) fn join(&mut self, later: Self) {
        for (position, target) in later.targets.into_iter().enumerate() {
            let (entity, index, active, failed) = target;
            let is_same = |it: &(&'a Entity, usize, usize, usize)| std::ptr::eq(it.0, entity) && it.1 == index;
            // The target is usually at the same position.
            let at = match self.targets.get(position) {
                Some(it) if is_same(it) => Some(position),
                _ => self.targets.iter().position(is_same),
            };
            match at {
                Some(at) => {
                    self.targets[at].2 += active;
                    self.targets[at].3 += failed;
                }
                None => self.targets.push(target),
            }
        }
        self.scheduled_entities.extend(later.scheduled_entities);
    }

    /// Announces the stored messages.
    pub(crate) fn announce(self, wait: &Wait<'_>) {
        for (entity, index, active, failed) in self.targets {
            for (sub_queue, ready) in [(SubQueue::Main, active), (SubQueue::DeadLetter, failed)] {
                if ready > 0 {
                    entity.notify(sub_queue, index, ready, wait);
                }
            }
        }
        // Waiting receivers recalculate when to look again.
        for entity in self.scheduled_entities {
            entity.receivable(SubQueue::Main).wait_queue.notify_all();
            for subscription in entity.subscriptions() {
                subscription.receivable(SubQueue::Main).wait_queue.notify_all();
            }
        }
    }
}
