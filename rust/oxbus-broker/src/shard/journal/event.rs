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
//! 5 Return      u8 sub-queue, varint number, varint generation, varint count, u8 deferred, u8 has a record, a changed record
//! 6 Remove      u8 sub-queue, runs of numbers (`ranges`)
//! 7 DeadLetter  varint number, varint enqueued ms, varint expiry, varint count, a changed record
//! 8 Keep        u8 sub-queue, varint number, varint enqueued ms, varint expiry, varint count, varint generation,
//!               varint generation of the bytes, u8 state, varint due ms when it is scheduled, bytes
//! 9 Number      varint next number
//! 10 Seen       varint count, each: varint ms, 16 bytes
//! 11 SessionState  bytes of the session id, varint ms, u8 has a state, its bytes
//! 12 FanOut     varint enqueued ms, bytes, varint count, each: varint entity, varint number, varint expiry
//! 13 Arrived    u8 is over, varint count, each: varint source entity, varint partition, u8 sub-queue, varint number
//! 14 Attached   varint count, each: varint ms, 16 bytes
//! 15 Consumer   u8 sub-queue, bytes of its name, its record (`consumer`)
//! 16 Intent     bytes of the sink and of the query, varint batch, varint ms, u8 is done, varint bytes of a piece,
//!               varint count, each: bytes of a stage's id, varint count, each: varint entity, varint partition, varint pieces
//! 17 Packed     varint bytes of the events in it, u8 0, bytes: events as an LZ4 block
//! changed record = u8 0, bytes; or u8 1, 3 bytes, varint keep, varint tail, varint length and bytes (`changed`)
//! ```
//!
//! All times are milliseconds since 1970, an expiry of 2^48 - 1 means never; bytes are a varint length, the bytes and their
//! CRC-32C in little-endian order, so that one message can be read back alone.

use std::sync::Arc;

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Identity, Timestamp};
use oxbus_store::ClaimedMessage;

use super::consumer::ConsumerRecord;
use super::intent::Intent;
use super::packed::PackedEvents;
use super::ranges::Ranges;
use super::record_change::RecordChange;

/// Names one life of an entity: its number is never given to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(pub u64);

/// A message that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendedMessage<'a> {
    /// When it expires.
    pub expires_at: Timestamp,
    /// Its record.
    pub bytes: &'a [u8],
}

/// A message that went out under a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// Which message.
    pub counter: Counter,
    /// The hold.
    pub generation: u32,
    /// Its delivery count if nobody settles it.
    pub count_after: u32,
    /// It was fetched by number.
    pub deferred: bool,
}

impl From<&ClaimedMessage> for DeliveryRecord {
    fn from(claimed: &ClaimedMessage) -> Self {
        Self {
            counter: claimed.key.counter,
            generation: claimed.key.generation,
            // A deferred message was charged at its fetch.
            count_after: claimed.delivery_count.saturating_add(u32::from(!claimed.deferred)),
            deferred: claimed.deferred,
        }
    }
}

/// Where a message is when nobody holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredPhase {
    /// It waits for a receiver.
    Ready,
    /// It waits to be fetched by number.
    Deferred,
    /// The same, and it was out when this was written: a delivery that ends with the process.
    Fetched,
    /// It waits for its time.
    Scheduled {
        /// That time.
        due: Timestamp,
    },
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalEvent<'a> {
    /// Messages came in under consecutive numbers.
    Append {
        /// Number of the first.
        first: Counter,
        /// When they were accepted.
        enqueued_at: Timestamp,
        /// The messages, in order.
        messages: Vec<AppendedMessage<'a>>,
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
        messages: Vec<DeliveryRecord>,
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
        record: Option<RecordChange<'a>>,
    },
    /// Messages are gone: completed, received and deleted, cancelled, expired.
    Remove {
        /// From where.
        sub_queue: SubQueue,
        /// Which.
        counters: Ranges,
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
        record: RecordChange<'a>,
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
        phase: StoredPhase,
        /// Its record.
        bytes: &'a [u8],
    },
    /// No lower number is given out from now on.
    Number {
        /// The next one.
        next: Counter,
    },
    /// Messages with these identities came in, then.
    Seen {
        /// When, and which.
        identities: Vec<(Timestamp, Identity)>,
    },
    /// Rows of a bulk load with these names were attached, then.
    Attached {
        /// When, and which.
        identities: Vec<(Timestamp, Identity)>,
    },
    /// What a consumer has changed.
    Consumer {
        /// Of which queue.
        sub_queue: SubQueue,
        /// Which consumer.
        name: &'a str,
        /// What it has from now on.
        record: Arc<ConsumerRecord>,
    },
    /// The state of a session was set or cleared.
    SessionState {
        /// Which session.
        id: &'a str,
        /// When.
        set_at: Timestamp,
        /// The state from now on.
        state: Option<&'a [u8]>,
    },
    /// A message came to a topic and went to some of its subscriptions; its record is written once.
    FanOut {
        /// When it was accepted.
        enqueued_at: Timestamp,
        /// Its record.
        bytes: &'a [u8],
        /// Its copies.
        copies: Vec<FanOutCopy>,
    },
    /// Messages were forwarded from another shard, and may be there still; or they are not any more.
    Arrived {
        /// They are gone there.
        is_over: bool,
        /// Which.
        origins: Vec<Origin>,
    },
    /// A batch of staged sends was committed, or is published now. Of no entity.
    Intent {
        /// By which sink.
        sink: &'a str,
        /// What it is from now on.
        intent: Intent,
    },
    /// Other events, in less room. Of no entity.
    Packed(PackedEvents<'a>),
}

/// A message where it was forwarded from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The entity.
    pub entity: EntityId,
    /// The partition.
    pub partition: u16,
    /// It was in the dead-letter queue.
    pub is_dead_letter: bool,
    /// Its number there.
    pub counter: Counter,
}

/// A copy of a message in a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FanOutCopy {
    /// The subscription.
    pub entity: EntityId,
    /// Its number there.
    pub counter: Counter,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// Identities in one event of a snapshot, at most.
pub const SEEN_MAX: usize = 4096;
