// SPDX-License-Identifier: Apache-2.0
//! The sessions of a cell (B-181 … B-217): its ready messages by session, and who holds which.
//!
//! Messages of a session entity are stored like any others. As soon as they are ready they are taken out of the store's own
//! order, put aside there without a charge, and sorted into their sessions; a receiver takes them from its session. What
//! comes back becomes ready in the store and is sorted in again. So schedules, deferral, expiry, browsing, the journal and
//! the dead-letter queue know nothing of sessions.
//!
//! A message that goes to the holder of a session is locked without an end of its own: the session's lock is the umbrella (B-200).
//!
//! Holds always
//! - who sorts messages in, or takes a session from its holder, has `intake`; so messages come in the order of their numbers,
//!   and nobody accepts a session while its messages are on their way back;
//! - order of the mutexes: `intake`, `index`, the journal's order.

mod session;
mod session_index;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_model::{Moment, Ticks};
use oxbus_store::{ClaimMode, ClaimedMessage, LockKey};

pub use self::session::{AcceptedSession, SessionState};
use self::session_index::SessionIndex;
pub(crate) use self::session_index::SessionWakeUps;
pub use self::session_index::{SessionInfo, SessionLost};
use super::Shard;
use super::guarded::{Guarded, StateGuard};

/// The sessions of one cell.
#[derive(Debug)]
pub struct Sessions {
    shard: Arc<Shard>,
    intake: Guarded<()>,
    index: Guarded<SessionIndex>,
    /// The earliest end of a lock; moves under the mutex of the index.
    next_deadline: AtomicU64,
}

/// How a session is taken from its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// It was closed: nothing is charged (B-205).
    Closed,
    /// Its lock is over: a delivery is charged (B-206).
    Expired,
}

/// How messages are taken from a session.
#[derive(Debug, Clone, Copy)]
pub struct SessionReceive {
    /// How many at most.
    pub max: usize,
    /// Locked without an end of its own, or taken.
    pub hold: ClaimMode,
    /// When.
    pub moment: Moment,
}

impl Sessions {
    /// The sessions of a cell of that shard, with the states that recovery found.
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

    /// The earliest end of a lock.
    pub fn next_deadline(&self) -> Ticks {
        Ticks(self.next_deadline.load(Ordering::SeqCst))
    }

    /// True when a session may be accepted.
    pub fn has_available(&self) -> bool {
        self.index().has_available()
    }

    /// Locks a session until `deadline`, if nobody holds it. It need not have messages (B-193).
    pub fn accept(&self, id: &str, owner: &str, deadline: Ticks) -> Option<Arc<AcceptedSession>> {
        let _intake = self.intake();
        let mut index = self.index();
        let accepted = index.accept(id, owner, deadline);
        self.note_deadline(&index);
        accepted
    }

    /// Moves the end of the lock of a session.
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

    /// Notes that a unit of work is under way in a session that the caller holds. Its holder may leave meanwhile, but nobody
    /// else gets the session before [`Cell::unpin`].
    pub fn pin(&self, accepted: &Arc<AcceptedSession>, ticks: Ticks) -> Result<(), SessionLost> {
        self.index().pin(accepted, ticks)
    }

    /// Sets the state of a session in which a unit of work is under way. The journal was told.
    pub(crate) fn set_pinned_state(&self, accepted: &AcceptedSession, state: Option<SessionState>) {
        self.index().set_pinned_state(accepted, state);
    }

    /// Notes that the holder of a session has a message: a deferred one, which was fetched by number.
    pub fn lock(
        &self,
        accepted: &Arc<AcceptedSession>,
        message: &ClaimedMessage,
        ticks: Ticks,
    ) -> Result<(), SessionLost> {
        self.index().lock(accepted, message, ticks)
    }

    /// True when the holder of a session has a message.
    pub fn has_locked(&self, accepted: &Arc<AcceptedSession>, key: LockKey, ticks: Ticks) -> Result<bool, SessionLost> {
        self.index().has_locked(accepted, key, ticks)
    }

    /// Notes that the holder of a session has messages no more.
    pub fn unlock(&self, accepted: &AcceptedSession, keys: impl IntoIterator<Item = LockKey>) {
        let mut index = self.index();
        keys.into_iter().for_each(|key| index.unlock(accepted, key));
    }

    /// True when the holder of a session waits for messages of it, or somebody is in the index now. Waits for nobody: who
    /// writes a state down holds the index, and who asks may hold the queue map, which a snapshot reads.
    pub fn has_waiters(&self) -> bool {
        let Some(index) = self.index.try_lock(&self.shard.health) else {
            return true;
        };
        let holders = index.holders();
        drop(index);
        holders.iter().any(|holder| holder.wait_queue().waiters() > 0)
    }

    /// Lets everybody who holds a session look again.
    pub fn wake_holders(&self) {
        let holders = self.index().holders();
        for holder in holders {
            holder.wait_queue().notify_all();
        }
    }

    /// All states.
    pub fn states(&self) -> Vec<(Arc<str>, SessionState)> {
        self.index().states()
    }

    /// All sessions that have messages, a state or a holder.
    pub fn list(&self) -> Vec<SessionInfo> {
        self.index().list()
    }

    /// Bytes of all states.
    pub fn state_bytes(&self) -> usize {
        self.index().state_bytes()
    }

    /// Bytes it takes beyond the states.
    pub fn overhead_bytes(&self) -> usize {
        self.index().overhead_bytes()
    }
}
