// SPDX-License-Identifier: Apache-2.0
//! The sessions of a cell (B-181 … B-217): its ready messages by session, and the holder of each session.
//!
//! Messages of a session entity are stored like any others. When they become ready, they are claimed from the store
//! without counting a delivery and moved into their sessions; a receiver takes them from its session. A message that
//! is returned becomes ready in the store and is moved into its session again. So schedules, deferral, expiry,
//! browsing, the journal and the dead-letter queue do not depend on sessions.
//!
//! A message delivered to the holder of a session has a lock without a deadline: the lock of the session covers it
//! (B-200). A message that is abandoned with a delay keeps its place: later messages of the session wait for it.
//!
//! Invariants
//! - `intake` is locked to move messages into sessions and to end a session. So messages arrive in the order of their
//!   numbers, and no receiver accepts a session while its messages are being returned;
//! - mutex order: `intake`, `index`, the append guard.

mod session;
mod session_index;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_model::{Counter, Moment, Ticks};
use oxbus_store::{ClaimMode, ClaimedMessage, LockKey};

pub use self::session::{AcceptedSession, SessionState};
use self::session_index::SessionIndex;
pub use self::session_index::{SessionInfo, SessionLost};
pub(crate) use self::session_index::{SessionSearch, SessionWakeUps};
use super::Shard;
use super::guarded::{Guarded, StateGuard};

/// The sessions of one cell.
#[derive(Debug)]
pub struct Sessions {
    shard: Arc<Shard>,
    intake: Guarded<()>,
    index: Guarded<SessionIndex>,
    /// The earliest deadline of a session lock; changes under the mutex of the index.
    next_deadline: AtomicU64,
}

/// Why a session ended for its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// It was closed: no delivery is counted (B-205).
    Closed,
    /// Its lock expired: a delivery is counted (B-206).
    Expired,
}

/// How to receive messages from a session.
#[derive(Debug, Clone, Copy)]
pub struct SessionReceive {
    /// Maximum number of messages.
    pub max: usize,
    /// How to lock or remove them.
    pub mode: ClaimMode,
    /// The time of the receive.
    pub moment: Moment,
}

impl Sessions {
    /// The sessions of a cell, with the states that recovery found.
    pub fn restore(shard: &Arc<Shard>, states: impl Iterator<Item = (Arc<str>, SessionState)>) -> Self {
        Self {
            shard: Arc::clone(shard),
            intake: Guarded::default(),
            index: Guarded::new(SessionIndex::restore(states)),
            next_deadline: AtomicU64::new(Ticks::NEVER.0),
        }
    }

    pub(crate) fn intake(&self) -> StateGuard<'_, ()> {
        self.intake.lock(&self.shard.health)
    }

    pub(crate) fn index(&self) -> StateGuard<'_, SessionIndex> {
        self.index.lock(&self.shard.health)
    }

    pub(crate) fn note_deadline(&self, index: &SessionIndex) {
        self.next_deadline.store(index.next_deadline().0, Ordering::SeqCst);
    }

    /// The earliest deadline of a session lock.
    pub fn next_deadline(&self) -> Ticks {
        Ticks(self.next_deadline.load(Ordering::SeqCst))
    }

    /// True if a session is available.
    pub fn has_available(&self) -> bool {
        self.index().has_available()
    }

    /// Locks a session until `deadline`, if it has no holder. It need not have messages (B-193).
    pub fn accept(&self, id: &str, owner: &str, deadline: Ticks) -> Option<Arc<AcceptedSession>> {
        let _intake = self.intake();
        let mut index = self.index();
        let accepted = index.accept(id, owner, deadline);
        self.note_deadline(&index);
        accepted
    }

    /// Extends the lock of a session.
    pub fn renew(&self, accepted: &Arc<AcceptedSession>, deadline: Ticks, ticks: Ticks) -> Result<(), SessionLost> {
        let mut index = self.index();
        index.renew(accepted, deadline, ticks)?;
        self.note_deadline(&index);
        Ok(())
    }

    /// The state of a session that the caller holds.
    pub fn state(&self, accepted: &Arc<AcceptedSession>, ticks: Ticks) -> Result<Option<SessionState>, SessionLost> {
        self.index().state(accepted, ticks)
    }

    /// Pins a session that the caller holds, for an atomic write. Its holder may leave, but no other receiver can
    /// accept the session before [`Cell::unpin`].
    pub fn pin(&self, accepted: &Arc<AcceptedSession>, ticks: Ticks) -> Result<(), SessionLost> {
        self.index().pin(accepted, ticks)
    }

    /// Sets the state of a pinned session. The journal has it already.
    pub(crate) fn set_pinned_state(&self, accepted: &AcceptedSession, state: Option<SessionState>) {
        self.index().set_pinned_state(accepted, state);
    }

    /// Notes that the holder of a session has locked a deferred message, which it fetched by number.
    pub fn lock(
        &self,
        accepted: &Arc<AcceptedSession>,
        message: &ClaimedMessage,
        ticks: Ticks,
    ) -> Result<(), SessionLost> {
        self.index().lock(accepted, message, ticks)
    }

    /// True if the holder of a session has locked the message.
    pub fn has_locked(&self, accepted: &Arc<AcceptedSession>, key: LockKey, ticks: Ticks) -> Result<bool, SessionLost> {
        self.index().has_locked(accepted, key, ticks)
    }

    /// Notes that the holder of a session no longer has these messages.
    pub fn unlock(&self, accepted: &AcceptedSession, keys: impl IntoIterator<Item = LockKey>) {
        let mut index = self.index();
        keys.into_iter().for_each(|key| index.unlock(accepted, key));
    }

    /// Makes a session wait for a message that was abandoned with a delay.
    pub(super) fn delay(&self, id: &str, counter: Counter) {
        self.index().delay(id, counter);
    }

    /// Ends the wait of a session for a delayed message. Returns 1 if it became available, else 0.
    pub(crate) fn end_delay(&self, id: &str, counter: Counter) -> usize {
        let mut wake_ups = SessionWakeUps::default();
        self.index().end_delay(id, counter, &mut wake_ups);
        for holder in wake_ups.holders {
            holder.wait_queue().notify_all();
        }
        wake_ups.available
    }

    /// True if the holder of a session waits for messages, or if another thread has locked the index. It does not wait
    /// for the index: a thread may hold that while it journals a session state, and the caller may hold the entity
    /// map, which a snapshot needs.
    pub fn has_waiters(&self) -> bool {
        let Some(index) = self.index.try_lock(&self.shard.health) else {
            return true;
        };
        let holders = index.holders();
        drop(index);
        holders.iter().any(|holder| holder.wait_queue().waiters() > 0)
    }

    /// Notifies the holders of all sessions.
    pub fn wake_holders(&self) {
        let holders = self.index().holders();
        for holder in holders {
            holder.wait_queue().notify_all();
        }
    }

    /// All session states.
    pub fn states(&self) -> Vec<(Arc<str>, SessionState)> {
        self.index().states()
    }

    /// All sessions that have messages, a state or a holder.
    pub fn list(&self) -> Vec<SessionInfo> {
        self.index().list()
    }

    /// Bytes of all session states.
    pub fn state_bytes(&self) -> usize {
        self.index().state_bytes()
    }

    /// Bytes in memory without the states.
    pub fn overhead_bytes(&self) -> usize {
        self.index().overhead_bytes()
    }
}
