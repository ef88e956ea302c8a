// SPDX-License-Identifier: Apache-2.0
//! A queue: settings, and one cell in each partition, or one in its home partition.
//!
//! A cell comes into being with its first message. What many threads read on every call stands in atomics;
//! the settings as a whole are replaced under a lock.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

use oxbus_model::lock::TokenFields;
use oxbus_model::name::{EntityName, SubQueue};
use oxbus_model::options::{EntityStatus, QueueSettings};
use oxbus_model::{Counter, Error, ErrorKind, LockToken, PartitionId, Result, SequenceNumber, Timestamp};
use oxbus_store::{LockKey, Wait};

use super::Receivable;
use super::forward::Forwarding;
use super::reservation::Consumers;
use super::role::Role;
use crate::namespace::Core;
use crate::shard::journal::{EntityId, Queues};
use crate::shard::{Cell, Features, Rules, Sessions, Shard};
use crate::write::DeadLetterReason;

/// A queue of a namespace.
pub struct Entity {
    core: Arc<Core>,
    name: EntityName,
    id: EntityId,
    /// The shard of each cell: all of the namespace, or the home shard alone.
    shards: Box<[Arc<Shard>]>,
    cells: Box<[OnceLock<Cell>]>,
    pub(super) main: Receivable,
    pub(super) dead_letters: Receivable,
    settings: RwLock<Arc<QueueSettings>>,
    partitioned: bool,
    pub(super) features: Features,
    role: Role,
    pub(super) duplicate_window_ms: AtomicU64,
    lock_duration_ms: AtomicU64,
    time_to_live_ms: AtomicU64,
    max_delivery_count: AtomicU32,
    message_size_bytes_max: AtomicUsize,
    size_bytes_max: AtomicU64,
    bury_expired: AtomicBool,
    expire_whole_sessions: AtomicBool,
    status: AtomicU8,
    pub(super) forwards: AtomicBool,
    pub(super) forwards_dead_letters: AtomicBool,
    pub(super) forwarding: Forwarding,
    /// Who has reservations.
    pub(super) consumers: Consumers,
    /// Entities that move their messages here.
    pub(super) sources: RwLock<Vec<Weak<Self>>>,
    /// Looked at already, further up the stack.
    pub(super) is_ticking: AtomicBool,
    pub(super) auto_delete_on_idle_ms: AtomicU64,
    pub(super) gone: AtomicBool,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: AtomicU64,
    pub(super) accessed_at: AtomicU64,
}

/// A queue as management shows it.
#[derive(Debug, Clone)]
pub struct QueueDescription {
    /// Name as it was given at creation.
    pub name: String,
    /// Its settings.
    pub settings: Arc<QueueSettings>,
    /// Bytes one message may have.
    pub message_size_bytes_max: usize,
    /// False when a partition does not work (B-097, B-098).
    pub available: bool,
    /// How many partitions it is spread over; 1 when it is not partitioned.
    pub partitions: u16,
}

impl Entity {
    pub(crate) fn new(
        core: &Arc<Core>,
        name: EntityName,
        settings: QueueSettings,
        role: Role,
        shards: Box<[Arc<Shard>]>,
        id: EntityId,
        (created_at, updated_at): (Timestamp, Timestamp),
    ) -> Self {
        let queue = Self {
            core: Arc::clone(core),
            name,
            id,
            cells: shards.iter().map(|_| OnceLock::new()).collect(),
            shards,
            main: Receivable::default(),
            dead_letters: Receivable::default(),
            partitioned: settings.enable_partitioning,
            features: Features {
                detects_duplicates: settings.requires_duplicate_detection,
                requires_session: settings.requires_session,
                fans_out: matches!(role, Role::Topic(_)),
            },
            role,
            duplicate_window_ms: AtomicU64::new(0),
            settings: RwLock::default(),
            lock_duration_ms: AtomicU64::new(0),
            time_to_live_ms: AtomicU64::new(0),
            max_delivery_count: AtomicU32::new(0),
            message_size_bytes_max: AtomicUsize::new(0),
            size_bytes_max: AtomicU64::new(0),
            bury_expired: AtomicBool::new(false),
            expire_whole_sessions: AtomicBool::new(false),
            status: AtomicU8::new(0),
            forwards: AtomicBool::new(false),
            forwards_dead_letters: AtomicBool::new(false),
            forwarding: Forwarding::default(),
            consumers: Consumers::default(),
            sources: RwLock::default(),
            is_ticking: AtomicBool::new(false),
            auto_delete_on_idle_ms: AtomicU64::new(u64::MAX),
            gone: AtomicBool::new(false),
            created_at,
            updated_at: AtomicU64::new(0),
            accessed_at: AtomicU64::new(0),
        };
        queue.apply(settings, updated_at);
        queue
    }

    /// Puts the messages that recovery found into the cell with that index. Before anybody else knows the queue: nobody is
    /// told until all entities are there, for to tell may be to sort, to bury and to forward (`announce_ready`).
    pub(crate) fn restore(&self, index: usize, queues: Queues) {
        // Every send is a use, whether that was written down or not.
        let newest = queues.main.iter().map(|(_, kept)| kept.enqueued_at).max();
        if let Some(newest) = newest {
            match self.topic() {
                Some(topic) => topic.used_at(newest),
                None => self.used_at(newest),
            }
        }
        let max_delivery_count = self.max_delivery_count();
        let (cell, exhausted) = Cell::restore(&self.shards[index], self.id, queues, max_delivery_count, self.features);
        cell.dead_letter_removed(exhausted, DeadLetterReason::DeliveriesExhausted, &Wait::FOREVER);
        assert!(self.cells[index].set(cell).is_ok(), "messages are restored once");
        self.forget_seen();
    }

    /// Names this life of the queue.
    pub fn id(&self) -> EntityId {
        self.id
    }

    /// True when its messages are kept in a directory.
    #[inline]
    pub fn is_durable(&self) -> bool {
        self.core.is_durable()
    }

    /// True when calls may wait for a store.
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.core.may_wait()
    }

    /// The namespace it is part of.
    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Wall time under its namespace's clock.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.core.clock().now()
    }

    /// What it is.
    pub(crate) fn role(&self) -> &Role {
        &self.role
    }

    /// Its name.
    pub fn name(&self) -> &EntityName {
        &self.name
    }

    /// True with a cell in each partition of the namespace.
    pub fn is_partitioned(&self) -> bool {
        self.partitioned
    }

    /// Number of cells it can have.
    #[inline]
    pub fn partitions(&self) -> u16 {
        self.shards.len() as u16
    }

    /// Its settings.
    pub fn settings(&self) -> Arc<QueueSettings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over valid settings. Who waits must look again: call [`Entity::wake_all`] when the queue map is let go.
    pub(crate) fn apply(&self, settings: QueueSettings, updated_at: Timestamp) {
        self.lock_duration_ms
            .store(settings.lock_duration_ms, Ordering::Release);
        self.time_to_live_ms
            .store(settings.default_time_to_live_ms.unwrap_or(u64::MAX), Ordering::Release);
        self.max_delivery_count
            .store(settings.max_delivery_count, Ordering::Release);
        self.message_size_bytes_max
            .store(self.message_size_bytes_max_of(&settings), Ordering::Release);
        self.size_bytes_max.store(
            settings.max_size_megabytes.map_or(u64::MAX, |it| it << 20),
            Ordering::Release,
        );
        self.duplicate_window_ms
            .store(settings.duplicate_window_ms, Ordering::Release);
        self.bury_expired
            .store(settings.dead_lettering_on_message_expiration, Ordering::Release);
        self.expire_whole_sessions
            .store(settings.expire_whole_sessions, Ordering::Release);
        self.status.store(settings.status as u8, Ordering::Release);
        self.auto_delete_on_idle_ms
            .store(settings.auto_delete_on_idle_ms.unwrap_or(u64::MAX), Ordering::Release);
        self.forwards.store(settings.forward_to.is_some(), Ordering::Release);
        self.forwards_dead_letters
            .store(settings.forward_dead_letters_to.is_some(), Ordering::Release);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        self.set_updated_at(updated_at);
    }

    /// Notes when the settings or the rules changed last.
    pub(crate) fn set_updated_at(&self, updated_at: Timestamp) {
        self.updated_at.store(updated_at.0, Ordering::Relaxed);
    }

    /// Ends the queue: every later call on a handle of it fails. Who waits learns it by [`Entity::wake_all`].
    pub(crate) fn remove(&self) {
        self.gone.store(true, Ordering::SeqCst);
    }

    /// Lets everyone who waits look again. Not under the queue map: it looks into the sessions, whose guard is held while a
    /// state is journaled, and a snapshot reads the map under the journal's order.
    pub fn wake_all(&self) {
        if self.may_become_idle() && self.has_waiters() {
            // Who waits for a message uses the entity all the time.
            self.use_now();
        }
        self.main.doorbell.ring_all();
        self.dead_letters.doorbell.ring_all();
        let sessions = self.cells().filter_map(|(_, cell)| cell.sessions());
        sessions.for_each(Sessions::wake_holders);
    }

    /// Refuses when the queue or its namespace is gone.
    #[inline]
    pub fn check_alive(&self) -> Result<()> {
        if !self.gone.load(Ordering::Acquire) && !self.is_idle() {
            return Ok(());
        }
        self.core.check_open()?;
        let advice = format!("The {} was deleted; create it and open a new handle.", self.kind());
        Err(Error::entity_not_found(self.name.as_str(), &advice))
    }

    fn status(&self) -> EntityStatus {
        match self.status.load(Ordering::Acquire) {
            0 => EntityStatus::Active,
            1 => EntityStatus::Disabled,
            2 => EntityStatus::SendDisabled,
            _ => EntityStatus::ReceiveDisabled,
        }
    }

    /// Refuses when nothing may be sent.
    #[inline]
    pub fn check_sends(&self) -> Result<()> {
        self.check_alive()?;
        if self.status().sends() {
            Ok(())
        } else {
            Err(self.disabled("send"))
        }
    }

    /// Refuses when nothing may be received.
    #[inline]
    pub fn check_receives(&self) -> Result<()> {
        self.check_alive()?;
        if self.status().receives() {
            Ok(())
        } else {
            Err(self.disabled("receive"))
        }
    }

    fn disabled(&self, what: &str) -> Error {
        let detail = format!(
            "the {0}'s status forbids to {what}; set its status to Active with update_{0}: `{1}`",
            self.kind(),
            self.name.as_str()
        );
        Error::new(ErrorKind::EntityDisabled, detail)
    }

    /// The stream of a sub-queue.
    #[inline]
    pub fn receivable(&self, sub_queue: SubQueue) -> &Receivable {
        match sub_queue {
            SubQueue::Main => &self.main,
            SubQueue::DeadLetter => &self.dead_letters,
        }
    }

    /// The shard of the cell with that index.
    #[inline]
    pub fn shard(&self, index: usize) -> &Arc<Shard> {
        &self.shards[index]
    }

    /// The cell with that index, if it was ever used.
    #[inline]
    pub fn cell(&self, index: usize) -> Option<&Cell> {
        self.cells.get(index)?.get()
    }

    /// The cell with that index.
    #[inline]
    pub(crate) fn cell_for_append(&self, index: usize) -> &Cell {
        self.cells[index].get_or_init(|| Cell::new(&self.shards[index], self.id, self.features))
    }

    /// The cells that exist, with their index.
    pub fn cells(&self) -> impl Iterator<Item = (usize, &Cell)> {
        self.cells
            .iter()
            .enumerate()
            .filter_map(|(index, cell)| Some((index, cell.get()?)))
    }

    /// The partition of the cell with that index as users see it: `None` when the queue is not partitioned.
    pub fn shown_partition(&self, index: usize) -> Option<PartitionId> {
        self.partitioned.then_some(PartitionId(index as u16))
    }

    /// The sequence number of a message; its top bits are 0 when the queue is not partitioned.
    #[inline]
    pub fn sequence_number(index: usize, counter: Counter) -> SequenceNumber {
        SequenceNumber::new(PartitionId(index as u16), counter)
    }

    /// The cell index that a sequence number points to, if this queue can have it.
    pub fn index_of(&self, number: SequenceNumber) -> Option<usize> {
        let index = usize::from(number.partition().0);
        (index < self.shards.len()).then_some(index)
    }

    /// Milliseconds a lock lasts.
    #[inline]
    pub fn lock_duration_ms(&self) -> u64 {
        self.lock_duration_ms.load(Ordering::Acquire)
    }

    /// Deliveries before a message is dead-lettered.
    #[inline]
    pub fn max_delivery_count(&self) -> u32 {
        self.max_delivery_count.load(Ordering::Acquire)
    }

    /// Bytes one message may have.
    #[inline]
    pub fn message_size_bytes_max(&self) -> usize {
        self.message_size_bytes_max.load(Ordering::Acquire)
    }

    /// Bytes each partition may hold, when the queue was given a size (B-035).
    #[inline]
    pub fn size_bytes_max(&self) -> Option<u64> {
        let max = self.size_bytes_max.load(Ordering::Acquire);
        (max != u64::MAX).then_some(max)
    }

    /// True when expired messages go to the dead-letter queue.
    #[inline]
    pub fn buries_expired(&self) -> bool {
        self.bury_expired.load(Ordering::Acquire)
    }

    /// When a message with this time to live, accepted now, expires: the smaller of its own and the queue's (B-247).
    #[inline]
    pub fn expires_at(&self, time_to_live_ms: Option<u64>, now: Timestamp) -> Timestamp {
        let default = self.time_to_live_ms.load(Ordering::Acquire);
        now.plus_ms(time_to_live_ms.map_or(default, |own| own.min(default)))
    }

    /// The token of a hold.
    pub fn seal(&self, sub_queue: SubQueue, index: usize, key: LockKey) -> LockToken {
        let fields = TokenFields {
            partition: PartitionId(index as u16),
            counter: key.counter,
            generation: key.generation,
            epoch: 0,
        };
        LockToken::seal(self.core.token_key(), self.scope(sub_queue), fields)
    }

    /// The hold of a token, if it was made by this queue.
    pub fn open(&self, sub_queue: SubQueue, token: LockToken) -> Option<(usize, LockKey)> {
        let fields = token.open(self.core.token_key(), self.scope(sub_queue))?;
        let index = usize::from(fields.partition.0);
        (index < self.shards.len()).then_some((
            index,
            LockKey {
                counter: fields.counter,
                generation: fields.generation,
            },
        ))
    }

    fn scope(&self, sub_queue: SubQueue) -> u64 {
        self.id.0 << 1 | u64::from(sub_queue == SubQueue::DeadLetter)
    }

    /// The settings by which its cells dispose of messages.
    pub fn rules(&self) -> Rules {
        Rules {
            max_delivery_count: self.max_delivery_count(),
            bury_expired: self.buries_expired(),
            sessions_expire_whole: self.expire_whole_sessions.load(Ordering::Acquire),
        }
    }

    /// Created, last updated, last used; the last is `None` before the first use.
    pub fn times(&self) -> (Timestamp, Timestamp, Option<Timestamp>) {
        let accessed = self.accessed_at.load(Ordering::Relaxed);
        (
            self.created_at,
            Timestamp(self.updated_at.load(Ordering::Relaxed)),
            (accessed > 0).then_some(Timestamp(accessed)),
        )
    }

    /// As management shows it.
    pub fn describe(&self) -> QueueDescription {
        QueueDescription {
            name: self.name.as_str().to_owned(),
            settings: self.settings(),
            message_size_bytes_max: self.message_size_bytes_max(),
            available: self.is_available(),
            partitions: self.partitions(),
        }
    }

    /// True when all its shards work.
    pub fn is_available(&self) -> bool {
        self.shards.iter().all(|shard| shard.health().fault().is_none())
    }
}
