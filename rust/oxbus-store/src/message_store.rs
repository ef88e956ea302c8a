// SPDX-License-Identifier: Apache-2.0
//! The interface of every message store: the slot log, the ordered map, and the mutex-guarded store of the tests.
//!
//! A message is in exactly one phase. A receiver claims a message: the message is then locked, or in the receiver's
//! cache. Each claim of a message has a new generation, so the [`LockKey`] of an earlier claim does not match.
//!
//! ```text
//! append ─► READY ──────────claim──────────► LOCKED ─► complete · remove ─► gone
//!             ▲ └─claim─► CACHED ─deliver_cached─┘│
//!             └───── abandon · expiry · release ──┴─ defer ─► DEFERRED ─lock_deferred─► LOCKED (deferred)
//!                                      hold: LOCKED ─► LOCKED for the caller alone, with the delivery counted
//! append_scheduled ─► SCHEDULED ─take_scheduled─► gone (activation appends it under a new number)
//! ```
//!
//! Rules: docs/behaviour.md B-120, B-153 … B-180, B-275 … B-286.

use oxbus_model::{Counter, Ticks, Timestamp};

use crate::StoredRecord;

/// A message to append.
#[derive(Debug)]
pub struct NewMessage {
    /// Its bytes.
    pub record: StoredRecord,
    /// When it expires, or [`Timestamp::NEVER`].
    pub expires_at: Timestamp,
}

/// Largest generation of a [`LockKey`]. The generation after it is 0. A slot stores a generation in 20 bits.
pub(crate) const GENERATION_MAX: u32 = (1 << 20) - 1;

/// Identifies one claim of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockKey {
    /// Number of the message.
    pub counter: Counter,
    /// Number of the claim, in 20 bits.
    pub generation: u32,
}

impl LockKey {
    /// The key of the message's next claim.
    #[must_use]
    pub fn next(self) -> Self {
        Self {
            generation: (self.generation + 1) & GENERATION_MAX,
            ..self
        }
    }
}

/// The effect of a claim on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimMode {
    /// Locks the message until the deadline. The lock is a delivery, unless the deadline is [`Ticks::NEVER`].
    Lock {
        /// First tick at which the lock has expired.
        deadline: Ticks,
    },
    /// Moves the message into a receiver's cache, without a deadline and without counting a delivery.
    Cache,
    /// Removes the message at once, for receive-and-delete.
    Take,
}

/// A message that a receiver claimed.
#[derive(Debug)]
pub struct ClaimedMessage {
    /// Key to settle it with. Meaningless after [`ClaimMode::Take`], because the message is gone.
    pub key: LockKey,
    /// Its bytes.
    pub record: StoredRecord,
    /// Number of earlier deliveries: 0 on the first (B-176).
    pub delivery_count: u32,
    /// When the broker accepted it.
    pub enqueued_at: Timestamp,
    /// When it expires, or [`Timestamp::NEVER`].
    pub expires_at: Timestamp,
    /// End of the lock, or [`Ticks::NEVER`] if the message is cached or taken.
    pub deadline: Ticks,
    /// True if the message was deferred and fetched by number (B-285).
    pub deferred: bool,
}

/// A message that left its store, with everything needed to store it elsewhere.
#[derive(Debug)]
pub struct RemovedMessage {
    /// Its number, kept when it moves to the dead-letter queue (B-111).
    pub counter: Counter,
    /// Its bytes.
    pub record: StoredRecord,
    /// Deliveries that ended without a settlement.
    pub delivery_count: u32,
    /// When the broker accepted it.
    pub enqueued_at: Timestamp,
    /// When it would have expired.
    pub expires_at: Timestamp,
}

/// How a lock ends.
#[derive(Debug)]
pub enum Outcome {
    /// The message was processed and leaves the store.
    Complete,
    /// The message becomes ready, and one delivery is counted. It leaves the store when the count reaches the maximum
    /// (B-178).
    Abandon {
        /// Largest number of deliveries.
        max_delivery_count: u32,
        /// New bytes, if properties changed (B-166).
        replacement: Option<StoredRecord>,
    },
    /// What [`Abandon`](Self::Abandon) does, except that the message stays locked: under its next key, which only the
    /// caller knows, and without a deadline. The caller ends that lock later.
    Hold {
        /// Largest number of deliveries.
        max_delivery_count: u32,
        /// New bytes, if properties changed.
        replacement: Option<StoredRecord>,
    },
    /// The message becomes ready, and no delivery is counted, because the receiver did not use it.
    Release,
    /// The message is deferred until it is fetched by number. No delivery is counted.
    Defer {
        /// New bytes, if properties changed.
        replacement: Option<StoredRecord>,
    },
    /// The message leaves the store. The caller stores it elsewhere.
    Remove,
}

/// The result of a settlement.
#[derive(Debug)]
pub enum SettleResult {
    /// The message is gone.
    Completed,
    /// The message is ready again.
    Ready,
    /// The message is deferred. This is also the result of abandoning a deferred message (B-282).
    Deferred,
    /// The message is locked under this key.
    Held(LockKey),
    /// The message left the store at the caller's request.
    Removed(RemovedMessage),
    /// The message left the store because its delivery count reached the maximum.
    Exhausted(RemovedMessage),
}

/// The key does not match a lock: the lock expired, was settled before, or never existed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockLost;

/// Phase of a stored message as a browser sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessagePhase {
    /// Waiting for a receiver.
    Ready,
    /// In a receiver's cache and not delivered.
    Cached,
    /// Locked by a receiver.
    Locked,
    /// Deferred and not locked.
    Deferred,
    /// Deferred, fetched by number and locked.
    DeferredLocked,
    /// Waiting for its due time.
    Scheduled,
}

/// A message that recovery puts into a store.
#[derive(Debug)]
pub struct RestoredMessage {
    /// The message under its number.
    pub message: RemovedMessage,
    /// Ready, deferred or scheduled, because a claim does not survive a restart.
    pub phase: MessagePhase,
    /// Generation of its latest claim. The next claim gets the generation after it.
    pub generation: u32,
}

/// A stored message as a browser sees it.
#[derive(Debug)]
pub struct PeekedMessage {
    /// Its number.
    pub counter: Counter,
    /// Its bytes.
    pub record: StoredRecord,
    /// Its phase.
    pub phase: MessagePhase,
    /// True if its lock is a delivery: the lock has a deadline other than [`Ticks::NEVER`].
    pub is_delivered: bool,
    /// Generation of its latest claim, or 0 before the first.
    pub generation: u32,
    /// Deliveries counted so far.
    pub delivery_count: u32,
    /// When the broker accepted it.
    pub enqueued_at: Timestamp,
    /// When it expires, or [`Timestamp::NEVER`].
    pub expires_at: Timestamp,
}

/// Numbers of messages in a store, by phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PhaseCounts {
    /// Waiting for a receiver.
    pub ready: u64,
    /// In receive caches.
    pub cached: u64,
    /// Locked and not deferred.
    pub locked: u64,
    /// Deferred, locked or not.
    pub deferred: u64,
    /// Deferred and locked. Included in `deferred`.
    pub deferred_locked: u64,
    /// Waiting for their due time.
    pub scheduled: u64,
    /// Bytes of all records.
    pub record_bytes: u64,
}

impl PhaseCounts {
    /// Number of messages in all phases.
    pub fn messages(&self) -> u64 {
        self.ready + self.cached + self.locked + self.deferred + self.scheduled
    }

    /// Counts one message of `record_bytes` bytes.
    pub fn add(&mut self, phase: MessagePhase, record_bytes: usize) {
        let of_phase = match phase {
            MessagePhase::Ready => &mut self.ready,
            MessagePhase::Cached => &mut self.cached,
            MessagePhase::Locked => &mut self.locked,
            MessagePhase::Deferred | MessagePhase::DeferredLocked => &mut self.deferred,
            MessagePhase::Scheduled => &mut self.scheduled,
        };
        *of_phase += 1;
        self.deferred_locked += u64::from(phase == MessagePhase::DeferredLocked);
        self.record_bytes += record_bytes as u64;
    }
}

/// A store of messages indexed by counter, shared between threads.
///
/// Every call that takes `ticks` treats a lock as expired if its deadline is at or before `ticks`.
pub trait MessageStore: Send + Sync {
    /// Stores `batch` under consecutive counters and returns the first. Leaves `batch` empty. Receivers see the
    /// messages in counter order. The batch must not be empty.
    fn append(&self, batch: &mut Vec<NewMessage>, enqueued_at: Timestamp) -> Counter;

    /// Stores one message, as a batch of one does. The message is visible before any later sequentially consistent
    /// load of the caller, as if a fence stood between them.
    fn append_one(&self, message: NewMessage, enqueued_at: Timestamp) -> Counter;

    /// Stores one scheduled message. The caller keeps the due time.
    fn append_scheduled(&self, message: NewMessage, enqueued_at: Timestamp) -> Counter;

    /// Removes a scheduled message, for its activation or its cancellation. Returns `None` if it is not scheduled.
    fn take_scheduled(&self, counter: Counter) -> Option<RemovedMessage>;

    /// Claims up to `max` ready messages, lowest counters first, and pushes them to `out`. Moves messages that are
    /// expired at `now` to `expired`. They do not count towards `max`. Returns the number of claimed messages.
    fn claim(
        &self,
        max: usize,
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> usize;

    /// Claims the messages of `counters` that are ready, as [`claim`](MessageStore::claim) does. Does not change the
    /// others. Returns the number of claimed messages.
    fn claim_these(
        &self,
        counters: &[Counter],
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> usize;

    /// True if a claim could find a message. Exact unless another thread changes the store at the same time.
    fn has_ready(&self) -> bool;

    /// Delivers a cached message: locks or takes it. Returns the new key, or `None` if the message is no longer
    /// cached.
    fn deliver_cached(&self, key: LockKey, mode: ClaimMode) -> Option<LockKey>;

    /// Makes cached messages ready without counting a delivery. Skips messages that are no longer cached. Returns how
    /// many became ready.
    fn release_cached(&self, keys: &[LockKey]) -> usize;

    /// Ends a lock.
    fn settle(&self, key: LockKey, outcome: Outcome, ticks: Ticks) -> Result<SettleResult, LockLost>;

    /// Completes many messages. Pushes the index of each key whose lock is lost to `lost`.
    fn complete(&self, keys: &[LockKey], ticks: Ticks, lost: &mut Vec<usize>);

    /// Moves the deadline of a lock and returns the old deadline. The key stays valid.
    fn renew(&self, key: LockKey, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost>;

    /// Gives a lock another generation and another deadline, and returns the old deadline. The old key becomes
    /// invalid, so no one else can use the lock until the caller restores the old generation.
    fn rekey(&self, key: LockKey, generation: u32, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost>;

    /// Counts a delivery and keeps the lock. The caller must not use the key in a concurrent call.
    fn count_delivery(&self, key: LockKey, ticks: Ticks) -> Result<(), LockLost>;

    /// True if the key is that of a live lock or of a cached message.
    fn is_claimed_by(&self, key: LockKey, ticks: Ticks) -> bool;

    /// Locks or takes deferred messages by number, either all or none. If it fails, the error is the first number that
    /// is not that of a deferred, unlocked, unexpired message (B-278, B-255). [`ClaimMode::Lock`] counts one delivery
    /// at the fetch (B-281), unless the lock is not a delivery.
    fn lock_deferred(
        &self,
        counters: &[Counter],
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
    ) -> Result<(), Counter>;

    /// Moves the messages of `counters` that are deferred, not locked, and expired at `now` to `expired`.
    fn take_expired(&self, counters: &[Counter], now: Timestamp, expired: &mut Vec<RemovedMessage>);

    /// Ends expired locks. Each message becomes ready with one delivery counted, or deferred again if it was deferred:
    /// its delivery was counted at the fetch. Moves messages whose count reaches the maximum to `exhausted`. Returns
    /// how many became ready.
    fn expire(&self, ticks: Ticks, max_delivery_count: u32, exhausted: &mut Vec<RemovedMessage>) -> usize;

    /// A tick before which no lock expires. It may be too early but never too late. It is [`Ticks::OPEN_END`] or later
    /// if no lock has a deadline.
    fn next_expiry(&self) -> Ticks;

    /// Pushes up to `max` messages of all phases to `out`, from `from` on in counter order.
    fn peek(&self, from: Counter, max: usize, out: &mut Vec<PeekedMessage>);

    /// Counts the messages by walking the store.
    fn counts(&self) -> PhaseCounts;

    /// Number of messages in all phases, counted without reading each one if the store can do so. Exact unless another
    /// thread changes the store at the same time.
    fn approximate_count(&self) -> u64 {
        self.counts().messages()
    }

    /// Bytes of the store without the records.
    fn overhead_bytes(&self) -> usize;
}

/// A store that appends in two steps, so that a message can be made durable between them.
///
/// A reserved number is published or given up later. Until then no message with a higher number can be received,
/// although a browser may see it.
pub trait NumberedStore: MessageStore + Sized {
    /// Creates a store with `messages`, which must be sorted by number. The next message gets number `next`.
    fn restore(next: Counter, messages: impl Iterator<Item = RestoredMessage>) -> Self;

    /// The number that the next message gets.
    fn next(&self) -> Counter;

    /// True if every number below `before` was published or given up.
    fn is_decided(&self, before: Counter) -> bool;

    /// Reserves `count` consecutive numbers, at least one, and returns the first.
    fn reserve(&self, count: usize) -> Counter;

    /// Stores `batch` under the reserved numbers from `first` on. Leaves `batch` empty.
    fn publish(&self, first: Counter, batch: &mut Vec<NewMessage>, enqueued_at: Timestamp);

    /// Stores one scheduled message under a reserved number.
    fn publish_scheduled(&self, counter: Counter, message: NewMessage, enqueued_at: Timestamp);

    /// Gives up reserved numbers: no message will have them.
    fn give_up(&self, first: Counter, count: usize);
}
