// SPDX-License-Identifier: Apache-2.0
//! What happened to the messages of a shard, as the journal keeps it.
//!
//! An entry of the journal is a row of events that stand or fall together. Whoever writes an event has decided
//! everything: times, numbers, generations and counts are in it, so applying it needs no clock and no settings.
//!
//! ```text
//! event   = u8 kind, varint entity, fields
//! 1 Append      varint first number, varint enqueued ms, varint count, each: varint expiry, bytes
//! 2 Schedule    varint number, varint due ms, varint enqueued ms, varint expiry, bytes
//! 3 Activate    varint number, varint new number, varint enqueued ms, varint expiry, bytes
//! 4 HandOut     u8 sub-queue, varint count, each: varint number, varint generation, varint count after, u8 deferred
//! 5 Return      u8 sub-queue, varint number, varint generation, varint count, u8 deferred, u8 has bytes, bytes
//! 6 Remove      u8 sub-queue, varint count, each: varint number
//! 7 DeadLetter  varint number, varint enqueued ms, varint expiry, varint count, bytes
//! 8 Keep        u8 sub-queue, varint number, varint enqueued ms, varint expiry, varint count, varint generation,
//!               varint generation of the bytes, u8 state, varint due ms when it is scheduled, bytes
//! 9 Number      varint next number
//! ```
//!
//! All times are milliseconds since 1970, an expiry of 2^48 - 1 means never; bytes are a varint length, the bytes and their
//! CRC-32C in little-endian order, so that one message can be read back alone.

use oxbus_model::name::SubQueue;
use oxbus_model::varint::{self, Reader};
use oxbus_model::{Counter, Timestamp};
use oxbus_store::extent::{CHECK_BYTES, check_of};

/// Names one life of an entity: its number is never given to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(pub u64);

/// A message that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended<'a> {
    /// When it expires.
    pub expires_at: Timestamp,
    /// Its record.
    pub bytes: &'a [u8],
}

/// A message that went out under a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedOut {
    /// Which message.
    pub counter: Counter,
    /// The hold.
    pub generation: u32,
    /// Its delivery count if nobody settles it.
    pub count_after: u32,
    /// It was fetched by number.
    pub deferred: bool,
}

/// Where a message is when nobody holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// It waits for a receiver.
    Ready,
    /// It waits to be fetched by number.
    Deferred,
    /// It waits for its time.
    Scheduled {
        /// That time.
        due: Timestamp,
    },
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// Messages came in under consecutive numbers.
    Append {
        /// Number of the first.
        first: Counter,
        /// When they were accepted.
        enqueued_at: Timestamp,
        /// The messages, in order.
        messages: Vec<Appended<'a>>,
    },
    /// A message came in that waits for its time.
    Schedule {
        /// Its number until then.
        counter: Counter,
        /// That time.
        due: Timestamp,
        /// When it was accepted.
        enqueued_at: Timestamp,
        /// When it expires.
        expires_at: Timestamp,
        /// Its record.
        bytes: &'a [u8],
    },
    /// A scheduled message came due and got its final number.
    Activate {
        /// Its number until now.
        counter: Counter,
        /// Its number from now on.
        becomes: Counter,
        /// When it counts as accepted.
        enqueued_at: Timestamp,
        /// When it expires.
        expires_at: Timestamp,
        /// Its record.
        bytes: &'a [u8],
    },
    /// Messages went out under locks.
    HandOut {
        /// From where.
        sub_queue: SubQueue,
        /// Which.
        messages: Vec<HandedOut>,
    },
    /// A hold ended and the message stays: abandoned, deferred, released, or its lock is over.
    Return {
        /// To where.
        sub_queue: SubQueue,
        /// Which message.
        counter: Counter,
        /// The hold that ended.
        generation: u32,
        /// Its delivery count from now on.
        delivery_count: u32,
        /// It is deferred from now on.
        deferred: bool,
        /// Its record, when that changed.
        bytes: Option<&'a [u8]>,
    },
    /// Messages are gone: completed, received and deleted, cancelled, expired.
    Remove {
        /// From where.
        sub_queue: SubQueue,
        /// Which.
        counters: Vec<Counter>,
    },
    /// A message moved to the dead-letter queue.
    DeadLetter {
        /// Which.
        counter: Counter,
        /// When it was accepted.
        enqueued_at: Timestamp,
        /// When it would have expired.
        expires_at: Timestamp,
        /// Its delivery count.
        delivery_count: u32,
        /// Its record with the reason.
        bytes: &'a [u8],
    },
    /// A message as it is, in a snapshot.
    Keep {
        /// Where.
        sub_queue: SubQueue,
        /// Which.
        counter: Counter,
        /// When it was accepted.
        enqueued_at: Timestamp,
        /// When it expires.
        expires_at: Timestamp,
        /// Its delivery count, a delivery under way counted as ended.
        delivery_count: u32,
        /// Its latest hold.
        generation: u32,
        /// The hold that stored its record; 0 for none.
        record_generation: u32,
        /// Where it rests.
        rest: Rest,
        /// Its record.
        bytes: &'a [u8],
    },
    /// No lower number is given out from now on.
    Number {
        /// The next one.
        next: Counter,
    },
}

/// Adds the event of messages that come in, without a list of them.
pub fn push_append<'a>(
    entity: EntityId,
    first: Counter,
    enqueued_at: Timestamp,
    messages: impl ExactSizeIterator<Item = (Timestamp, &'a [u8])>,
    out: &mut Vec<u8>,
) {
    out.push(APPEND);
    push_all(out, &[entity.0, first.0, enqueued_at.0, messages.len() as u64]);
    for (expires_at, bytes) in messages {
        varint::push(out, expires_at.0);
        push_record(out, bytes);
    }
}

const APPEND: u8 = 1;
const READY: u8 = 0;
const DEFERRED: u8 = 1;
const SCHEDULED: u8 = 2;

fn push_all(out: &mut Vec<u8>, values: &[u64]) {
    for value in values {
        varint::push(out, *value);
    }
}

fn push_record(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::push_bytes(out, bytes);
    out.extend_from_slice(&check_of(bytes));
}

fn push_rest(out: &mut Vec<u8>, rest: Rest) {
    match rest {
        Rest::Ready => out.push(READY),
        Rest::Deferred => out.push(DEFERRED),
        Rest::Scheduled { due } => {
            out.push(SCHEDULED);
            varint::push(out, due.0);
        }
    }
}

fn push_sub_queue(out: &mut Vec<u8>, sub_queue: SubQueue) {
    out.push(u8::from(sub_queue == SubQueue::DeadLetter));
}

impl Event<'_> {
    /// Adds the event of an entity to an entry.
    pub fn encode(&self, entity: EntityId, out: &mut Vec<u8>) {
        if let Self::Append {
            first,
            enqueued_at,
            messages,
        } = self
        {
            let messages = messages.iter().map(|message| (message.expires_at, message.bytes));
            push_append(entity, *first, *enqueued_at, messages, out);
            return;
        }
        out.push(self.kind());
        varint::push(out, entity.0);
        match self {
            Self::Append { .. } => {}
            Self::Schedule {
                counter,
                due,
                enqueued_at,
                expires_at,
                bytes,
            } => {
                push_all(out, &[counter.0, due.0, enqueued_at.0, expires_at.0]);
                push_record(out, bytes);
            }
            Self::Activate {
                counter,
                becomes,
                enqueued_at,
                expires_at,
                bytes,
            } => {
                push_all(out, &[counter.0, becomes.0, enqueued_at.0, expires_at.0]);
                push_record(out, bytes);
            }
            Self::HandOut { sub_queue, messages } => {
                push_sub_queue(out, *sub_queue);
                varint::push(out, messages.len() as u64);
                for message in messages {
                    let (generation, count_after) = (message.generation.into(), message.count_after.into());
                    push_all(out, &[message.counter.0, generation, count_after]);
                    out.push(message.deferred.into());
                }
            }
            Self::Return {
                sub_queue,
                counter,
                generation,
                delivery_count,
                deferred,
                bytes,
            } => {
                push_sub_queue(out, *sub_queue);
                push_all(out, &[counter.0, (*generation).into(), (*delivery_count).into()]);
                out.push((*deferred).into());
                out.push(bytes.is_some().into());
                if let Some(bytes) = bytes {
                    push_record(out, bytes);
                }
            }
            Self::Remove { sub_queue, counters } => {
                push_sub_queue(out, *sub_queue);
                varint::push(out, counters.len() as u64);
                for counter in counters {
                    varint::push(out, counter.0);
                }
            }
            Self::DeadLetter {
                counter,
                enqueued_at,
                expires_at,
                delivery_count,
                bytes,
            } => {
                push_all(out, &[counter.0, enqueued_at.0, expires_at.0, (*delivery_count).into()]);
                push_record(out, bytes);
            }
            Self::Keep {
                sub_queue,
                counter,
                enqueued_at,
                expires_at,
                delivery_count,
                generation,
                record_generation,
                rest,
                bytes,
            } => {
                push_sub_queue(out, *sub_queue);
                push_all(out, &[counter.0, enqueued_at.0, expires_at.0]);
                let generations = [(*generation).into(), (*record_generation).into()];
                push_all(out, &[(*delivery_count).into(), generations[0], generations[1]]);
                push_rest(out, *rest);
                push_record(out, bytes);
            }
            Self::Number { next } => varint::push(out, next.0),
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Append { .. } => APPEND,
            Self::Schedule { .. } => 2,
            Self::Activate { .. } => 3,
            Self::HandOut { .. } => 4,
            Self::Return { .. } => 5,
            Self::Remove { .. } => 6,
            Self::DeadLetter { .. } => 7,
            Self::Keep { .. } => 8,
            Self::Number { .. } => 9,
        }
    }
}

/// The events of an entry, in order. Ends with `Err` at the first byte that is no event.
#[derive(Debug, Clone)]
pub struct Events<'a> {
    rest: Reader<'a>,
}

/// The bytes of an entry are not events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAnEvent;

impl<'a> Events<'a> {
    /// The events of an entry.
    pub fn of(entry: &'a [u8]) -> Self {
        Self { rest: Reader(entry) }
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<(EntityId, Event<'a>), NotAnEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.0.is_empty() {
            return None;
        }
        let event = decode(&mut self.rest);
        if event.is_none() {
            self.rest = Reader(&[]);
        }
        Some(event.ok_or(NotAnEvent))
    }
}

fn decode<'a>(from: &mut Reader<'a>) -> Option<(EntityId, Event<'a>)> {
    let kind = byte(from)?;
    let entity = EntityId(from.varint()?);
    let event = match kind {
        APPEND => Event::Append {
            first: counter(from)?,
            enqueued_at: time(from)?,
            messages: many(from, |from| {
                Some(Appended {
                    expires_at: time(from)?,
                    bytes: record(from)?,
                })
            })?,
        },
        2 => Event::Schedule {
            counter: counter(from)?,
            due: time(from)?,
            enqueued_at: time(from)?,
            expires_at: time(from)?,
            bytes: record(from)?,
        },
        3 => Event::Activate {
            counter: counter(from)?,
            becomes: counter(from)?,
            enqueued_at: time(from)?,
            expires_at: time(from)?,
            bytes: record(from)?,
        },
        4 => Event::HandOut {
            sub_queue: sub_queue(from)?,
            messages: many(from, |from| {
                Some(HandedOut {
                    counter: counter(from)?,
                    generation: small(from)?,
                    count_after: small(from)?,
                    deferred: flag(from)?,
                })
            })?,
        },
        5 => Event::Return {
            sub_queue: sub_queue(from)?,
            counter: counter(from)?,
            generation: small(from)?,
            delivery_count: small(from)?,
            deferred: flag(from)?,
            bytes: if flag(from)? { Some(record(from)?) } else { None },
        },
        6 => Event::Remove {
            sub_queue: sub_queue(from)?,
            counters: many(from, counter)?,
        },
        7 => Event::DeadLetter {
            counter: counter(from)?,
            enqueued_at: time(from)?,
            expires_at: time(from)?,
            delivery_count: small(from)?,
            bytes: record(from)?,
        },
        8 => Event::Keep {
            sub_queue: sub_queue(from)?,
            counter: counter(from)?,
            enqueued_at: time(from)?,
            expires_at: time(from)?,
            delivery_count: small(from)?,
            generation: small(from)?,
            record_generation: small(from)?,
            rest: match byte(from)? {
                READY => Rest::Ready,
                DEFERRED => Rest::Deferred,
                SCHEDULED => Rest::Scheduled { due: time(from)? },
                _ => return None,
            },
            bytes: record(from)?,
        },
        9 => Event::Number { next: counter(from)? },
        _ => return None,
    };
    Some((entity, event))
}

/// The bytes of a message. Their check is not looked at: what they stand in was checked as a whole.
fn record<'a>(from: &mut Reader<'a>) -> Option<&'a [u8]> {
    let bytes = from.bytes()?;
    from.take(CHECK_BYTES as u64)?;
    Some(bytes)
}

fn byte(from: &mut Reader<'_>) -> Option<u8> {
    from.take(1).map(|bytes| bytes[0])
}

fn flag(from: &mut Reader<'_>) -> Option<bool> {
    match byte(from)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn sub_queue(from: &mut Reader<'_>) -> Option<SubQueue> {
    flag(from).map(|dead| if dead { SubQueue::DeadLetter } else { SubQueue::Main })
}

fn small(from: &mut Reader<'_>) -> Option<u32> {
    u32::try_from(from.varint()?).ok()
}

fn counter(from: &mut Reader<'_>) -> Option<Counter> {
    from.varint().map(Counter)
}

fn time(from: &mut Reader<'_>) -> Option<Timestamp> {
    from.varint().map(Timestamp)
}

/// As many as are said to come. The number is somebody's word, so it sets no room aside.
fn many<'a, T>(from: &mut Reader<'a>, mut one: impl FnMut(&mut Reader<'a>) -> Option<T>) -> Option<Vec<T>> {
    let count = from.varint()?;
    let mut found = Vec::new();
    for _ in 0..count {
        found.push(one(from)?);
    }
    Some(found)
}
