// SPDX-License-Identifier: Apache-2.0
//! A cell: one entity's part of one shard.
//!
//! Its methods are in several files: claims and ticks in `write/expiry.rs`, numbers in `write/arrivals.rs`, sessions
//! in `write/sessions.rs`, dead-lettering in `write/dead_letters.rs`, the schedule in `activation`, delays in `delays`,
//! consumers in `reserved`, and origins in `origins`.
//!
//! Invariants
//! - `next_due` is never later than the earliest scheduled message;
//! - a message is in the main store or in the dead-letter queue, never in both; while it moves, it belongs to the
//!   thread that won its settlement.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_model::name::SubQueue;
use oxbus_model::options::Durability;
use oxbus_model::{Counter, Identity, PartitionId, Ticks, Timestamp};
use oxbus_store::{
    CellStore, MessagePhase, MessageStore, NumberedStore, PeekedMessage, RemovedMessage, RestoredMessage, StoredRecord,
};

use super::activation::ActivationLock;
use super::guarded::Guarded;
use super::high_water_mark::SequenceHighWaterMark;
use super::journal::{EntityId, EntityState, Origin, StoredPhase};
use super::meters::CellMeters;
use super::reserved::ConsumerRecords;
use super::{CellState, CellStateId, DeadLetters, Delay, History, SessionState, Sessions, Shard};

/// Messages and sessions that became ready when locks ended or scheduled messages were activated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadyCounts {
    /// Messages ready in the entity.
    pub main: usize,
    /// Messages ready in its dead-letter queue.
    pub dead_letters: usize,
    /// Sessions that became available.
    pub sessions: usize,
}

impl ReadyCounts {
    /// Ready messages in one of the two queues.
    pub fn of(sub_queue: SubQueue, ready: usize) -> Self {
        let mut ended = Self::default();
        match sub_queue {
            SubQueue::Main => ended.main = ready,
            SubQueue::DeadLetter => ended.dead_letters = ready,
        }
        ended
    }

    /// The sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            main: self.main + other.main,
            dead_letters: self.dead_letters + other.dead_letters,
            sessions: self.sessions + other.sessions,
        }
    }
}

/// Features of a cell; fixed for the life of its entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellFeatures {
    /// True if duplicates are dropped.
    pub detects_duplicates: bool,
    /// True if messages are received by session.
    pub requires_session: bool,
    /// True if its entity, a topic, activates its scheduled messages.
    pub fans_out: bool,
}

/// How its entity's settings limit deliveries and handle expired messages.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryPolicy {
    /// Maximum number of deliveries.
    pub max_delivery_count: u32,
    /// True if expired messages go to the dead-letter queue.
    pub dead_letter_expired: bool,
    /// True if one expired message expires all ready messages of its session when a receiver receives from the session
    /// (B-209).
    pub sessions_expire_whole: bool,
}

/// Parts that only some cells use.
struct CellExtras {
    history: Option<History>,
    sessions: Option<Sessions>,
    fans_out: bool,
    origins: BTreeSet<Origin>,
    attached: History,
    consumers: ConsumerRecords,
}

impl CellExtras {
    fn of(
        shard: &Arc<Shard>,
        features: CellFeatures,
        seen: impl Iterator<Item = (Identity, Timestamp)>,
        states: impl Iterator<Item = (Arc<str>, SessionState)>,
    ) -> Self {
        Self {
            history: features.detects_duplicates.then(|| History::restore(shard, seen)),
            sessions: features.requires_session.then(|| Sessions::restore(shard, states)),
            fans_out: features.fans_out,
            origins: BTreeSet::new(),
            attached: History::restore(shard, std::iter::empty()),
            consumers: ConsumerRecords::new(),
        }
    }
}

/// One entity's part of one shard.
#[derive(Debug)]
pub struct Cell {
    pub(crate) shard: Arc<Shard>,
    pub(crate) entity: EntityId,
    /// The name of its entity, for log events.
    pub(crate) name: Box<str>,
    pub(crate) state_id: CellStateId,
    pub(crate) main: CellStore,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) next_due: AtomicU64,
    /// No delay of an abandoned message ends before this time.
    pub(super) next_delay: AtomicU64,
    /// Lets one thread at a time activate due messages.
    pub(super) activation: ActivationLock,
    /// The limit of its numbers in the journal.
    pub(crate) high_water_mark: SequenceHighWaterMark,
    /// Identities of earlier messages; `None` without duplicate detection.
    history: Option<History>,
    /// Present when messages are received by session.
    pub(crate) sessions: Option<Sessions>,
    /// True if its entity activates due messages.
    pub(crate) fans_out: bool,
    /// Origins of forwarded messages that may still be at their source.
    pub(super) origins: Guarded<BTreeSet<Origin>>,
    /// Names of the bulk-load rows attached here.
    attached: History,
    /// Consumers stored in this cell.
    pub(super) consumers: Guarded<ConsumerRecords>,
    /// Upper bound of the counted bytes: the last exact count plus the bytes of records appended since.
    stored_bytes_bound: AtomicU64,
    pub(super) meters: CellMeters,
}

impl Cell {
    /// An empty cell of a shard.
    pub fn new(shard: &Arc<Shard>, entity: (EntityId, &str), features: CellFeatures) -> Self {
        let extras = CellExtras::of(shard, features, std::iter::empty(), std::iter::empty());
        Self::with(shard, entity, CellStore::new(), CellState::default(), extras)
    }

    /// A cell with the messages that recovery found. Also returns the messages whose deliveries were exhausted when
    /// the process ended, for dead-lettering.
    pub fn restore(
        shard: &Arc<Shard>,
        entity: (EntityId, &str),
        queues: EntityState,
        max_delivery_count: u32,
        features: CellFeatures,
    ) -> (Self, Vec<RemovedMessage>) {
        let state = |(id, (set_at, bytes)): (String, (Timestamp, Vec<u8>))| {
            let bytes = bytes.into();
            (id.into(), SessionState { bytes, set_at })
        };
        let extras = CellExtras {
            origins: queues.origins,
            consumers: queues.consumers,
            attached: History::restore(shard, queues.attached.into_iter()),
            ..CellExtras::of(
                shard,
                features,
                queues.seen.into_iter(),
                queues.states.into_iter().map(state),
            )
        };
        let mut state = CellState::default();
        let mut delayed = Vec::new();
        for (counter, message) in queues.dead_letters.into_messages() {
            let generation = message.generation;
            let phase = match message.phase {
                StoredPhase::Deferred | StoredPhase::Fetched | StoredPhase::Delayed { deferred: true, .. } => {
                    MessagePhase::Deferred
                }
                StoredPhase::Ready | StoredPhase::Scheduled { .. } | StoredPhase::Delayed { .. } => MessagePhase::Ready,
            };
            if let StoredPhase::Delayed { until, .. } = message.phase {
                delayed.push((SubQueue::DeadLetter, counter, Delay { until, session: None }));
            }
            state
                .dead_letters
                .insert_with(message.into_removed(counter), phase, generation);
        }
        let mut exhausted = Vec::new();
        let restored = queues.main.into_messages().filter_map(|(counter, message)| {
            let phase = match message.phase {
                // A deferred message stays, however often it was fetched: only a delivery that ends exhausts it.
                StoredPhase::Ready | StoredPhase::Fetched if message.delivery_count >= max_delivery_count => {
                    exhausted.push(message.into_removed(counter));
                    return None;
                }
                StoredPhase::Ready => MessagePhase::Ready,
                StoredPhase::Deferred | StoredPhase::Fetched => MessagePhase::Deferred,
                StoredPhase::Delayed { until, deferred } => {
                    let session = if features.requires_session {
                        session_of(&message.record)
                    } else {
                        None
                    };
                    delayed.push((SubQueue::Main, counter, Delay { until, session }));
                    if deferred {
                        MessagePhase::Deferred
                    } else {
                        MessagePhase::Ready
                    }
                }
                StoredPhase::Scheduled { due } => {
                    state.schedule.add(due, counter);
                    MessagePhase::Scheduled
                }
            };
            Some(RestoredMessage {
                phase,
                generation: message.generation,
                message: message.into_removed(counter),
            })
        });
        let main = CellStore::restore(queues.next, restored);
        let next_due = state.schedule.next_due();
        let mut cell = Self::with(shard, entity, main, state, extras);
        cell.next_due.store(next_due.0, Ordering::SeqCst);
        cell.high_water_mark = SequenceHighWaterMark::restored(queues.next);
        for (sub_queue, counter, delay) in delayed {
            cell.restore_delay(sub_queue, counter, &delay);
        }
        (cell, exhausted)
    }

    fn with(
        shard: &Arc<Shard>,
        (entity, name): (EntityId, &str),
        main: CellStore,
        state: CellState,
        extras: CellExtras,
    ) -> Self {
        let state_id = shard.add_cell(state);
        Self {
            shard: Arc::clone(shard),
            entity,
            name: name.into(),
            state_id,
            main,
            dead_letters: DeadLetters {
                shard: Arc::clone(shard),
                state_id,
            },
            next_due: AtomicU64::new(Timestamp::NEVER.0),
            next_delay: AtomicU64::new(Timestamp::NEVER.0),
            activation: ActivationLock::default(),
            high_water_mark: SequenceHighWaterMark::default(),
            history: extras.history,
            sessions: extras.sessions,
            fans_out: extras.fans_out,
            origins: Guarded::new(extras.origins),
            attached: extras.attached,
            consumers: Guarded::new(extras.consumers),
            stored_bytes_bound: AtomicU64::new(0),
            meters: CellMeters::default(),
        }
    }

    /// Its entity.
    pub fn entity(&self) -> EntityId {
        self.entity
    }

    /// The number from which the next open continues after an unclean end.
    pub fn reserved_until(&self) -> Counter {
        self.high_water_mark.recorded()
    }

    /// The durability of a call: `asked`, or the default of the namespace.
    #[inline]
    pub fn durability(&self, asked: Option<Durability>) -> Durability {
        self.shard.durability(asked)
    }

    /// Its partition.
    pub fn partition(&self) -> PartitionId {
        self.shard.id()
    }

    /// Names of the bulk-load rows attached here.
    pub fn attached(&self) -> &History {
        &self.attached
    }

    /// Identities of earlier messages; `None` without duplicate detection.
    #[inline]
    pub fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    /// The store of the entity or of its dead-letter queue.
    pub fn store(&self, sub_queue: SubQueue) -> &dyn MessageStore {
        match sub_queue {
            SubQueue::Main => &self.main,
            SubQueue::DeadLetter => &self.dead_letters,
        }
    }

    /// The store of the entity, without a virtual call.
    #[inline]
    pub fn main(&self) -> &CellStore {
        &self.main
    }

    /// Bytes of all records and of the store's overhead.
    pub fn stored_bytes(&self) -> u64 {
        let records = self.main.counts().record_bytes + self.dead_letters.counts().record_bytes;
        records + self.overhead_bytes()
    }

    /// Approximate bytes of a snapshot of the cell.
    pub fn snapshot_bytes(&self) -> u64 {
        /// Approximate bytes of an event without its record, and of the events of the entity itself.
        const BESIDE: u64 = 48;
        let (main, dead) = (self.main.counts(), self.dead_letters.counts());
        let remembered = self.history.as_ref().map_or(0, History::bytes);
        let states = self.sessions.as_ref().map_or(0, Sessions::state_bytes);
        let messages = main.messages() + dead.messages();
        main.record_bytes + dead.record_bytes + (messages + 1) * BESIDE + (remembered + states) as u64
    }

    /// True if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.main.counts().messages() + self.dead_letters.counts().messages() == 0
    }

    /// Bytes of slots, segments, maps, sessions and remembered identities, without the records.
    pub fn overhead_bytes(&self) -> u64 {
        let remembered = self.history.as_ref().map_or(0, History::bytes);
        let sessions = self.sessions.as_ref();
        let sessions = sessions.map_or(0, |it| it.overhead_bytes() + it.state_bytes());
        (self.main.overhead_bytes() + self.dead_letters.overhead_bytes() + remembered + sessions) as u64
    }

    /// Bytes of all records and session states, which count against the entity's size limit (B-211).
    pub fn counted_bytes(&self) -> u64 {
        let records = self.main.counts().record_bytes + self.dead_letters.counts().record_bytes;
        records + self.sessions.as_ref().map_or(0, Sessions::state_bytes) as u64
    }

    /// True if `bytes` more stay within `max`. Adds `growth`, the bytes that will count with all copies of a topic, to
    /// the upper bound. Calls `exact` only if the bound then exceeds `max`.
    #[inline]
    pub fn has_room(&self, bytes: u64, growth: u64, max: u64, exact: impl FnOnce() -> u64) -> bool {
        let bound = self.stored_bytes_bound.fetch_add(growth, Ordering::Relaxed) + growth;
        if bound <= max {
            return true;
        }
        let exact = exact();
        let fits = exact + bytes <= max;
        self.stored_bytes_bound
            .store(if fits { exact + growth } else { exact }, Ordering::Relaxed);
        fits
    }

    /// The earliest tick and wall time at which [`Cell::tick`] may have work.
    pub fn next_event(&self) -> (Ticks, Timestamp) {
        let locks = self.main.next_expiry().min(self.dead_letters.next_expiry());
        let sessions = self.sessions.as_ref().map_or(Ticks::NEVER, Sessions::next_deadline);
        let due = self.next_due.load(Ordering::SeqCst);
        let delay = self.next_delay.load(Ordering::SeqCst);
        (locks.min(sessions), Timestamp(due.min(delay)))
    }

    /// Due time of a scheduled message; `None` if there is no such message.
    pub(crate) fn due_of(&self, counter: Counter) -> Option<Timestamp> {
        self.peek_one(counter)
            .filter(|message| message.phase == MessagePhase::Scheduled)
            .map(|message| due_of(&message))
    }

    /// True if there is a message with that number.
    pub fn has(&self, sub_queue: SubQueue, counter: Counter) -> bool {
        let mut found = Vec::new();
        self.store(sub_queue).peek(counter, 1, &mut found);
        found.iter().any(|message| message.counter == counter)
    }

    /// A message of the entity in any phase.
    pub(crate) fn peek_one(&self, counter: Counter) -> Option<PeekedMessage> {
        let mut found = Vec::new();
        self.main.peek(counter, 1, &mut found);
        found.pop().filter(|message| message.counter == counter)
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.shard.remove_cell(self.state_id);
    }
}

/// The session id of a message.
fn session_of(record: &StoredRecord) -> Option<Arc<str>> {
    let record = record.load().ok()?;
    let fields = oxbus_model::message::Fields::decode(&record).ok()?;
    fields.session_id.map(Arc::from)
}

/// The due time in a scheduled message's fields; its enqueued time if the record does not decode.
pub(super) fn due_of(message: &PeekedMessage) -> Timestamp {
    let record = message.record.load().ok();
    let fields = record
        .as_ref()
        .and_then(|record| oxbus_model::message::Fields::decode(record).ok());
    fields
        .and_then(|fields| fields.scheduled_enqueue_time)
        .unwrap_or(message.enqueued_at)
}
