// SPDX-License-Identifier: Apache-2.0
//! Folds entries into one shorter entry with the same effect.
//!
//! Removed messages become runs of numbers, and other events about them are omitted. Only the newest lock of a message
//! is kept. Events that move or change a message are kept, in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxbus_model::Counter;
use oxbus_model::name::SubQueue;

use super::consumer::ConsumerRecord;
use super::decode::{EventReader, MalformedEntry};
use super::event::{DeliveryRecord, EntityId, JournalEvent, StoredPhase};
use super::packed::{PackedEvents, packed};
use super::ranges::Ranges;

type QueueKey = (EntityId, SubQueue);

/// The events of the entries, by kind.
#[derive(Default)]
struct FoldedEntries<'a> {
    /// Removed messages.
    removed: BTreeMap<QueueKey, Vec<Counter>>,
    /// The newest lock of each message, and the phase in which it left the message if it has ended.
    locks: BTreeMap<QueueKey, BTreeMap<Counter, (DeliveryRecord, Option<StoredPhase>)>>,
    /// The latest record of each consumer.
    consumers: BTreeMap<(QueueKey, &'a str), Arc<ConsumerRecord>>,
    /// The position in `others` of each session's latest state.
    states: BTreeMap<(EntityId, &'a str), usize>,
    /// All other events, in order.
    others: Vec<(EntityId, JournalEvent<'a>)>,
}

/// Folds `entries` into one entry.
pub fn fold(entries: &[Vec<u8>]) -> Result<Vec<u8>, MalformedEntry> {
    let entries = entries.iter().map(|entry| unpacked(entry));
    let entries = entries.collect::<Result<Vec<Vec<u8>>, MalformedEntry>>()?;
    let mut folded = FoldedEntries::default();
    for entry in &entries {
        for found in EventReader::of(entry) {
            let (entity, event) = found?;
            folded.add(entity, event);
        }
    }
    let pack = |packed: PackedEvents<'_>| {
        let mut out = Vec::new();
        JournalEvent::Packed(packed).encode(EntityId(0), &mut out);
        out
    };
    Ok(packed(folded.encode(), pack))
}

/// Replaces packed events by their contents.
fn unpacked(entry: &[u8]) -> Result<Vec<u8>, MalformedEntry> {
    let mut out = Vec::with_capacity(entry.len());
    for found in EventReader::of(entry) {
        match found? {
            (_, JournalEvent::Packed(packed)) => out.extend(packed.unpack().ok_or(MalformedEntry)?),
            (entity, event) => event.encode(entity, &mut out),
        }
    }
    Ok(out)
}

impl<'a> FoldedEntries<'a> {
    fn add(&mut self, entity: EntityId, event: JournalEvent<'a>) {
        match event {
            JournalEvent::Remove {
                sub_queue,
                ref counters,
            } => {
                let removed = self.removed.entry((entity, sub_queue)).or_default();
                removed.extend(counters.counters());
            }
            JournalEvent::HandOut { sub_queue, messages } => {
                for message in messages {
                    self.note_lock((entity, sub_queue), message, None);
                }
            }
            JournalEvent::Return {
                sub_queue,
                counter,
                generation,
                delivery_count,
                phase,
                record,
            } => {
                let ended = DeliveryRecord {
                    counter,
                    generation,
                    count_after: delivery_count,
                    deferred: false,
                };
                self.note_lock((entity, sub_queue), ended, Some(phase));
                if record.is_some() {
                    self.others.push((entity, event));
                }
            }
            JournalEvent::Consumer {
                sub_queue,
                name,
                record,
            } => {
                self.consumers.insert(((entity, sub_queue), name), record);
            }
            JournalEvent::SessionState { id, .. } => {
                self.states.insert((entity, id), self.others.len());
                self.others.push((entity, event));
            }
            other => self.others.push((entity, other)),
        }
    }

    /// Notes a lock or its end, unless a newer one is known.
    fn note_lock(&mut self, queue: QueueKey, lock: DeliveryRecord, ended: Option<StoredPhase>) {
        let locks = self.locks.entry(queue).or_default();
        let known = locks.get(&lock.counter).map_or(0, |(known, _)| known.generation);
        if lock.generation >= known {
            locks.insert(lock.counter, (lock, ended));
        }
    }

    fn encode(mut self) -> Vec<u8> {
        for (entity, event) in &self.others {
            if let JournalEvent::DeadLetter { counter, .. } = event {
                self.removed
                    .entry((*entity, SubQueue::Main))
                    .or_default()
                    .push(*counter);
            }
        }
        for counters in self.removed.values_mut() {
            counters.sort_unstable();
            counters.dedup();
        }
        let removed = &self.removed;
        let is_removed = |entity: EntityId, sub_queue, counter: &Counter| {
            let removed = removed.get(&(entity, sub_queue));
            removed.is_some_and(|removed| removed.binary_search(counter).is_ok())
        };
        let mut out = Vec::new();
        for (position, (entity, event)) in self.others.iter().enumerate() {
            let is_needed = match event {
                // Only the latest state counts.
                JournalEvent::SessionState { id, .. } => self.states.get(&(*entity, *id)) == Some(&position),
                // A change of a dead-lettered message is not needed: its `DeadLetter` event has the newer record.
                JournalEvent::Return { sub_queue, counter, .. } => !is_removed(*entity, *sub_queue, counter),
                JournalEvent::DeadLetter { counter, .. } => !is_removed(*entity, SubQueue::DeadLetter, counter),
                _ => true,
            };
            if is_needed {
                event.encode(*entity, &mut out);
            }
        }
        for ((entity, sub_queue), mut locks) in self.locks {
            locks.retain(|counter, _| !is_removed(entity, sub_queue, counter));
            let mut messages: Vec<DeliveryRecord> = Vec::new();
            for (lock, ended) in locks.into_values() {
                let Some(phase) = ended else {
                    messages.push(lock);
                    continue;
                };
                let event = JournalEvent::Return {
                    sub_queue,
                    counter: lock.counter,
                    generation: lock.generation,
                    delivery_count: lock.count_after,
                    phase,
                    record: None,
                };
                event.encode(entity, &mut out);
            }
            if !messages.is_empty() {
                JournalEvent::HandOut { sub_queue, messages }.encode(entity, &mut out);
            }
        }
        for (((entity, sub_queue), name), record) in self.consumers {
            let event = JournalEvent::Consumer {
                sub_queue,
                name,
                record,
            };
            event.encode(entity, &mut out);
        }
        for ((entity, sub_queue), counters) in self.removed {
            let counters = Ranges::from_iter(counters);
            JournalEvent::Remove { sub_queue, counters }.encode(entity, &mut out);
        }
        out
    }
}
