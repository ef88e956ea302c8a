// SPDX-License-Identifier: Apache-2.0
//! Reads the events of an entry.

use std::sync::Arc;

use oxbus_model::name::SubQueue;
use oxbus_model::varint::VarintReader;
use oxbus_model::{Counter, Identity, Timestamp};
use oxbus_store::RECORD_BYTES_MAX;
use oxbus_store::extent::{CHECKSUM_BYTES, FILE_BYTES_MAX};

use super::consumer::ConsumerRecord;
use super::encode::{APPEND, DEFERRED, DELAYED, DELAYED_DEFERRED, FETCHED, READY, SCHEDULED};
use super::event::{
    AppendedMessage, DeliveryRecord, EntityId, FanOutCopy, JournalEvent, KeptRecord, Origin, StoredPhase,
};
use super::intent::Intent;
use super::packed::PackedEvents;
use super::ranges::Ranges;
use super::record_change::RecordChange;

/// Iterates over the events of an entry. Ends after the first error.
#[derive(Debug, Clone)]
pub struct EventReader<'a> {
    rest: VarintReader<'a>,
}

/// The bytes of an entry are not valid events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedEntry;

impl<'a> EventReader<'a> {
    /// A reader of an entry.
    pub fn of(entry: &'a [u8]) -> Self {
        Self {
            rest: VarintReader(entry),
        }
    }
}

impl<'a> Iterator for EventReader<'a> {
    type Item = Result<(EntityId, JournalEvent<'a>), MalformedEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.0.is_empty() {
            return None;
        }
        let event = decode(&mut self.rest);
        if event.is_none() {
            self.rest = VarintReader(&[]);
        }
        Some(event.ok_or(MalformedEntry))
    }
}

fn decode<'a>(from: &mut VarintReader<'a>) -> Option<(EntityId, JournalEvent<'a>)> {
    let kind = byte(from)?;
    let entity = EntityId(from.varint()?);
    let event = match kind {
        APPEND => JournalEvent::Append {
            first: counter(from)?,
            enqueued_at: time(from)?,
            messages: many(from, |from| {
                Some(AppendedMessage {
                    expires_at: time(from)?,
                    bytes: record(from)?,
                })
            })?,
        },
        2 => JournalEvent::Schedule {
            counter: counter(from)?,
            due: time(from)?,
            enqueued_at: time(from)?,
            expires_at: time(from)?,
            bytes: record(from)?,
        },
        3 => JournalEvent::Activate {
            counter: counter(from)?,
            new_counter: counter(from)?,
            enqueued_at: time(from)?,
            expires_at: time(from)?,
            bytes: record(from)?,
        },
        4 => JournalEvent::HandOut {
            sub_queue: sub_queue(from)?,
            messages: many(from, |from| {
                Some(DeliveryRecord {
                    counter: counter(from)?,
                    generation: small(from)?,
                    count_after: small(from)?,
                    deferred: flag(from)?,
                })
            })?,
        },
        5 => JournalEvent::Return {
            sub_queue: sub_queue(from)?,
            counter: counter(from)?,
            generation: small(from)?,
            delivery_count: small(from)?,
            phase: phase(from)
                .filter(|phase| !matches!(phase, StoredPhase::Fetched | StoredPhase::Scheduled { .. }))?,
            record: if flag(from)? {
                Some(RecordChange::decode(from, record)?)
            } else {
                None
            },
        },
        6 => JournalEvent::Remove {
            sub_queue: sub_queue(from)?,
            counters: Ranges::decode(from)?,
        },
        7 => JournalEvent::DeadLetter {
            counter: counter(from)?,
            enqueued_at: time(from)?,
            expires_at: time(from)?,
            delivery_count: small(from)?,
            record: RecordChange::decode(from, record)?,
        },
        8 => keep(from, |from| record(from).map(KeptRecord::Here))?,
        9 => JournalEvent::Number { next: counter(from)? },
        10 => JournalEvent::Seen {
            identities: identities(from)?,
        },
        11 => JournalEvent::SessionState {
            id: from.text()?,
            set_at: time(from)?,
            state: if flag(from)? { Some(from.bytes()?) } else { None },
        },
        12 => fan_out(from)?,
        13 => arrived(from)?,
        14 => JournalEvent::Attached {
            identities: identities(from)?,
        },
        15 => JournalEvent::Consumer {
            sub_queue: sub_queue(from)?,
            name: from.text()?,
            record: Arc::new(ConsumerRecord::decode(from)?),
        },
        16 => JournalEvent::Intent {
            sink: from.text()?,
            intent: Intent::take(from)?,
        },
        17 => JournalEvent::Packed(PackedEvents::take(from)?),
        18 => keep(from, apart)?,
        _ => return None,
    };
    Some((entity, event))
}

fn keep<'a>(
    from: &mut VarintReader<'a>,
    record: impl FnOnce(&mut VarintReader<'a>) -> Option<KeptRecord<'a>>,
) -> Option<JournalEvent<'a>> {
    Some(JournalEvent::Keep {
        sub_queue: sub_queue(from)?,
        counter: counter(from)?,
        enqueued_at: time(from)?,
        expires_at: time(from)?,
        delivery_count: small(from)?,
        generation: small(from)?,
        record_generation: small(from)?,
        phase: phase(from)?,
        record: record(from)?,
    })
}

fn apart<'a>(from: &mut VarintReader<'a>) -> Option<KeptRecord<'a>> {
    Some(KeptRecord::Apart {
        len: usize::try_from(from.varint()?)
            .ok()
            .filter(|len| *len <= RECORD_BYTES_MAX)?,
        position: from.varint().filter(|position| *position <= FILE_BYTES_MAX)?,
    })
}

fn phase(from: &mut VarintReader<'_>) -> Option<StoredPhase> {
    Some(match byte(from)? {
        READY => StoredPhase::Ready,
        DEFERRED => StoredPhase::Deferred,
        FETCHED => StoredPhase::Fetched,
        SCHEDULED => StoredPhase::Scheduled { due: time(from)? },
        state @ (DELAYED | DELAYED_DEFERRED) => StoredPhase::Delayed {
            until: time(from)?,
            deferred: state == DELAYED_DEFERRED,
        },
        _ => return None,
    })
}

fn fan_out<'a>(from: &mut VarintReader<'a>) -> Option<JournalEvent<'a>> {
    Some(JournalEvent::FanOut {
        enqueued_at: time(from)?,
        bytes: record(from)?,
        copies: many(from, |from| {
            Some(FanOutCopy {
                entity: EntityId(from.varint()?),
                counter: counter(from)?,
                expires_at: time(from)?,
            })
        })?,
    })
}

fn identities(from: &mut VarintReader<'_>) -> Option<Vec<(Timestamp, Identity)>> {
    many(from, |from| {
        let at = time(from)?;
        let bytes = from.take(size_of::<Identity>() as u64)?;
        Some((at, Identity(u128::from_le_bytes(bytes.try_into().ok()?))))
    })
}

fn arrived<'a>(from: &mut VarintReader<'a>) -> Option<JournalEvent<'a>> {
    Some(JournalEvent::Arrived {
        forget: flag(from)?,
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

/// The bytes of a message. Their checksum is skipped, because the frame around them has been checked.
fn record<'a>(from: &mut VarintReader<'a>) -> Option<&'a [u8]> {
    let bytes = from.bytes()?;
    from.take(CHECKSUM_BYTES as u64)?;
    Some(bytes)
}

fn byte(from: &mut VarintReader<'_>) -> Option<u8> {
    from.take(1).map(|bytes| bytes[0])
}

pub(super) fn flag(from: &mut VarintReader<'_>) -> Option<bool> {
    match byte(from)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn sub_queue(from: &mut VarintReader<'_>) -> Option<SubQueue> {
    flag(from).map(|dead| if dead { SubQueue::DeadLetter } else { SubQueue::Main })
}

fn small(from: &mut VarintReader<'_>) -> Option<u32> {
    u32::try_from(from.varint()?).ok()
}

fn counter(from: &mut VarintReader<'_>) -> Option<Counter> {
    from.varint().map(Counter)
}

fn time(from: &mut VarintReader<'_>) -> Option<Timestamp> {
    from.varint().map(Timestamp)
}

/// Reads a count and that many items. The count is untrusted, so no memory is reserved for it.
pub(super) fn many<'a, T>(
    from: &mut VarintReader<'a>,
    mut one: impl FnMut(&mut VarintReader<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = from.varint()?;
    let mut found = Vec::new();
    for _ in 0..count {
        found.push(one(from)?);
    }
    Some(found)
}
