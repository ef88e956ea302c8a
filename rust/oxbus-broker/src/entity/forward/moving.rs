// SPDX-License-Identifier: Apache-2.0
//! Messages on their way from a cell of their entity to a cell of the destination.
//!
//! In one shard that is one entry of the journal. Between two it is three steps, each written before the next: stored there
//! with the origin, removed here, origin forgotten there. What is found here while its origin is known there goes on with
//! the second step, so it is neither lost nor doubled (B-330).

use std::sync::Arc;

use oxbus_model::message::Fields;
use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Moment, Result};
use oxbus_store::{LockKey, NewMessage, Outcome, Record, Stored};

use super::Entity;
use crate::entity::departure::Departure;
use crate::entity::role::Subscribers;
use crate::record::with_dead_letter;
use crate::shard::journal::Origin;
use crate::shard::{Admission, Arrival, Cell, Ending, Held, Unit};

/// Where messages are moved from.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) sub_queue: SubQueue,
    pub(super) index: usize,
    pub(super) cell: &'a Cell,
}

/// A message on its way, with the hold on it.
pub(super) struct Moving {
    pub(super) key: LockKey,
    /// As the destination gets it.
    pub(super) record: Record,
}

/// Messages as the destination gets them.
struct Arriving<'a> {
    departure: Departure<'a>,
    /// Which are new, where copies are dropped.
    admission: Option<Admission<'a>>,
    numbers: Numbers<'a>,
}

/// Numbers that were taken for messages. Those that no message has are given up when it is dropped.
struct Numbers<'a> {
    cell: &'a Cell,
    taken: Vec<Counter>,
    /// Of these, messages that wait for their time.
    waiting: Vec<Counter>,
}

impl Drop for Numbers<'_> {
    fn drop(&mut self) {
        for counter in self.taken.drain(..).chain(self.waiting.drain(..)) {
            self.cell.give_up_numbers(counter, 1);
        }
    }
}

impl Entity {
    /// Where a message comes from.
    pub(super) fn origin(&self, source: Source<'_>, counter: Counter) -> Origin {
        Origin {
            entity: self.id(),
            partition: self.shard(source.index).id().0,
            is_dead_letter: source.sub_queue == SubQueue::DeadLetter,
            counter,
        }
    }

    /// Moves messages to one cell of the destination, all or none.
    pub(super) fn move_run(
        &self,
        source: Source<'_>,
        (destination, to): (&Arc<Self>, usize),
        run: &[Moving],
        moment: Moment,
    ) -> bool {
        let target = destination.cell_for_append(to);
        let is_here = self.shard(source.index).id() == destination.shard(to).id();
        let origin = |moving: &Moving| self.origin(source, moving.key.counter);
        let is_coming = |moving: &&Moving| is_here || !target.has_arrived(&origin(moving));
        let coming: Vec<&Moving> = run.iter().filter(is_coming).collect();
        let subscribers = destination.subscribers();
        let records: Vec<&Record> = coming.iter().map(|moving| &moving.record).collect();
        let Ok(arriving) = destination.arriving(&subscribers, (target, to), &records, moment) else {
            return false;
        };
        let Arriving {
            departure,
            admission,
            mut numbers,
        } = arriving;
        let (mut sends, notices) = departure.finish();
        target.push_seen(admission.as_ref(), &mut sends.events);
        let durability = target.durability(None);
        let done = if is_here {
            let held = |moving: &Moving| Held {
                cell: source.cell,
                sub_queue: source.sub_queue,
                key: moving.key,
                ending: Ending::Outcome(Outcome::Complete),
            };
            let unit = Unit {
                sends,
                held: run.iter().map(held).collect(),
                admitted: admission.iter().collect(),
                ..Unit::default()
            };
            source.cell.commit_unit(unit, moment, durability).is_ok()
        } else if coming.is_empty() {
            true
        } else {
            let origins: Vec<Origin> = coming.iter().map(|moving| origin(moving)).collect();
            sends.events.extend(target.note_arrival(origins.clone()));
            let is_stored = target.fan_out(sends, moment.now, durability, None).is_ok();
            if !is_stored {
                target.forget_arrival(origins);
            }
            is_stored
        };
        if !done {
            return false;
        }
        numbers.waiting.clear();
        drop(numbers);
        // Before anybody is told: who waits to learn whether these are new must not wait for who moves them on.
        admission.inspect(Admission::keep);
        if !is_here && source.remove(run, moment) {
            target.forget_arrival(run.iter().map(origin).collect());
        }
        destination.touch(moment.now);
        notices.announce();
        true
    }

    /// Messages for a cell of this entity, which is a queue or a topic, by its own rules (B-337).
    fn arriving<'a>(
        &'a self,
        subscribers: &'a Subscribers,
        (cell, index): (&'a Cell, usize),
        records: &[&Record],
        moment: Moment,
    ) -> Result<Arriving<'a>> {
        let fields = records.iter().map(|record| Fields::decode(record));
        let fields: Vec<Fields<'_>> = fields.collect::<Result<_>>()?;
        let identities: Vec<_> = fields.iter().map(|it| self.identity_of(it)).collect::<Result<_>>()?;
        let history = cell.history();
        let admission = history
            .map(|it| it.admit(&identities, moment.now, self.duplicate_window_ms()))
            .transpose()?;
        let mut departure = Departure::new(moment.now);
        let mut numbers = Numbers {
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
                let message = NewMessage { record, expires_at };
                let due = Some(due);
                departure.schedule(self, index, counter, Arrival { message, due });
            } else if self.is_topic() {
                let counter = cell.take_numbers(1);
                numbers.taken.push(counter);
                let number = fields.enqueued_number.unwrap_or(Self::sequence_number(index, counter));
                departure.add_to_all(subscribers, index, &record, expires_at, number)?;
            } else {
                departure.add(self, index, record, expires_at);
            }
        }
        Ok(Arriving {
            departure,
            admission,
            numbers,
        })
    }
}

impl Source<'_> {
    /// Removes messages that are stored at their destination; true once that is written.
    fn remove(&self, run: &[Moving], moment: Moment) -> bool {
        let keys: Vec<_> = run.iter().map(|moving| moving.key).collect();
        let removed = self.cell.complete(self.sub_queue, &keys, moment.ticks, &mut Vec::new());
        removed.is_ok_and(|pending| self.cell.finish(pending.as_ref()).is_ok())
    }

    /// Moves a message that will not be taken to the dead-letter queue of its entity.
    pub(super) fn bury(&self, key: LockKey, record: &Stored, reason: &str, description: &str, moment: Moment) -> bool {
        let marked = self
            .cell
            .load(record)
            .and_then(|record| with_dead_letter(&record, Some(reason), Some(description), &[]));
        let Ok(record) = marked else {
            super::turn::unlock(self.cell, self.sub_queue, key, moment.ticks);
            return false;
        };
        self.cell.dead_letter(key, record, moment.ticks).is_ok()
    }
}
