// SPDX-License-Identifier: Apache-2.0
//! Messages on their way to the cells of several entities in one shard, and who is told once they are there.

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

/// A message that waits for its time: the position of its cell, and the number that was taken for it.
struct ScheduledMessage {
    to: usize,
    counter: Counter,
    due: Timestamp,
    message: NewMessage,
}

/// What a call brings to some cells of one shard.
pub(crate) struct WriteBatch<'a> {
    moment: Moment,
    cells: Vec<&'a Cell>,
    fan_outs: Vec<FanOutRecord>,
    /// Copies that go to the dead-letter queue of their subscription, with their reason in them.
    failed: Vec<(usize, NewMessage)>,
    scheduled: Vec<ScheduledMessage>,
    /// The entity of each cell, and the index of the cell.
    targets: Vec<(&'a Entity, usize)>,
    positions: HashMap<EntityId, usize>,
    /// The last one that was asked for.
    last: Option<(EntityId, usize)>,
    selected: Vec<Selection>,
}

/// Who is told of what came.
#[derive(Default)]
pub(crate) struct Notifications<'a> {
    /// An entity, the index of its cell, its new messages and those of its dead-letter queue.
    targets: Vec<(&'a Entity, usize, usize, usize)>,
    /// Entities with messages that wait for their time.
    scheduled_entities: Vec<&'a Entity>,
}

/// Why a copy goes to the dead-letter queue that an action has made too large, in the service's words (B-267).
const HEADER_TOO_LARGE: &str = "HeaderSizeExceeded";
const TOO_LARGE: &str = "The size quota for this stream has been exceeded.";

/// Why a copy goes to the dead-letter queue, and more of it (B-358, B-381).
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

    /// Makes the cell of an entity one of those that take part, whether a message stays in it or not.
    pub(crate) fn add_participant(&mut self, entity: &'a Entity, index: usize) {
        self.position(entity, index);
    }

    /// Adds a message for a queue.
    pub(crate) fn add(&mut self, entity: &'a Entity, index: usize, record: Record, expires_at: Timestamp) {
        let copies = smallvec![(self.position(entity, index), expires_at)];
        self.fan_outs.push(FanOutRecord { record, copies });
    }

    /// Adds a message that waits for its time, under a number that was taken for it.
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

    /// Adds a message of a topic for each subscription whose rules select it.
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

    /// Adds a message as it was sent for the dead-letter queue of a subscription.
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

    /// The first cell that takes part.
    pub(crate) fn first_cell(&self) -> Option<&'a Cell> {
        self.cells.first().copied()
    }

    /// Copies that come into each cell: active ones, and failed ones.
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

    /// The write of a call on the cell `home`, and whom to tell afterwards.
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
        // Also the numbers that a topic took for what comes.
        write.add_cell(home);
        (write, notifications)
    }
}

impl<'a> Notifications<'a> {
    /// Adds what came later, of which others are told, or the same.
    pub(crate) fn join(&mut self, later: Self) {
        for (position, target) in later.targets.into_iter().enumerate() {
            let (entity, index, active, failed) = target;
            let is_it = |it: &(&'a Entity, usize, usize, usize)| std::ptr::eq(it.0, entity) && it.1 == index;
            // Mostly it stands at the same place.
            let at = match self.targets.get(position) {
                Some(it) if is_it(it) => Some(position),
                _ => self.targets.iter().position(is_it),
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

    /// Tells who waits: the messages are there.
    pub(crate) fn announce(self, wait: &Wait<'_>) {
        for (entity, index, active, failed) in self.targets {
            for (sub_queue, ready) in [(SubQueue::Main, active), (SubQueue::DeadLetter, failed)] {
                if ready > 0 {
                    entity.notify(sub_queue, index, ready, wait);
                }
            }
        }
        // When the sleepers must look again has changed.
        for entity in self.scheduled_entities {
            entity.receivable(SubQueue::Main).wait_queue.notify_all();
            for subscription in entity.subscriptions() {
                subscription.receivable(SubQueue::Main).wait_queue.notify_all();
            }
        }
    }
}
