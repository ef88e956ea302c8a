// SPDX-License-Identifier: Apache-2.0
//! Events: changes of the messages of a shard, as the journal stores them.
//!
//! An entry of the journal is a sequence of events that take effect together. An event contains all decisions: times,
//! numbers, generations and counts. So applying it needs no clock and no settings.
//!
//! ```text
//! event   = u8 kind, varint entity, fields
//! 1 Append      varint first number, varint enqueued ms, varint count, each: varint expiry, bytes
//! 2 Schedule    varint number, varint due ms, varint enqueued ms, varint expiry, bytes
//! 3 Activate    varint number, varint new number, varint enqueued ms, varint expiry, bytes
//! 4 HandOut     u8 sub-queue, varint count, each: varint number, varint generation, varint count after, u8 deferred
//! 5 Return      u8 sub-queue, varint number, varint generation, varint count, u8 state, varint end of its delay if it
//!               is delayed, u8 has a record, a changed record
//! 6 Remove      u8 sub-queue, runs of numbers (`ranges`)
//! 7 DeadLetter  varint number, varint enqueued ms, varint expiry, varint count, a changed record
//! 8 Keep        u8 sub-queue, varint number, varint enqueued ms, varint expiry, varint count, varint generation,
//!               varint generation of the bytes, u8 state, varint ms when it is scheduled or delayed, bytes
//! 9 Number      varint next number
//! 10 Seen       varint count, each: varint ms, 16 bytes
//! 11 SessionState  bytes of the session id, varint ms, u8 has a state, its bytes
//! 12 FanOut     varint enqueued ms, bytes, varint count, each: varint entity, varint number, varint expiry
//! 13 Arrived    u8 forget, varint count, each: varint source entity, varint partition, u8 sub-queue, varint number
//! 14 Attached   varint count, each: varint ms, 16 bytes
//! 15 Consumer   u8 sub-queue, bytes of its name, its record (`consumer`)
//! 16 Intent     bytes of the sink and of the query, varint batch, varint ms, u8 is done, varint bytes of a piece,
//!               varint count, each: bytes of a stage's id, varint count, each: varint entity, varint partition,
//!               varint pieces
//! 17 Packed     varint bytes of the events in it, u8 0, bytes: events as an LZ4 block
//! 18 Keep apart as Keep, but instead of the bytes: varint length, varint position in the file of the snapshot
//! changed record = u8 0, bytes; or u8 1, 3 bytes, varint keep, varint tail, varint length and bytes (`record_change`)
//! ```
//!
//! All times are milliseconds since 1970; an expiry of 2^48 - 1 means never. Bytes start with a varint length. The
//! bytes of a message are followed by their CRC-32C in little-endian order, so that one message can be read back
//! alone.

use std::sync::Arc;

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Identity, Timestamp};
use oxbus_store::ClaimedMessage;

use super::consumer::ConsumerRecord;
use super::intent::Intent;
use super::packed::PackedEvents;
use super::ranges::Ranges;
use super::record_change::RecordChange;

/// Identifies an entity. A new entity with the same name has another id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(pub u64);

/// A message of an `Append` event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendedMessage<'a> {
    /// When it expires.
    pub expires_at: Timestamp,
    /// Its record.
    pub bytes: &'a [u8],
}

/// One message of a `HandOut` event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// Its number.
    pub counter: Counter,
    /// The generation of its lock.
    pub generation: u32,
    /// Its delivery count if it is not settled.
    pub count_after: u32,
    /// True if it was fetched by number.
    pub deferred: bool,
}

impl From<&ClaimedMessage> for DeliveryRecord {
    fn from(claimed: &ClaimedMessage) -> Self {
        Self {
            counter: claimed.key.counter,
            generation: claimed.key.generation,
            // The fetch of a deferred message has counted the delivery.
            count_after: claimed.delivery_count.saturating_add(u32::from(!claimed.deferred)),
            deferred: claimed.deferred,
        }
    }
}

/// Phase of a message in the journal. Locks end with the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredPhase {
    /// Can be received.
    Ready,
    /// Can be fetched by number.
    Deferred,
    /// Deferred, and locked by a fetch. The delivery ends with the process.
    Fetched,
    /// Becomes active later.
    Scheduled {
        /// Its due time.
        due: Timestamp,
    },
    /// Abandoned with a delay.
    Delayed {
        /// The end of the delay.
        until: Timestamp,
        /// True if it is deferred: afterwards it can be fetched by number.
        deferred: bool,
    },
}

/// A change of a shard's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalEvent<'a> {
    /// Messages arrived under consecutive numbers.
    Append {
        /// Number of the first.
        first: Counter,
        /// When they were accepted.
        enqueued_at: Timestamp,
        /// The messages, in order.
        messages: Vec<AppendedMessage<'a>>,
    },
    /// A scheduled message arrived.
    Schedule {
        /// Its number until it is activated.
        counter: Counter,
        /// Its due time.
        due: Timestamp,
        /// When it was accepted.
        enqueued_at: Timestamp,
        /// When it expires.
        expires_at: Timestamp,
        /// Its record.
        bytes: &'a [u8],
    },
    /// A scheduled message was activated and got its final number.
    Activate {
        /// Its old number.
        counter: Counter,
        /// Its new number.
        new_counter: Counter,
        /// Its new enqueued time.
        enqueued_at: Timestamp,
        /// When it expires.
        expires_at: Timestamp,
        /// Its record.
        bytes: &'a [u8],
    },
    /// Messages were delivered under locks.
    HandOut {
        /// Their queue.
        sub_queue: SubQueue,
        /// The deliveries.
        messages: Vec<DeliveryRecord>,
    },
    /// A lock ended and the message stays: it was abandoned, deferred or released, or its lock expired.
    Return {
        /// Its queue.
        sub_queue: SubQueue,
        /// Its number.
        counter: Counter,
        /// The generation of the lock that ended.
        generation: u32,
        /// Its new delivery count.
        delivery_count: u32,
        /// Its phase: ready, deferred or delayed.
        phase: StoredPhase,
        /// Its new record, if that changed.
        record: Option<RecordChange<'a>>,
    },
    /// Messages were removed: completed, received and deleted, cancelled or expired.
    Remove {
        /// Their queue.
        sub_queue: SubQueue,
        /// Their numbers.
        counters: Ranges,
    },
    /// A message moved to the dead-letter queue.
    DeadLetter {
        /// Its number.
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
    /// A message in a snapshot.
    Keep {
        /// Its queue.
        sub_queue: SubQueue,
        /// Its number.
        counter: Counter,
        /// When it was accepted.
        enqueued_at: Timestamp,
        /// When it expires.
        expires_at: Timestamp,
        /// Its delivery count; a delivery in progress counts as ended.
        delivery_count: u32,
        /// The generation of its latest lock.
        generation: u32,
        /// The generation of the lock that stored its record; 0 for none.
        record_generation: u32,
        /// Its phase.
        phase: StoredPhase,
        /// Its record.
        record: KeptRecord<'a>,
    },
    /// The high-water mark: no lower number will be assigned.
    Number {
        /// The next number.
        next: Counter,
    },
    /// Messages with these identities arrived.
    Seen {
        /// Times and identities.
        identities: Vec<(Timestamp, Identity)>,
    },
    /// Bulk-load rows with these names were attached.
    Attached {
        /// Times and identities of the names.
        identities: Vec<(Timestamp, Identity)>,
    },
    /// The record of a consumer changed.
    Consumer {
        /// Its queue.
        sub_queue: SubQueue,
        /// Its name.
        name: &'a str,
        /// Its new record.
        record: Arc<ConsumerRecord>,
    },
    /// The state of a session was set or cleared.
    SessionState {
        /// Its id.
        id: &'a str,
        /// Time of the change.
        set_at: Timestamp,
        /// The new state.
        state: Option<&'a [u8]>,
    },
    /// A message arrived at a topic and was copied to some of its subscriptions; its record is written once.
    FanOut {
        /// When it was accepted.
        enqueued_at: Timestamp,
        /// Its record.
        bytes: &'a [u8],
        /// Its copies.
        copies: Vec<FanOutCopy>,
    },
    /// Messages were forwarded from another shard, or their origins are no longer needed.
    Arrived {
        /// True to forget the origins: the messages have left their source, or did not arrive.
        forget: bool,
        /// Their origins.
        origins: Vec<Origin>,
    },
    /// A batch of staged sends was decided or published. The event belongs to no entity.
    Intent {
        /// Its sink.
        sink: &'a str,
        /// The new intent.
        intent: Intent,
    },
    /// Other events, compressed. The event belongs to no entity.
    Packed(PackedEvents<'a>),
}

/// The record of a message in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptRecord<'a> {
    /// Its bytes.
    Here(&'a [u8]),
    /// Its bytes are elsewhere in the file of the snapshot.
    Apart {
        /// How many they are.
        len: usize,
        /// Where they begin in the file.
        position: u64,
    },
}

impl JournalEvent<'_> {
    /// True if the event needs the file that it is in to be complete.
    pub fn is_apart(&self) -> bool {
        let apart = |record: &KeptRecord<'_>| matches!(record, KeptRecord::Apart { .. });
        matches!(self, Self::Keep { record, .. } if apart(record))
    }
}

/// Where a forwarded message came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The entity.
    pub entity: EntityId,
    /// The partition.
    pub partition: u16,
    /// True if it was in the dead-letter queue.
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

/// Maximum number of identities in one event of a snapshot.
pub const SEEN_MAX: usize = 4096;
