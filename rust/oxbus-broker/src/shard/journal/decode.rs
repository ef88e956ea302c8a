// SPDX-License-Identifier: Apache-2.0
//! The events of an entry, read back.

use std::sync::Arc;

use oxbus_model::name::SubQueue;
use oxbus_model::varint::Reader;
use oxbus_model::{Counter, Identity, Timestamp};
use oxbus_store::extent::CHECK_BYTES;

use super::changed::Changed;
use super::consumer::ConsumerRecord;
use super::event::{
    APPEND, Appended, DEFERRED, EntityId, Event, FETCHED, FannedOut, HandedOut, Origin, READY, Rest, SCHEDULED,
};
use super::intent::Intent;
use super::packed::Packed;
use super::ranges::Ranges;

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
            record: if flag(from)? {
                Some(Changed::decode(from, record)?)
            } else {
                None
            },
        },
        6 => Event::Remove {
            sub_queue: sub_queue(from)?,
            counters: Ranges::decode(from)?,
        },
        7 => Event::DeadLetter {
            counter: counter(from)?,
            enqueued_at: time(from)?,
            expires_at: time(from)?,
            delivery_count: small(from)?,
            record: Changed::decode(from, record)?,
        },
        8 => keep(from)?,
        9 => Event::Number { next: counter(from)? },
        10 => Event::Seen {
            identities: identities(from)?,
        },
        11 => Event::SessionState {
            id: from.text()?,
            set_at: time(from)?,
            state: if flag(from)? { Some(from.bytes()?) } else { None },
        },
        12 => fan_out(from)?,
        13 => arrived(from)?,
        14 => Event::Attached {
            identities: identities(from)?,
        },
        15 => Event::Consumer {
            sub_queue: sub_queue(from)?,
            name: from.text()?,
            record: Arc::new(ConsumerRecord::decode(from)?),
        },
        16 => Event::Intent {
            sink: from.text()?,
            intent: Intent::take(from)?,
        },
        17 => Event::Packed(Packed::take(from)?),
        _ => return None,
    };
    Some((entity, event))
}

fn keep<'a>(from: &mut Reader<'a>) -> Option<Event<'a>> {
    Some(Event::Keep {
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
            FETCHED => Rest::Fetched,
            SCHEDULED => Rest::Scheduled { due: time(from)? },
            _ => return None,
        },
        bytes: record(from)?,
    })
}

fn fan_out<'a>(from: &mut Reader<'a>) -> Option<Event<'a>> {
    Some(Event::FanOut {
        enqueued_at: time(from)?,
        bytes: record(from)?,
        copies: many(from, |from| {
            Some(FannedOut {
                entity: EntityId(from.varint()?),
                counter: counter(from)?,
                expires_at: time(from)?,
            })
        })?,
    })
}

fn identities(from: &mut Reader<'_>) -> Option<Vec<(Timestamp, Identity)>> {
    many(from, |from| {
        let at = time(from)?;
        let bytes = from.take(size_of::<Identity>() as u64)?;
        Some((at, Identity(u128::from_le_bytes(bytes.try_into().ok()?))))
    })
}

fn arrived<'a>(from: &mut Reader<'a>) -> Option<Event<'a>> {
    Some(Event::Arrived {
        is_over: flag(from)?,
        origins: many(from, |from| {
            Some(Origin {
                entity: EntityId(from.varint()?),
                partition: u16::try_from(from.varint()?).ok()?,
                is_dead_letter: flag(from)?,
                counter: counter(from)?,
            })
        })?,
    })
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

pub(super) fn flag(from: &mut Reader<'_>) -> Option<bool> {
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
pub(super) fn many<'a, T>(from: &mut Reader<'a>, mut one: impl FnMut(&mut Reader<'a>) -> Option<T>) -> Option<Vec<T>> {
    let count = from.varint()?;
    let mut found = Vec::new();
    for _ in 0..count {
        found.push(one(from)?);
    }
    Some(found)
}
