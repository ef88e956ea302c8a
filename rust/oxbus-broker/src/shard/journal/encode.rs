// SPDX-License-Identifier: Apache-2.0
//! Writes events as bytes. `decode` reads them.

use oxbus_model::name::SubQueue;
use oxbus_model::varint;
use oxbus_model::{Counter, Identity, Timestamp};
use oxbus_store::extent::checksum_of;

use super::consumer::ConsumerRecord;
use super::event::{DeliveryRecord, EntityId, FanOutCopy, JournalEvent, KeptRecord, Origin, StoredPhase};

/// Writes an `Append` event without collecting its messages.
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

pub(super) const APPEND: u8 = 1;
pub(super) const READY: u8 = 0;
pub(super) const DEFERRED: u8 = 1;
pub(super) const SCHEDULED: u8 = 2;
pub(super) const FETCHED: u8 = 3;
pub(super) const DELAYED: u8 = 4;
pub(super) const DELAYED_DEFERRED: u8 = 5;

fn push_all(out: &mut Vec<u8>, values: &[u64]) {
    for value in values {
        varint::push(out, *value);
    }
}

pub(super) fn push_record(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::push_bytes(out, bytes);
    out.extend_from_slice(&checksum_of(bytes));
}

fn push_kept(out: &mut Vec<u8>, record: KeptRecord<'_>) {
    match record {
        KeptRecord::Here(bytes) => push_record(out, bytes),
        KeptRecord::Apart { len, position } => push_all(out, &[len as u64, position]),
    }
}

fn push_phase(out: &mut Vec<u8>, phase: StoredPhase) {
    match phase {
        StoredPhase::Ready => out.push(READY),
        StoredPhase::Deferred => out.push(DEFERRED),
        StoredPhase::Fetched => out.push(FETCHED),
        StoredPhase::Scheduled { due } => {
            out.push(SCHEDULED);
            varint::push(out, due.0);
        }
        StoredPhase::Delayed { until, deferred } => {
            out.push(if deferred { DELAYED_DEFERRED } else { DELAYED });
            varint::push(out, until.0);
        }
    }
}

fn push_identities(out: &mut Vec<u8>, identities: &[(Timestamp, Identity)]) {
    varint::push(out, identities.len() as u64);
    for (at, identity) in identities {
        varint::push(out, at.0);
        out.extend_from_slice(&identity.0.to_le_bytes());
    }
}

fn push_state(out: &mut Vec<u8>, id: &str, set_at: Timestamp, state: Option<&[u8]>) {
    varint::push_bytes(out, id.as_bytes());
    varint::push(out, set_at.0);
    out.push(state.is_some().into());
    if let Some(state) = state {
        varint::push_bytes(out, state);
    }
}

fn push_fan_out(out: &mut Vec<u8>, enqueued_at: Timestamp, bytes: &[u8], copies: &[FanOutCopy]) {
    varint::push(out, enqueued_at.0);
    push_record(out, bytes);
    varint::push(out, copies.len() as u64);
    for copy in copies {
        push_all(out, &[copy.entity.0, copy.counter.0, copy.expires_at.0]);
    }
}

fn push_deliveries(out: &mut Vec<u8>, sub_queue: SubQueue, messages: &[DeliveryRecord]) {
    push_sub_queue(out, sub_queue);
    varint::push(out, messages.len() as u64);
    for message in messages {
        let (generation, count_after) = (message.generation.into(), message.count_after.into());
        push_all(out, &[message.counter.0, generation, count_after]);
        out.push(message.deferred.into());
    }
}

fn push_arrived(out: &mut Vec<u8>, forget: bool, origins: &[Origin]) {
    out.push(forget.into());
    varint::push(out, origins.len() as u64);
    for origin in origins {
        push_all(out, &[origin.entity.0, origin.partition.into()]);
        out.push(origin.is_dead_letter.into());
        varint::push(out, origin.counter.0);
    }
}

fn push_consumer(out: &mut Vec<u8>, sub_queue: SubQueue, name: &str, record: &ConsumerRecord) {
    push_sub_queue(out, sub_queue);
    varint::push_bytes(out, name.as_bytes());
    record.encode(out);
}

fn push_sub_queue(out: &mut Vec<u8>, sub_queue: SubQueue) {
    out.push(u8::from(sub_queue == SubQueue::DeadLetter));
}

impl JournalEvent<'_> {
    /// Appends the event of `entity` to an entry.
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
                new_counter,
                enqueued_at,
                expires_at,
                bytes,
            } => {
                push_all(out, &[counter.0, new_counter.0, enqueued_at.0, expires_at.0]);
                push_record(out, bytes);
            }
            Self::HandOut { sub_queue, messages } => push_deliveries(out, *sub_queue, messages),
            Self::Return {
                sub_queue,
                counter,
                generation,
                delivery_count,
                phase,
                record,
            } => {
                push_sub_queue(out, *sub_queue);
                push_all(out, &[counter.0, (*generation).into(), (*delivery_count).into()]);
                push_phase(out, *phase);
                out.push(record.is_some().into());
                if let Some(record) = record {
                    record.encode(out);
                }
            }
            Self::Remove { sub_queue, counters } => {
                push_sub_queue(out, *sub_queue);
                counters.encode(out);
            }
            Self::DeadLetter {
                counter,
                enqueued_at,
                expires_at,
                delivery_count,
                record,
            } => {
                push_all(out, &[counter.0, enqueued_at.0, expires_at.0, (*delivery_count).into()]);
                record.encode(out);
            }
            Self::Keep {
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
                push_sub_queue(out, *sub_queue);
                push_all(out, &[counter.0, enqueued_at.0, expires_at.0]);
                let generations = [(*generation).into(), (*record_generation).into()];
                push_all(out, &[(*delivery_count).into(), generations[0], generations[1]]);
                push_phase(out, *phase);
                push_kept(out, *record);
            }
            Self::Number { next } => varint::push(out, next.0),
            Self::Seen { identities } | Self::Attached { identities } => push_identities(out, identities),
            Self::SessionState { id, set_at, state } => push_state(out, id, *set_at, *state),
            Self::Arrived { forget, origins } => push_arrived(out, *forget, origins),
            Self::Consumer {
                sub_queue,
                name,
                record,
            } => push_consumer(out, *sub_queue, name, record),
            Self::Intent { sink, intent } => intent.push(sink, out),
            Self::Packed(packed) => packed.push(out),
            Self::FanOut {
                enqueued_at,
                bytes,
                copies,
            } => push_fan_out(out, *enqueued_at, bytes, copies),
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
            Self::Keep { .. } if self.is_apart() => 18,
            Self::Keep { .. } => 8,
            Self::Number { .. } => 9,
            Self::Seen { .. } => 10,
            Self::SessionState { .. } => 11,
            Self::FanOut { .. } => 12,
            Self::Arrived { .. } => 13,
            Self::Attached { .. } => 14,
            Self::Consumer { .. } => 15,
            Self::Intent { .. } => 16,
            Self::Packed(_) => 17,
        }
    }
}
