// SPDX-License-Identifier: Apache-2.0
//! One session of a cell: its ready and locked messages, its state and its holder.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use oxbus_model::{Counter, Ticks, Timestamp};
use oxbus_store::{ClaimedMessage, LockKey, WaitQueue};

use super::SessionEnd;

/// A session locked by a receiver.
#[derive(Debug)]
pub struct AcceptedSession {
    pub(super) id: Arc<str>,
    /// The name of the receiver, shown to operators.
    pub(super) owner: String,
    wait_queue: WaitQueue,
    /// Changes under the mutex of the index.
    deadline: AtomicU64,
    is_over: AtomicBool,
}

impl AcceptedSession {
    pub(super) fn new(id: Arc<str>, owner: String, deadline: Ticks) -> Self {
        Self {
            id,
            owner,
            wait_queue: WaitQueue::new(),
            deadline: AtomicU64::new(deadline.0),
            is_over: AtomicBool::new(false),
        }
    }

    /// The session id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Notified when the session has a message to receive, and when it ends.
    pub fn wait_queue(&self) -> &WaitQueue {
        &self.wait_queue
    }

    /// First tick at which the lock no longer holds.
    pub fn deadline(&self) -> Ticks {
        Ticks(self.deadline.load(Ordering::Acquire))
    }

    pub(super) fn set_deadline(&self, deadline: Ticks) {
        self.deadline.store(deadline.0, Ordering::Release);
    }

    /// Marks it as over. Returns false if it was over already.
    pub(super) fn mark_over(&self) -> bool {
        !self.is_over.swap(true, Ordering::AcqRel)
    }

    pub(super) fn holds(&self, ticks: Ticks) -> bool {
        !self.is_over.load(Ordering::Acquire) && ticks < self.deadline()
    }
}

/// A message locked by the holder of its session.
#[derive(Debug, Clone, Copy)]
pub(super) struct LockedMessage {
    pub(super) generation: u32,
    pub(super) enqueued_at: Timestamp,
}

/// The state that an application stores with a session.
#[derive(Debug, Clone)]
pub struct SessionState {
    /// Its bytes.
    pub bytes: Arc<[u8]>,
    /// When it was set.
    pub set_at: Timestamp,
}

/// A session in the index.
#[derive(Debug, Default)]
pub(super) struct SessionEntry {
    pub(super) ready: VecDeque<ClaimedMessage>,
    /// No ready message expires before this time.
    pub(super) earliest_expiry: Option<Timestamp>,
    pub(super) locked: BTreeMap<Counter, LockedMessage>,
    /// Messages that were abandoned with a delay. Later messages wait for them.
    pub(super) delayed: BTreeSet<Counter>,
    pub(super) state: Option<SessionState>,
    pub(super) holder: Option<Arc<AcceptedSession>>,
    /// True while the messages of a former holder are being returned.
    pub(super) is_ending: bool,
    /// Number of atomic writes in progress in the session.
    pub(super) pins: u32,
    /// How the holder left while the session was pinned.
    pub(super) pending_end: Option<SessionEnd>,
    /// Its key in `SessionIndex::available`, while the session is in it.
    pub(super) queue_position: Option<u64>,
}

impl SessionEntry {
    pub(super) fn is_vacant(&self) -> bool {
        self.ready.is_empty()
            && self.locked.is_empty()
            && self.delayed.is_empty()
            && self.state.is_none()
            && self.holder.is_none()
            && !self.is_ending
    }

    /// True if the first ready message can be received.
    pub(super) fn has_next(&self) -> bool {
        let Some(next) = self.ready.front() else { return false };
        self.delayed.first().is_none_or(|delayed| next.key.counter < *delayed)
    }

    /// True if the first ready message from `from` on and below `end` can be received.
    pub(super) fn has_next_within(&self, (from, end): (Counter, Counter)) -> bool {
        let end = self.delayed.first().map_or(end, |delayed| end.min(*delayed));
        let first = self.ready.partition_point(|message| message.key.counter < from);
        self.ready.get(first).is_some_and(|message| message.key.counter < end)
    }

    pub(super) fn insert(&mut self, message: ClaimedMessage) {
        self.delayed.remove(&message.key.counter);
        let expires_at = message.expires_at;
        self.earliest_expiry = Some(self.earliest_expiry.map_or(expires_at, |it| it.min(expires_at)));
        let counter = message.key.counter;
        let is_last = self.ready.back().is_none_or(|last| last.key.counter < counter);
        if is_last {
            self.ready.push_back(message);
        } else {
            let place = self.ready.partition_point(|other| other.key.counter < counter);
            self.ready.insert(place, message);
        }
    }

    /// Removes and returns the locks of its holder.
    pub(super) fn take_locked(&mut self) -> Vec<LockKey> {
        let key = |(counter, locked): (Counter, LockedMessage)| LockKey {
            counter,
            generation: locked.generation,
        };
        std::mem::take(&mut self.locked).into_iter().map(key).collect()
    }

    pub(super) fn all_expired(&self, now: Timestamp) -> bool {
        self.earliest_expiry.is_some_and(|earliest| earliest <= now)
            && self.ready.iter().all(|message| message.expires_at <= now)
    }

    /// Removes the expired ready messages. With `whole_session`, one expired message removes all ready messages
    /// (B-209).
    pub(super) fn take_expired(&mut self, now: Timestamp, whole_session: bool) -> Vec<ClaimedMessage> {
        if self.earliest_expiry.is_none_or(|earliest| earliest > now) {
            return Vec::new();
        }
        // The message that `earliest_expiry` is from may have been received since.
        let all_expire = whole_session && self.ready.iter().any(|message| message.expires_at <= now);
        let all = std::mem::take(&mut self.ready);
        let (expired, kept): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|message| all_expire || message.expires_at <= now);
        self.ready = kept.into();
        self.earliest_expiry = self.ready.iter().map(|message| message.expires_at).min();
        expired
    }
}
