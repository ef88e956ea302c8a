// SPDX-License-Identifier: Apache-2.0
//! Arriving messages: their numbers, their events, and their publication in the stores.
//!
//! Invariants
//! - operations take numbers in the order of the list, both for their events and for publication, so the two agree;
//! - no receiver can receive a message before it is published.

use std::sync::atomic::Ordering;

use oxbus_model::{Counter, Timestamp};
use oxbus_store::extent::ExtentLocation;
use oxbus_store::{MessageStore, NewMessage, NumberedStore, Record, RemovedMessage, StoredRecord};
use smallvec::{SmallVec, smallvec};

use super::shard_write::{DeadLetterInput, FanOutRecord, ShardWrite, WriteOperation};
use crate::memory::SPILL_BYTES_MIN;
use crate::shard::journal::{FanOutCopy, JournalEvent, Ranges, RecordChange, push_append};
use crate::shard::{Cell, Meter};

/// Upper limit of the bytes of an event besides its message, for the capacity of a buffer.
const EVENT_BYTES: usize = 64;

/// Consecutive numbers in one cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct CellNumbers {
    /// The next number to take.
    pub(super) next: Counter,
    /// How many were reserved.
    pub(super) count: usize,
    /// The new high-water mark, if one is due.
    pub(super) mark: Option<Counter>,
}

impl CellNumbers {
    /// Takes `count` numbers and returns the first.
    fn take(&mut self, count: usize) -> Counter {
        let first = self.next;
        self.next = Counter(first.0 + count as u64);
        first
    }
}

/// The numbers of each cell, by position.
pub(super) type NumbersByCell = SmallVec<[CellNumbers; 1]>;

/// Journal locations of the messages, in the order of their events.
pub(super) struct RecordLocations {
    pub(super) left: std::vec::IntoIter<ExtentLocation>,
    /// True if the bytes leave the memory.
    pub(super) spills: bool,
}

/// The bytes of an arriving message.
fn bytes_of(message: &NewMessage) -> &[u8] {
    message.record.in_memory().expect("an arriving message is in memory")
}

impl ShardWrite<'_> {
    /// The numbers that the messages of this write need, starting at the next number of each cell.
    pub(super) fn next_numbers(&self) -> NumbersByCell {
        let numbers_of = |cell: &&Cell| CellNumbers {
            next: cell.main.next(),
            count: 0,
            mark: None,
        };
        let mut numbers: NumbersByCell = match &self.cells[..] {
            [cell] => NumbersByCell::from_buf([numbers_of(cell)]),
            cells => cells.iter().map(numbers_of).collect(),
        };
        for operation in &self.operations {
            match operation {
                WriteOperation::Append(messages) => numbers[0].count += messages.len(),
                WriteOperation::Activate { message: Some(_), .. } => numbers[0].count += 1,
                WriteOperation::Schedule { to, counter: None, .. }
                | WriteOperation::DeadLetter {
                    dead_letter: DeadLetterInput::New(to, _),
                    ..
                } => numbers[*to].count += 1,
                WriteOperation::FanOut { fans, .. } => {
                    for (to, _) in fans.iter().flat_map(|fan| &fan.copies) {
                        numbers[*to].count += 1;
                    }
                }
                _ => {}
            }
        }
        numbers
    }

    /// Reserves the numbers. If the append guard is held, they are the ones that `next_numbers` returned.
    pub(super) fn reserve(&self, numbers: &mut NumbersByCell) {
        for (cell, numbers) in self.cells.iter().zip(numbers).filter(|(_, it)| it.count > 0) {
            let first = cell.main.reserve(numbers.count);
            debug_assert!(
                cell.shard.journal().is_none() || first.0 + numbers.count as u64 == numbers.next.0,
                "numbers are assigned under the append guard, and each has an event"
            );
            numbers.next = first;
        }
    }

    /// Gives up the numbers.
    pub(super) fn give_up(&self, numbers: &NumbersByCell) {
        for (cell, numbers) in self.cells.iter().zip(numbers).filter(|(_, it)| it.count > 0) {
            cell.main.give_up(numbers.next, numbers.count);
        }
    }

    /// Approximate bytes of the events of arriving messages.
    pub(super) fn arriving_bytes(&self) -> usize {
        let of = |operation: &WriteOperation<'_>| match operation {
            WriteOperation::Append(messages) => messages.iter().map(|it| it.record.len() + EVENT_BYTES).sum(),
            WriteOperation::Schedule { message, .. }
            | WriteOperation::Activate {
                message: Some(message), ..
            }
            | WriteOperation::DeadLetter {
                dead_letter: DeadLetterInput::New(_, message),
                ..
            } => message.record.len() + EVENT_BYTES,
            WriteOperation::FanOut { fans, .. } => {
                let bytes = |fan: &FanOutRecord| fan.record.len() + EVENT_BYTES + 32 * fan.copies.len();
                fans.iter().map(bytes).sum()
            }
            _ => EVENT_BYTES,
        };
        self.operations.iter().map(of).sum()
    }

    /// Writes the events of arriving messages under these numbers.
    pub(super) fn encode_arrivals(&self, numbers: &mut NumbersByCell, entry: &mut Vec<u8>) {
        let now = self.moment.now;
        for operation in &self.operations {
            match operation {
                WriteOperation::Append(messages) => {
                    let first = numbers[0].take(messages.len());
                    let messages = messages.iter().map(|message| (message.expires_at, bytes_of(message)));
                    push_append(self.cells[0].entity, first, now, messages, entry);
                }
                WriteOperation::Schedule {
                    to,
                    counter,
                    due,
                    message,
                } => {
                    let counter = counter.unwrap_or_else(|| numbers[*to].take(1));
                    let event = JournalEvent::Schedule {
                        counter,
                        due: *due,
                        enqueued_at: now,
                        expires_at: message.expires_at,
                        bytes: bytes_of(message),
                    };
                    event.encode(self.cells[*to].entity, entry);
                }
                WriteOperation::FanOut { coordinator, fans } => {
                    for FanOutRecord { record, copies } in fans {
                        let copy = |(to, expires_at): &(usize, Timestamp)| FanOutCopy {
                            entity: self.cells[*to].entity,
                            counter: numbers[*to].take(1),
                            expires_at: *expires_at,
                        };
                        let event = JournalEvent::FanOut {
                            enqueued_at: now,
                            bytes: record,
                            copies: copies.iter().map(copy).collect(),
                        };
                        event.encode(*coordinator, entry);
                    }
                }
                WriteOperation::DeadLetter {
                    dead_letter: DeadLetterInput::New(to, message),
                    ..
                } => {
                    let event = JournalEvent::DeadLetter {
                        counter: numbers[*to].take(1),
                        enqueued_at: now,
                        expires_at: message.expires_at,
                        delivery_count: 0,
                        record: RecordChange::Whole(bytes_of(message)),
                    };
                    event.encode(self.cells[*to].entity, entry);
                }
                WriteOperation::Activate { cell, counter, message } => {
                    let event = match message {
                        Some(message) => JournalEvent::Activate {
                            counter: *counter,
                            new_counter: numbers[0].take(1),
                            enqueued_at: now,
                            expires_at: message.expires_at,
                            bytes: bytes_of(message),
                        },
                        None => JournalEvent::Remove {
                            sub_queue: oxbus_model::name::SubQueue::Main,
                            counters: Ranges::from_iter([*counter]),
                        },
                    };
                    event.encode(cell.entity, entry);
                }
                _ => {}
            }
        }
    }

    /// Publishes the messages under their numbers. Returns how many are ready in the first cell.
    pub(super) fn publish(&mut self, numbers: &mut NumbersByCell, mut locations: Option<RecordLocations>) -> usize {
        let operations = &mut *self.operations;
        for operation in operations.iter() {
            match operation {
                // Before the publication: a snapshot with the messages must have their identities.
                WriteOperation::Seen(_, admission) | WriteOperation::Attached(_, admission) => admission.remember(),
                // Before the publication: a snapshot that waits for the new number must not find the old one.
                WriteOperation::Activate { cell, counter, .. } => {
                    cell.main.take_scheduled(*counter);
                }
                _ => {}
            }
        }
        let now = self.moment.now;
        let mut ready = 0;
        for operation in operations {
            match operation {
                WriteOperation::Append(messages) => {
                    ready += messages.len();
                    let first = numbers[0].take(messages.len());
                    for message in messages.iter_mut() {
                        locate(message, &mut locations);
                    }
                    self.cells[0].meter(Meter::Sent, messages.len());
                    self.cells[0].main.publish(first, messages, now);
                }
                WriteOperation::Activate {
                    cell,
                    message: message @ Some(_),
                    ..
                } => {
                    ready += 1;
                    let mut message = message.take().unwrap_or_else(empty_message);
                    locate(&mut message, &mut locations);
                    cell.main.publish(numbers[0].take(1), &mut vec![message], now);
                }
                WriteOperation::Schedule {
                    to,
                    counter,
                    due,
                    message,
                } => {
                    let counter = counter.unwrap_or_else(|| numbers[*to].take(1));
                    let mut message = std::mem::replace(message, empty_message());
                    locate(&mut message, &mut locations);
                    self.cells[*to].meter(Meter::Sent, 1);
                    self.cells[*to].publish_scheduled(counter, *due, message, now);
                }
                WriteOperation::FanOut { fans, .. } => {
                    publish_copies(&self.cells, std::mem::take(fans), numbers, now, &mut locations);
                }
                WriteOperation::DeadLetter {
                    dead_letter: DeadLetterInput::New(to, message),
                    ..
                } => {
                    // The message stays in memory; skip its location.
                    locations.as_mut().map(|locations| locations.left.next());
                    let message = std::mem::replace(message, empty_message());
                    self.cells[*to].meter(Meter::RuleFailed, 1);
                    self.cells[*to].publish_dead_letter(numbers[*to].take(1), message, now);
                }
                _ => {}
            }
        }
        ready
    }
}

/// A placeholder for a message that was moved out.
fn empty_message() -> NewMessage {
    NewMessage {
        record: Record::from_slice(&[]).into(),
        expires_at: Timestamp::NEVER,
    }
}

/// Gives a message its journal location, if messages keep these and the message is large enough.
fn locate(message: &mut NewMessage, locations: &mut Option<RecordLocations>) {
    let Some(RecordLocations { left, spills }) = locations else {
        return;
    };
    let Some(location) = left.next().filter(|_| message.record.len() >= SPILL_BYTES_MIN) else {
        return;
    };
    message.record = match message.record.in_memory() {
        Some(record) if !*spills => StoredRecord::in_both(record.clone(), location),
        _ => StoredRecord::on_disk(message.record.len(), location),
    };
}

fn publish_copies(
    cells: &[&Cell],
    fans: Vec<FanOutRecord>,
    numbers: &mut NumbersByCell,
    now: Timestamp,
    locations: &mut Option<RecordLocations>,
) {
    let mut batches: SmallVec<[Vec<NewMessage>; 1]> = smallvec![];
    batches.resize_with(cells.len(), Vec::new);
    for FanOutRecord { record, copies } in fans {
        let mut message = NewMessage {
            record: record.into(),
            expires_at: Timestamp::NEVER,
        };
        locate(&mut message, locations);
        for (to, expires_at) in copies {
            let record = message.record.clone();
            batches[to].push(NewMessage { record, expires_at });
        }
    }
    for ((cell, numbers), mut batch) in cells.iter().zip(numbers).zip(batches) {
        if !batch.is_empty() {
            cell.meter(Meter::Sent, batch.len());
            cell.main.publish(numbers.take(batch.len()), &mut batch, now);
        }
    }
}

impl Cell {
    fn publish_scheduled(&self, counter: Counter, due: Timestamp, message: NewMessage, now: Timestamp) {
        self.shard.with_cell_state(self.state_id, |state| {
            self.main.publish_scheduled(counter, message, now);
            state.schedule.add(due, counter);
            self.next_due.fetch_min(due.0, Ordering::SeqCst);
        });
    }

    fn publish_dead_letter(&self, counter: Counter, message: NewMessage, now: Timestamp) {
        let removed = RemovedMessage {
            counter,
            record: message.record,
            delivery_count: 0,
            enqueued_at: now,
            expires_at: message.expires_at,
        };
        self.shard
            .with_cell_state(self.state_id, |state| state.dead_letters.insert(removed));
        self.main.give_up(counter, 1);
    }

    /// Reserves numbers for messages that arrive at a topic or are scheduled. Each must be published or given up.
    pub fn take_numbers(&self, count: usize) -> Counter {
        // Under the append guard: the next high-water mark covers all numbers that are reserved now.
        let journal = self.shard.journal();
        let _append_guard = journal.map(|journal| journal.lock_for_append(self.shard.health()));
        self.main.reserve(count)
    }

    /// Gives up reserved numbers.
    pub fn give_up_numbers(&self, first: Counter, count: usize) {
        self.main.give_up(first, count);
    }
}
