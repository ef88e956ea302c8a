// SPDX-License-Identifier: Apache-2.0
//! The messages of a shard, rebuilt from the events of its journal.
//!
//! Threads journal settlements after they applied them, so two events about one message may be in either order. Each
//! event names the generation of the lock that it is about, and generations rise. An event of an older lock is
//! ignored, except that its record counts if no newer lock stored one.
//!
//! A snapshot is written while threads continue, so it may contain the effects of some later events. Every event is
//! therefore idempotent: an event that adds a message contains all of it, and is ignored if the number is present; an
//! event that removes a message is ignored if the number is absent. A message that arrived and was removed before the
//! snapshot read its cell is added again by its first event and removed by its last, which also comes after the
//! snapshot.
//!
//! A message that is locked when the journal ends becomes ready with the delivery count of its last delivery, which
//! counts because its receiver is gone. A deferred message that was fetched is distinguished from one that was
//! not: its deliveries may be exhausted now.
//!
//! Invariants
//! - a number is in the queue or in the dead-letter queue, never in both;
//! - `next` is greater than every number in them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Identity, Timestamp};
use oxbus_store::Record;

use super::consumer::ConsumerRecord;
use super::counter_map::CounterMap;
use super::decode::{EventReader, MalformedEntry};
use super::event::{
    AppendedMessage, DeliveryRecord, EntityId, FanOutCopy, JournalEvent, KeptRecord, Origin, StoredPhase,
};
use super::intent::Intent;
use super::message_state::{MessageState, ToStored, undelivered};
use super::packed::PackedEvents;
use super::record_change::RecordChange;

/// The state of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityState {
    /// Messages of the entity.
    pub main: CounterMap<MessageState>,
    /// Messages of its dead-letter queue.
    pub dead_letters: CounterMap<MessageState>,
    /// The next number.
    pub next: Counter,
    /// Identities of arrived messages with their times, for duplicate detection.
    pub seen: BTreeMap<Identity, Timestamp>,
    /// Times at which bulk-load rows were attached, by the identity of their name.
    pub attached: BTreeMap<Identity, Timestamp>,
    /// Session states with the times at which they were set.
    pub states: BTreeMap<String, (Timestamp, Vec<u8>)>,
    /// Origins of forwarded messages that may still be at their source.
    pub origins: BTreeSet<Origin>,
    /// Consumers by sub-queue and name.
    pub consumers: BTreeMap<(SubQueue, Arc<str>), Arc<ConsumerRecord>>,
}

/// The state of a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardState {
    entities: BTreeMap<EntityId, EntityState>,
    /// The latest intent of each sink.
    sinks: BTreeMap<String, Intent>,
}

/// An event that oxbus never writes: the journal is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidEvent {
    /// Its entity.
    pub entity: EntityId,
    /// Its message.
    pub counter: Counter,
    /// A description of the error.
    pub detail: &'static str,
}

/// The number of the message, and what is wrong.
type InvalidMessage = (Counter, &'static str);

impl Default for EntityState {
    fn default() -> Self {
        Self {
            main: CounterMap::default(),
            dead_letters: CounterMap::default(),
            next: Counter::FIRST,
            seen: BTreeMap::new(),
            attached: BTreeMap::new(),
            states: BTreeMap::new(),
            origins: BTreeSet::new(),
            consumers: BTreeMap::new(),
        }
    }
}

fn check(counter: Counter) -> Result<(), InvalidMessage> {
    if counter == Counter(0) || counter > Counter::MAX {
        return Err((counter, "no message can have this number"));
    }
    Ok(())
}

/// Notes identities. A forgotten identity may arrive again, so the latest time counts.
fn remember(known: &mut BTreeMap<Identity, Timestamp>, identities: &[(Timestamp, Identity)]) {
    for (at, identity) in identities {
        let since = known.entry(*identity).or_insert(*at);
        *since = (*since).max(*at);
    }
}

impl EntityState {
    fn of(&mut self, sub_queue: SubQueue) -> &mut CounterMap<MessageState> {
        match sub_queue {
            SubQueue::Main => &mut self.main,
            SubQueue::DeadLetter => &mut self.dead_letters,
        }
    }

    fn insert(
        &mut self,
        sub_queue: SubQueue,
        counter: Counter,
        new: impl FnOnce() -> MessageState,
    ) -> Result<(), InvalidMessage> {
        check(counter)?;
        // Messages usually arrive in order, which needs no lookup.
        let is_there = counter < self.next && (self.main.contains(counter) || self.dead_letters.contains(counter));
        self.next = self.next.max(counter.next());
        if !is_there {
            self.of(sub_queue).insert(counter, new());
        }
        Ok(())
    }

    fn append(
        &mut self,
        first: Counter,
        enqueued_at: Timestamp,
        messages: &[AppendedMessage<'_>],
        to_stored: ToStored<'_>,
    ) -> Result<(), InvalidMessage> {
        for (offset, message) in (0u64..).zip(messages) {
            let counter = Counter(first.0.saturating_add(offset));
            let new = || {
                undelivered(
                    to_stored(KeptRecord::Here(message.bytes)),
                    enqueued_at,
                    message.expires_at,
                    StoredPhase::Ready,
                )
            };
            self.insert(SubQueue::Main, counter, new)?;
        }
        Ok(())
    }

    fn set_state(&mut self, id: &str, set_at: Timestamp, state: Option<&[u8]>) {
        match state {
            Some(state) => self.states.insert(id.to_owned(), (set_at, state.to_vec())),
            None => self.states.remove(id),
        };
    }

    fn update_origins(&mut self, forget: bool, origins: &[Origin]) {
        if forget {
            self.origins.retain(|origin| !origins.contains(origin));
        } else {
            self.origins.extend(origins);
        }
    }

    fn deliver_all(&mut self, sub_queue: SubQueue, messages: &[DeliveryRecord]) {
        for delivery in messages {
            // The event of its removal may come before that of its delivery.
            if let Some(message) = self.of(sub_queue).get_mut(delivery.counter) {
                let phase = if delivery.deferred {
                    StoredPhase::Fetched
                } else {
                    StoredPhase::Ready
                };
                message.update_delivery(delivery.generation, delivery.count_after, phase);
            }
        }
    }

    fn return_message(
        &mut self,
        sub_queue: SubQueue,
        (counter, generation): (Counter, u32),
        delivery_count: u32,
        phase: StoredPhase,
        record: Option<RecordChange<'_>>,
        to_stored: ToStored<'_>,
    ) -> Result<(), InvalidMessage> {
        let Some(message) = self.of(sub_queue).get_mut(counter) else {
            return Ok(());
        };
        message.update_delivery(generation, delivery_count, phase);
        let record = record.map(|change| message.apply_change(change, to_stored)).transpose();
        message.set_record(generation, record.map_err(|wrong| (counter, wrong))?);
        Ok(())
    }

    fn dead_letter(
        &mut self,
        (counter, enqueued_at, expires_at): (Counter, Timestamp, Timestamp),
        delivery_count: u32,
        record: RecordChange<'_>,
        to_stored: ToStored<'_>,
    ) -> Result<(), InvalidMessage> {
        check(counter)?;
        let record = match (self.main.remove(counter), record) {
            (Some(before), record) => before
                .apply_change(record, to_stored)
                .map_err(|wrong| (counter, wrong))?,
            (None, RecordChange::Whole(record)) => to_stored(KeptRecord::Here(record)),
            // The event was applied before: the message is a dead letter already, or removed.
            (None, RecordChange::Edited { .. }) => {
                self.next = self.next.max(counter.next());
                return Ok(());
            }
        };
        // Generations start again in the dead-letter queue.
        let new = || MessageState {
            delivery_count,
            ..undelivered(record, enqueued_at, expires_at, StoredPhase::Ready)
        };
        self.insert(SubQueue::DeadLetter, counter, new)
    }

    /// Applies an event that moves no message of this entity.
    fn apply_other(&mut self, event: &JournalEvent<'_>) {
        match event {
            JournalEvent::Number { next } => self.next = self.next.max(*next),
            JournalEvent::Seen { identities } => remember(&mut self.seen, identities),
            JournalEvent::Attached { identities } => remember(&mut self.attached, identities),
            JournalEvent::SessionState { id, set_at, state } => self.set_state(id, *set_at, *state),
            JournalEvent::Arrived { forget, origins } => self.update_origins(*forget, origins),
            JournalEvent::Consumer {
                sub_queue,
                name,
                record,
            } => {
                self.consumers.insert((*sub_queue, (*name).into()), Arc::clone(record));
            }
            // `ShardState` applies events that belong to no entity or to several.
            _ => {}
        }
    }

    fn apply(&mut self, event: &JournalEvent<'_>, to_stored: ToStored<'_>) -> Result<(), InvalidMessage> {
        match event {
            JournalEvent::Append {
                first,
                enqueued_at,
                messages,
            } => self.append(*first, *enqueued_at, messages, to_stored),
            JournalEvent::Schedule {
                counter,
                due,
                enqueued_at,
                expires_at,
                bytes,
            } => {
                let new = || {
                    undelivered(
                        to_stored(KeptRecord::Here(bytes)),
                        *enqueued_at,
                        *expires_at,
                        StoredPhase::Scheduled { due: *due },
                    )
                };
                self.insert(SubQueue::Main, *counter, new)
            }
            JournalEvent::Activate {
                counter,
                new_counter,
                enqueued_at,
                expires_at,
                bytes,
            } => {
                self.main.remove(*counter);
                let new = || {
                    let record = to_stored(KeptRecord::Here(bytes));
                    undelivered(record, *enqueued_at, *expires_at, StoredPhase::Ready)
                };
                self.insert(SubQueue::Main, *new_counter, new)
            }
            JournalEvent::HandOut { sub_queue, messages } => {
                self.deliver_all(*sub_queue, messages);
                Ok(())
            }
            JournalEvent::Return {
                sub_queue,
                counter,
                generation,
                delivery_count,
                phase,
                record,
            } => {
                let lock = (*counter, *generation);
                self.return_message(*sub_queue, lock, *delivery_count, *phase, *record, to_stored)
            }
            JournalEvent::Remove { sub_queue, counters } => {
                for (first, last) in counters.runs() {
                    self.of(*sub_queue).remove_run(first, last);
                }
                Ok(())
            }
            JournalEvent::DeadLetter {
                counter,
                enqueued_at,
                expires_at,
                delivery_count,
                record,
            } => self.dead_letter(
                (*counter, *enqueued_at, *expires_at),
                *delivery_count,
                *record,
                to_stored,
            ),
            JournalEvent::Keep {
                sub_queue,
                counter,
                enqueued_at,
                expires_at,
                delivery_count,
                generation,
                record_generation,
                phase,
                record,
            } => {
                let new = || MessageState {
                    delivery_count: *delivery_count,
                    generation: *generation,
                    record_generation: *record_generation,
                    ..undelivered(to_stored(*record), *enqueued_at, *expires_at, *phase)
                };
                // The snapshot read the dead-letter queue last, so this location is the later one.
                let _ = (*sub_queue == SubQueue::DeadLetter).then(|| self.main.remove(*counter));
                self.insert(*sub_queue, *counter, new)
            }
            other => {
                self.apply_other(other);
                Ok(())
            }
        }
    }
}

impl ShardState {
    /// Entities that have had messages.
    pub fn entities(&self) -> impl Iterator<Item = (EntityId, &EntityState)> {
        self.entities.iter().map(|(id, queues)| (*id, queues))
    }

    /// Removes and returns the state of an entity, for its cell.
    pub fn take(&mut self, entity: EntityId) -> Option<EntityState> {
        self.entities.remove(&entity)
    }

    /// The latest intent of each sink.
    pub fn sinks(&self) -> &BTreeMap<String, Intent> {
        &self.sinks
    }

    /// Mutable access to the latest intents.
    pub fn sinks_mut(&mut self) -> &mut BTreeMap<String, Intent> {
        &mut self.sinks
    }

    /// Drops entities that no longer exist.
    pub fn retain(&mut self, lives: impl Fn(EntityId) -> bool) {
        self.entities.retain(|id, _| lives(*id));
    }

    /// Drops messages whose records cannot be read from disk, and returns how many they were.
    pub fn drop_unreadable(&mut self) -> u64 {
        let mut dropped = 0;
        for queues in self.entities.values_mut() {
            for messages in [&mut queues.main, &mut queues.dead_letters] {
                let unreadable = messages.iter().filter(|(_, message)| message.record.load().is_err());
                let unreadable: Vec<Counter> = unreadable.map(|(counter, _)| counter).collect();
                dropped += unreadable.len() as u64;
                for counter in unreadable {
                    messages.remove(counter);
                }
            }
        }
        dropped
    }

    /// Applies an event that contains the records of its messages, which are stored in memory.
    pub fn apply(&mut self, entity: EntityId, event: &JournalEvent<'_>) -> Result<(), InvalidEvent> {
        if event.is_apart() {
            return Err(invalid_event(
                entity,
                (Counter(0), "the record is in another part of a file"),
            ));
        }
        self.apply_with(entity, event, &mut |record| match record {
            KeptRecord::Here(bytes) => Record::from_slice(bytes).into(),
            KeptRecord::Apart { .. } => unreachable!("checked above"),
        })
    }

    /// Applies an event. `to_stored` stores its messages.
    pub fn apply_with(
        &mut self,
        entity: EntityId,
        event: &JournalEvent<'_>,
        to_stored: ToStored<'_>,
    ) -> Result<(), InvalidEvent> {
        if let JournalEvent::FanOut {
            enqueued_at,
            bytes,
            copies,
        } = event
        {
            return self.fan_out(*enqueued_at, bytes, copies, to_stored);
        }
        if let JournalEvent::Intent { sink, intent } = event {
            self.sinks.insert((*sink).to_owned(), intent.clone());
            return Ok(());
        }
        if let JournalEvent::Packed(packed) = event {
            return self.unpack(*packed);
        }
        let queues = self.entities.entry(entity).or_default();
        queues
            .apply(event, to_stored)
            .map_err(|wrong| invalid_event(entity, wrong))
    }

    /// Applies packed events. Their messages are stored in memory: on disk they exist only compressed.
    fn unpack(&mut self, packed: PackedEvents<'_>) -> Result<(), InvalidEvent> {
        let wrong = |_| invalid_event(EntityId(0), (Counter(0), "packed events are damaged"));
        let events = packed.unpack().ok_or(MalformedEntry).map_err(wrong)?;
        for found in EventReader::of(&events) {
            let (entity, event) = found.map_err(wrong)?;
            if matches!(event, JournalEvent::Packed(_)) {
                return Err(wrong(MalformedEntry));
            }
            self.apply(entity, &event)?;
        }
        Ok(())
    }

    fn fan_out(
        &mut self,
        enqueued_at: Timestamp,
        bytes: &[u8],
        copies: &[FanOutCopy],
        to_stored: ToStored<'_>,
    ) -> Result<(), InvalidEvent> {
        let record = to_stored(KeptRecord::Here(bytes));
        for copy in copies {
            let queues = self.entities.entry(copy.entity).or_default();
            let new = || undelivered(record.clone(), enqueued_at, copy.expires_at, StoredPhase::Ready);
            let inserted = queues.insert(SubQueue::Main, copy.counter, new);
            inserted.map_err(|wrong| invalid_event(copy.entity, wrong))?;
        }
        Ok(())
    }
}

fn invalid_event(entity: EntityId, (counter, detail): InvalidMessage) -> InvalidEvent {
    InvalidEvent {
        entity,
        counter,
        detail,
    }
}
