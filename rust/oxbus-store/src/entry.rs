// SPDX-License-Identifier: Apache-2.0
//! A message of a store that a mutex guards, and its phase transitions.
//!
//! The ordered map and the mutex-guarded store of the tests share the transitions and add their own indexes.
//! Rules: docs/behaviour.md B-163, B-164, B-178, B-281, B-282.

use oxbus_model::{Counter, Ticks, Timestamp};

use crate::message_store::GENERATION_MAX;
use crate::{ClaimedMessage, LockKey, MessagePhase, Outcome, PeekedMessage, RemovedMessage, StoredRecord};

/// A stored message.
#[derive(Debug)]
pub struct StoreEntry {
    /// Its bytes.
    pub record: StoredRecord,
    /// When the broker accepted it.
    pub enqueued_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
    /// [`Ticks::NEVER`] unless locked.
    pub deadline: Ticks,
    /// Deliveries counted so far.
    pub delivery_count: u32,
    /// Generation of its latest claim.
    pub generation: u32,
    /// Its phase.
    pub phase: MessagePhase,
}

/// The store's action on a message whose lock ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterSettle {
    /// Drops it, because it was completed.
    Completed,
    /// Makes it ready.
    Ready,
    /// Keeps it deferred.
    Deferred,
    /// Keeps it locked, under its new generation and without a deadline.
    Held,
    /// Returns it to the caller that asked for it.
    Removed,
    /// Returns it to the caller, because its delivery count reached the maximum.
    Exhausted,
}

impl StoreEntry {
    /// A message that was never claimed.
    pub fn new(record: StoredRecord, enqueued_at: Timestamp, expires_at: Timestamp, phase: MessagePhase) -> Self {
        Self {
            record,
            enqueued_at,
            expires_at,
            deadline: Ticks::NEVER,
            delivery_count: 0,
            generation: 0,
            phase,
        }
    }

    /// Claims the message under a new generation, so that earlier keys do not match.
    pub fn claim(&mut self, phase: MessagePhase, deadline: Ticks) {
        self.generation = (self.generation + 1) & GENERATION_MAX;
        self.phase = phase;
        self.deadline = deadline;
    }

    /// True if `generation` is that of a lock that has not expired at `ticks`.
    pub fn is_locked_by(&self, generation: u32, ticks: Ticks) -> bool {
        matches!(self.phase, MessagePhase::Locked | MessagePhase::DeferredLocked)
            && self.generation == generation
            && self.deadline > ticks
    }

    /// True if `generation` is that of a receive cache that has the message.
    pub fn is_cached_by(&self, generation: u32) -> bool {
        self.phase == MessagePhase::Cached && self.generation == generation
    }

    /// Ends the lock. The caller then performs the returned action.
    pub fn settle(&mut self, outcome: Outcome) -> AfterSettle {
        self.deadline = Ticks::NEVER;
        let deferred = self.phase == MessagePhase::DeferredLocked;
        match outcome {
            Outcome::Complete => AfterSettle::Completed,
            Outcome::Remove => AfterSettle::Removed,
            Outcome::Release => self.requeue(deferred),
            Outcome::Defer { replacement } => {
                self.replace(replacement);
                self.requeue(true)
            }
            Outcome::Abandon {
                max_delivery_count,
                replacement,
            } => {
                if self.ends_delivery(max_delivery_count, replacement) {
                    AfterSettle::Exhausted
                } else {
                    self.requeue(deferred)
                }
            }
            Outcome::Hold {
                max_delivery_count,
                replacement,
            } => {
                if self.ends_delivery(max_delivery_count, replacement) {
                    AfterSettle::Exhausted
                } else {
                    self.claim(self.phase, Ticks::NEVER);
                    AfterSettle::Held
                }
            }
        }
    }

    /// Counts a delivery, except that that of a deferred message was counted at its fetch. Returns true if the count
    /// reached the maximum.
    fn ends_delivery(&mut self, max_delivery_count: u32, replacement: Option<StoredRecord>) -> bool {
        self.replace(replacement);
        if self.phase != MessagePhase::DeferredLocked {
            self.delivery_count = self.delivery_count.saturating_add(1);
        }
        self.delivery_count >= max_delivery_count
    }

    /// The message as it leaves its store.
    pub fn into_removed(self, counter: u64) -> RemovedMessage {
        RemovedMessage {
            counter: Counter(counter),
            record: self.record,
            delivery_count: self.delivery_count,
            enqueued_at: self.enqueued_at,
            expires_at: self.expires_at,
        }
    }

    /// The message as its receiver sees it.
    pub fn claimed(&self, counter: u64) -> ClaimedMessage {
        ClaimedMessage {
            key: LockKey {
                counter: Counter(counter),
                generation: self.generation,
            },
            record: self.record.clone(),
            delivery_count: self.delivery_count,
            enqueued_at: self.enqueued_at,
            expires_at: self.expires_at,
            deadline: self.deadline,
            deferred: matches!(self.phase, MessagePhase::Deferred | MessagePhase::DeferredLocked),
        }
    }

    /// The message as its receiver sees it after [`ClaimMode::Take`](crate::ClaimMode::Take).
    pub fn into_claimed(self, counter: u64) -> ClaimedMessage {
        ClaimedMessage {
            key: LockKey {
                counter: Counter(counter),
                generation: self.generation,
            },
            delivery_count: self.delivery_count,
            enqueued_at: self.enqueued_at,
            expires_at: self.expires_at,
            deadline: Ticks::NEVER,
            deferred: matches!(self.phase, MessagePhase::Deferred | MessagePhase::DeferredLocked),
            record: self.record,
        }
    }

    /// The message as a browser sees it.
    pub fn peeked(&self, counter: u64) -> PeekedMessage {
        PeekedMessage {
            counter: Counter(counter),
            record: self.record.clone(),
            phase: self.phase,
            is_delivered: matches!(self.phase, MessagePhase::Locked | MessagePhase::DeferredLocked)
                && self.deadline != Ticks::NEVER,
            generation: self.generation,
            delivery_count: self.delivery_count,
            enqueued_at: self.enqueued_at,
            expires_at: self.expires_at,
        }
    }

    fn requeue(&mut self, deferred: bool) -> AfterSettle {
        if deferred {
            self.phase = MessagePhase::Deferred;
            AfterSettle::Deferred
        } else {
            self.phase = MessagePhase::Ready;
            AfterSettle::Ready
        }
    }

    fn replace(&mut self, replacement: Option<StoredRecord>) {
        if let Some(record) = replacement {
            self.record = record;
        }
    }
}
