// SPDX-License-Identifier: Apache-2.0
//! What every store of messages does: the slot log, the ordered map, and the mutex twin of the tests.
//!
//! A message is in exactly one phase. Settlement names a message by [`LockKey`]: its counter and the
//! generation of the hold; a generation is used once, so a stale key never matches.
//!
//! ```text
//! append ─► READY ──claim──► LOCKED ─► complete · remove ─► gone
//!             ▲  └─cache─► CACHED ─deliver_cached─┘ │
//!             └──── abandon · expiry · release┘└─ defer ─► DEFERRED ─lock_deferred─► LOCKED (deferred)
//! append_scheduled ─► SCHEDULED ─take_scheduled─► gone (the caller appends it again under a new number)
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
    /// When it expires; [`Timestamp::NEVER`] for never.
    pub expires_at: Timestamp,
}

/// Largest generation of a [`LockKey`]; the next one is 0. A slot stores a generation in 20 bits.
pub(crate) const GENERATION_MAX: u32 = (1 << 20) - 1;

/// Names one hold on one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockKey {
    /// Which message.
    pub counter: Counter,
    /// Which hold on it; 20 bits.
    pub generation: u32,
}

impl LockKey {
    /// The key of the next hold on the message.
    #[must_use]
    pub fn next(self) -> Self {
        Self {
            generation: (self.generation + 1) & GENERATION_MAX,
            ..self
        }
    }
}

/// What a receiver does with the messages it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimMode {
    /// Lock until the deadline. A delivery, unless the deadline is [`Ticks::NEVER`].
    Lock {
        /// First tick at which the lock no longer holds.
        deadline: Ticks,
    },
    /// Put aside for a receiver without a deadline and without charging a delivery.
    Cache,
    /// Remove at once: receive-and-delete.
    Take,
}

/// A message in the hands of a receiver.
#[derive(Debug)]
pub struct ClaimedMessage {
    /// How to settle it. Its generation means nothing after [`ClaimMode::Take`].
    pub key: LockKey,
    /// Its bytes.
    pub record: StoredRecord,
    /// Earlier deliveries: 0 on the first (B-176).
    pub delivery_count: u32,
    /// When the broker accepted it.
    pub enqueued_at: Timestamp,
    /// When it expires; [`Timestamp::NEVER`] for never.
    pub expires_at: Timestamp,
    /// End of the lock; [`Ticks::NEVER`] while cached or taken.
    pub deadline: Ticks,
    /// It was deferred and fetched by number (B-285).
    pub deferred: bool,
}

/// A message that left its store with everything needed to put it elsewhere.
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

/// How a hold ends.
#[derive(Debug)]
pub enum Outcome {
    /// The message is done with.
    Complete,
    /// Back to its place, one delivery charged; removed as exhausted when the charged count reaches the maximum (B-178).
    Abandon {
        /// Deliveries allowed.
        max_delivery_count: u32,
        /// Bytes to store in place of the old ones, when properties changed (B-166).
        replacement: Option<StoredRecord>,
    },
    /// Back to its place, nothing charged: the receiver never used it.
    Release,
    /// Out of the flow until fetched by number; nothing charged.
    Defer {
        /// Bytes to store in place of the old ones.
        replacement: Option<StoredRecord>,
    },
    /// Out of the store; the caller puts it elsewhere.
    Remove,
}

/// What a settlement did.
#[derive(Debug)]
pub enum SettleResult {
    /// The message is gone.
    Completed,
    /// The message is ready again.
    Ready,
    /// The message is deferred (also after abandoning a deferred one, B-282).
    Deferred,
    /// The message left the store because its caller asked for it.
    Removed(RemovedMessage),
    /// The message left the store because its deliveries are used up.
    Exhausted(RemovedMessage),
}

/// The hold is over: it expired, was settled before, or never was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockLost;

/// Phase of a stored message as a browser sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessagePhase {
    /// Waiting for a receiver.
    Ready,
    /// In a receiver's cache, not handed out.
    Cached,
    /// Locked by a receiver.
    Locked,
    /// Deferred, nobody holds it.
    Deferred,
    /// Deferred, fetched by number and locked.
    DeferredLocked,
    /// Waiting for its time.
    Scheduled,
}

/// A message that a store begins with.
#[derive(Debug)]
pub struct RestoredMessage {
    /// The message under the number it has.
    pub message: RemovedMessage,
    /// Ready, deferred or scheduled: nobody holds it.
    pub phase: MessagePhase,
    /// Its latest hold: later ones go on from there.
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
    /// It is locked, and its lock is a delivery: not one until [`Ticks::NEVER`].
    pub is_delivered: bool,
    /// Its latest hold; 0 before the first.
    pub generation: u32,
    /// Deliveries charged so far.
    pub delivery_count: u32,
    /// When the broker accepted it.
    pub enqueued_at: Timestamp,
    /// When it expires; [`Timestamp::NEVER`] for never.
    pub expires_at: Timestamp,
}

/// Messages of a store by phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PhaseCounts {
    /// Waiting for a receiver.
    pub ready: u64,
    /// In receive caches.
    pub cached: u64,
    /// Locked, without the deferred ones.
    pub locked: u64,
    /// Deferred, locked or not.
    pub deferred: u64,
    /// Those of the deferred that are locked.
    pub deferred_locked: u64,
    /// Waiting for their time.
    pub scheduled: u64,
    /// Bytes of all their records.
    pub record_bytes: u64,
}

impl PhaseCounts {
    /// Messages of all phases.
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
/// Every call that takes `ticks` first treats the holds whose deadline is at or before it as over.
pub trait MessageStore: Send + Sync {
    /// Stores `batch` under consecutive counters and returns the first; leaves `batch` empty.
    /// The batch becomes visible to receivers in counter order. An empty batch is a caller's bug.
    fn append(&self, batch: &mut Vec<NewMessage>, enqueued_at: Timestamp) -> Counter;

    /// Stores one message; the same as a batch of one. The store of it comes before sequentially consistent loads of the
    /// caller in their one order, as if a fence stood between.
    fn append_one(&self, message: NewMessage, enqueued_at: Timestamp) -> Counter;

    /// Stores one message in phase scheduled. The caller keeps the due time.
    fn append_scheduled(&self, message: NewMessage, enqueued_at: Timestamp) -> Counter;

    /// Removes a scheduled message, for its activation or its cancellation. `None` when it is not scheduled.
    fn take_scheduled(&self, counter: Counter) -> Option<RemovedMessage>;

    /// Takes up to `max` ready messages, lowest counters first, and pushes them to `out`.
    /// Messages whose time is over at `now` leave the store into `expired` and do not count. Returns how many it took.
    fn claim(
        &self,
        max: usize,
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> usize;

    /// Takes those of the given messages that are ready, as [`claim`](MessageStore::claim) does, and leaves the others as they
    /// are. Returns how many it took.
    fn claim_these(
        &self,
        counters: &[Counter],
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
        expired: &mut Vec<RemovedMessage>,
    ) -> usize;

    /// True when a claim could find something. May be wrong only while another thread changes the store.
    fn has_ready(&self) -> bool;

    /// Cached → locked or taken. The new key, or `None` when the message was released meanwhile.
    fn deliver_cached(&self, key: LockKey, mode: ClaimMode) -> Option<LockKey>;

    /// Cached → ready, nothing charged. Skips keys that are no longer cached. Returns how many became ready.
    fn release_cached(&self, keys: &[LockKey]) -> usize;

    /// Ends a hold.
    fn settle(&self, key: LockKey, outcome: Outcome, ticks: Ticks) -> Result<SettleResult, LockLost>;

    /// Completes many; pushes the index of each key that was lost.
    fn complete(&self, keys: &[LockKey], ticks: Ticks, lost: &mut Vec<usize>);

    /// Moves the deadline of a lock and returns the one before. The generation stays.
    fn renew(&self, key: LockKey, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost>;

    /// Moves a lock to another generation and another deadline, and returns the deadline before: the old key is lost. So one
    /// caller can keep a lock to himself, and move it back later.
    fn rekey(&self, key: LockKey, generation: u32, deadline: Ticks, ticks: Ticks) -> Result<Ticks, LockLost>;

    /// Charges a delivery to a lock that stays: its holder begins again. A message whose deliveries are used up leaves the
    /// store instead. Only for who settles the lock by no other call meanwhile.
    fn charge(&self, key: LockKey, max_delivery_count: u32, ticks: Ticks) -> Result<Option<RemovedMessage>, LockLost>;

    /// True while the hold is alive.
    fn holds(&self, key: LockKey, ticks: Ticks) -> bool;

    /// Fetches deferred messages by number: all of them, or none and the first number that could not be had (B-278).
    /// With [`ClaimMode::Lock`] each fetch charges one delivery, at the fetch (B-281), unless the lock is no delivery. Expired messages cannot be had (B-255).
    fn lock_deferred(
        &self,
        counters: &[Counter],
        mode: ClaimMode,
        now: Timestamp,
        out: &mut Vec<ClaimedMessage>,
    ) -> Result<(), Counter>;

    /// Takes those of the given messages out that are deferred, that nobody holds and whose time is over at `now`: into
    /// `expired`.
    fn take_expired(&self, counters: &[Counter], now: Timestamp, expired: &mut Vec<RemovedMessage>);

    /// Ends the locks that are over: back to ready (or deferred), one delivery charged, except that a deferred
    /// message was charged at its fetch. Those whose deliveries are used up leave into `exhausted`.
    /// Returns how many became ready.
    fn expire(&self, ticks: Ticks, max_delivery_count: u32, exhausted: &mut Vec<RemovedMessage>) -> usize;

    /// No lock ends before this tick. May be earlier than the truth, never later. [`Ticks::OPEN_END`] or later without locks that
    /// end.
    fn next_expiry(&self) -> Ticks;

    /// Browses up to `max` messages from `from` on in counter order, whatever their phase.
    fn peek(&self, from: Counter, max: usize, out: &mut Vec<PeekedMessage>);

    /// Counts by walking the store.
    fn counts(&self) -> PhaseCounts;

    /// Messages of all phases; a store that can tell without looking at each does. Right while nobody works on it, near enough
    /// otherwise.
    fn approximate_count(&self) -> u64 {
        self.counts().messages()
    }

    /// Bytes this store occupies beyond the records.
    fn overhead_bytes(&self) -> usize;
}

/// A store that gives out numbers in two steps, so that a message can be made durable between them.
///
/// A reserved number is published or given up later. Until then no message behind it can be received; browsing may or
/// may not show it.
pub trait NumberedStore: MessageStore + Sized {
    /// A store that holds `messages`, in the order of their numbers, and goes on with number `next`.
    fn restore(next: Counter, messages: impl Iterator<Item = RestoredMessage>) -> Self;

    /// The number that the next message gets.
    fn next(&self) -> Counter;

    /// True when no number below `before` is reserved any more.
    fn is_decided(&self, before: Counter) -> bool;

    /// Reserves `count` consecutive numbers, at least one, and returns the first.
    fn reserve(&self, count: usize) -> Counter;

    /// Stores `batch` under the reserved numbers from `first` on; leaves `batch` empty.
    fn publish(&self, first: Counter, batch: &mut Vec<NewMessage>, enqueued_at: Timestamp);

    /// Stores one message in phase scheduled under a reserved number.
    fn publish_scheduled(&self, counter: Counter, message: NewMessage, enqueued_at: Timestamp);

    /// Gives reserved numbers up: no message will ever have them.
    fn give_up(&self, first: Counter, count: usize);
}
