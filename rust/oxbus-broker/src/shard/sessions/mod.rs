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

mod index;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use oxbus_model::message::Fields;
use oxbus_model::name::SubQueue;
use oxbus_model::{Error, Moment, Ticks, Timestamp};
use oxbus_store::shard_log::Room;
use oxbus_store::{Claimed, Hold, LockKey, MessageStore, Outcome, Removed};

pub use self::index::{Accepted, SessionInfo, SessionLost, State};
use self::index::{Index, News};
use super::journal::{Event, Pending};
use super::settle::Burial;
use super::{Cell, Deed, Ended, Rules};

/// Messages sorted in at once.
const SORT_RUN: usize = 64;

/// The sessions of one cell.
#[derive(Debug)]
pub struct Sessions {
    intake: Mutex<()>,
    index: Mutex<Index>,
    /// The earliest end of a lock; moves under the mutex of the index.
    next_deadline: AtomicU64,
}

impl Default for Sessions {
    fn default() -> Self {
        Self::restore(std::iter::empty())
    }
}

/// How a session is taken from its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// It was closed: nothing is charged (B-205).
    Closed,
    /// Its lock is over: a delivery is charged (B-206).
    Lapsed,
}

/// Why a call on a session did not work.
#[derive(Debug)]
pub enum SessionError {
    /// The session is not the caller's any more.
    Lost,
    /// The journal did not take it.
    Store(Error),
}

impl From<SessionLost> for SessionError {
    fn from(_: SessionLost) -> Self {
        Self::Lost
    }
}

/// How messages are taken from a session.
#[derive(Debug, Clone, Copy)]
pub struct Take {
    /// How many at most.
    pub max: usize,
    /// Locked without an end of its own, or taken.
    pub hold: Hold,
    /// When.
    pub moment: Moment,
}

impl Sessions {
    /// The sessions with the states that recovery found.
    pub fn restore(states: impl Iterator<Item = (Arc<str>, State)>) -> Self {
        Self {
            intake: Mutex::default(),
            index: Mutex::new(Index::restore(states)),
            next_deadline: AtomicU64::new(Ticks::NEVER.0),
        }
    }

    fn intake(&self) -> MutexGuard<'_, ()> {
        self.intake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_deadline(&self, index: &Index) {
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
    pub fn accept(&self, id: &str, owner: &str, deadline: Ticks) -> Option<Arc<Accepted>> {
        let _intake = self.intake();
        let mut index = self.index();
        let accepted = index.accept(id, owner, deadline);
        self.note_deadline(&index);
        accepted
    }

    /// Moves the end of the lock of a session.
    pub fn renew(&self, accepted: &Arc<Accepted>, deadline: Ticks, ticks: Ticks) -> Result<(), SessionLost> {
        let mut index = self.index();
        index.renew(accepted, deadline, ticks)?;
        self.note_deadline(&index);
        Ok(())
    }

    /// The state of a session that the caller holds.
    pub fn state(&self, accepted: &Arc<Accepted>, ticks: Ticks) -> Result<Option<State>, SessionLost> {
        self.index().state(accepted, ticks)
    }

    /// Notes that a unit of work is under way in a session that the caller holds. Its holder may leave meanwhile, but nobody
    /// else gets the session before [`Cell::leave_unit`].
    pub fn enter_unit(&self, accepted: &Arc<Accepted>, ticks: Ticks) -> Result<(), SessionLost> {
        self.index().enter_unit(accepted, ticks)
    }

    /// Sets the state of a session in which a unit of work is under way. The journal was told.
    pub(super) fn set_state_of_unit(&self, accepted: &Accepted, state: Option<State>) {
        self.index().set_state_of_unit(accepted, state);
    }

    /// Notes that the holder of a session has a message: a deferred one, which was fetched by number.
    pub fn lock(&self, accepted: &Arc<Accepted>, message: &Claimed, ticks: Ticks) -> Result<(), SessionLost> {
        self.index().lock(accepted, message, ticks)
    }

    /// True when the holder of a session has a message.
    pub fn has_locked(&self, accepted: &Arc<Accepted>, key: LockKey, ticks: Ticks) -> Result<bool, SessionLost> {
        self.index().has_locked(accepted, key, ticks)
    }

    /// Notes that the holder of a session has messages no more.
    pub fn unlock(&self, accepted: &Accepted, keys: impl IntoIterator<Item = LockKey>) {
        let mut index = self.index();
        keys.into_iter().for_each(|key| index.unlock(accepted, key));
    }

    /// True when the holder of a session waits for messages of it, or somebody is in the index now. Waits for nobody: who
    /// writes a state down holds the index, and who asks may hold the queue map, which a snapshot reads.
    pub fn has_waiters(&self) -> bool {
        let holders = match self.index.try_lock() {
            Ok(index) => index.holders(),
            Err(TryLockError::Poisoned(index)) => index.into_inner().holders(),
            Err(TryLockError::WouldBlock) => return true,
        };
        holders.iter().any(|holder| holder.doorbell().waiters() > 0)
    }

    /// Lets everybody who holds a session look again.
    pub fn wake_holders(&self) {
        let holders = self.index().holders();
        for holder in holders {
            holder.doorbell().ring_all();
        }
    }

    /// All states.
    pub fn states(&self) -> Vec<(Arc<str>, State)> {
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

impl Cell {
    /// Its sessions, when its entity requires them.
    #[inline]
    pub fn sessions(&self) -> Option<&Sessions> {
        self.sessions.as_ref()
    }

    /// Sorts what became ready into its sessions and tells their holders.
    pub fn sort_sessions(&self, now: Timestamp, rules: Rules) -> Ended {
        let Some(sessions) = &self.sessions else {
            return Ended::default();
        };
        let _intake = sessions.intake();
        self.sort_in(sessions, now, rules)
    }

    /// Puts what is ready in all sessions back into the store's own order: it is not received by session any more.
    pub fn unsort_sessions(&self) {
        let Some(sessions) = &self.sessions else { return };
        let _intake = sessions.intake();
        let keys = sessions.index().take_ready();
        self.main.release_cached(&keys);
    }

    /// The same for who has `intake`.
    fn sort_in(&self, sessions: &Sessions, now: Timestamp, rules: Rules) -> Ended {
        let mut ended = Ended::default();
        let mut claims = Vec::new();
        loop {
            let (taken, buried) = self.claim(
                SubQueue::Main,
                SORT_RUN,
                Hold::Cache,
                now,
                rules.bury_expired,
                &mut claims,
            );
            ended.dead_letters += buried;
            if taken == 0 {
                return ended;
            }
            // Read before the index is locked: they may be on disk.
            let read = |claimed: &Claimed| self.load(&claimed.record);
            let Ok(records) = claims.iter().map(read).collect::<Result<Vec<_>, _>>() else {
                // The shard is out of service. They are sorted in when it is healed.
                let keys: Vec<LockKey> = claims.iter().map(|claimed| claimed.key).collect();
                self.main.release_cached(&keys);
                return ended;
            };
            let mut news = News::default();
            let mut without = Vec::new();
            let mut index = sessions.index();
            for (claimed, record) in claims.drain(..).zip(&records) {
                match Fields::decode(record).ok().and_then(|fields| fields.session_id) {
                    Some(id) => index.insert(id, claimed, &mut news),
                    None => without.push(claimed),
                }
            }
            drop(index);
            ended.sessions += news.available;
            for holder in news.holders {
                // All: a receiver may be used by several threads, and who is rung does not know of the other messages.
                holder.doorbell().ring_all();
            }
            ended.dead_letters += self.bury(self.take_out(without), Burial::SessionIdNull);
        }
    }

    /// Takes ready messages out of their sessions, for who has taken hold of them.
    pub(crate) fn withdraw_from_sessions(&self, keys: impl Iterator<Item = LockKey>) {
        if let Some(sessions) = &self.sessions {
            sessions.index().withdraw(&keys.collect());
        }
    }

    /// Takes messages that are put aside out of the store.
    fn take_out(&self, messages: Vec<Claimed>) -> Vec<Removed> {
        let take_out = |message: Claimed| {
            self.main.hand_out(message.key, Hold::Take)?;
            Some(Removed {
                counter: message.key.counter,
                record: message.record,
                delivery_count: message.delivery_count,
                enqueued_at: message.enqueued_at,
                expires_at: message.expires_at,
            })
        };
        messages.into_iter().filter_map(take_out).collect()
    }

    /// Drops messages whose time is over, or buries them. Returns how many were buried.
    pub(crate) fn dispose(&self, expired: Vec<Claimed>, rules: Rules) -> usize {
        if expired.is_empty() {
            return 0;
        }
        let expired = self.take_out(expired);
        if rules.bury_expired {
            return self.bury(expired, Burial::Expired);
        }
        // Not waited for: if it is lost, the messages expire again.
        let _ = self.note_removed(SubQueue::Main, expired.iter().map(|message| message.counter));
        0
    }

    /// Locks the session that waits longest.
    pub fn accept_next(
        &self,
        owner: &str,
        deadline: Ticks,
        now: Timestamp,
        rules: Rules,
    ) -> (Option<Arc<Accepted>>, Ended) {
        let Some(sessions) = &self.sessions else {
            return (None, Ended::default());
        };
        let mut expired = Vec::new();
        let mut index = sessions.index();
        let accepted = index.accept_next(owner, deadline, now, &mut expired);
        sessions.note_deadline(&index);
        drop(index);
        let ended = Ended {
            dead_letters: self.dispose(expired, rules),
            ..Ended::default()
        };
        (accepted, ended)
    }

    /// Takes ready messages of a session that the caller holds, in order.
    pub fn take_from_session(
        &self,
        accepted: &Arc<Accepted>,
        take: Take,
        rules: Rules,
        out: &mut Vec<Claimed>,
    ) -> Result<Ended, SessionLost> {
        let sessions = self.sessions.as_ref().ok_or(SessionLost)?;
        let Moment { now, ticks } = take.moment;
        let mut expired = Vec::new();
        let mut index = sessions.index();
        while out.len() < take.max {
            let whole = rules.sessions_expire_whole;
            let Some(mut message) = index.pop(accepted, now, ticks, whole, &mut expired)? else {
                break;
            };
            // Gone when somebody purged it.
            let Some(key) = self.main.hand_out(message.key, take.hold) else {
                continue;
            };
            message.key = key;
            message.deadline = Ticks::OPEN_END;
            // What is on its way out for good is the session's no more.
            if matches!(take.hold, Hold::Lock { deadline } if deadline < Ticks::NEVER) {
                index.lock(accepted, &message, ticks)?;
            }
            out.push(message);
        }
        drop(index);
        Ok(Ended {
            dead_letters: self.dispose(expired, rules),
            ..Ended::default()
        })
    }

    /// Takes a session from its holder. Its messages go back. What is closed after its lock has lapsed has lapsed.
    pub fn end_session(&self, accepted: &Arc<Accepted>, end: SessionEnd, moment: Moment, rules: Rules) -> Ended {
        let Some(sessions) = &self.sessions else {
            return Ended::default();
        };
        let _intake = sessions.intake();
        let mut index = sessions.index();
        let has_lapsed = end == SessionEnd::Lapsed || accepted.deadline() <= moment.ticks;
        let end = if has_lapsed { SessionEnd::Lapsed } else { end };
        let keys = index.end(accepted, end);
        sessions.note_deadline(&index);
        drop(index);
        accepted.doorbell().ring_all();
        keys.map_or_else(Ended::default, |keys| {
            self.put_back(sessions, accepted, end, keys, moment, rules)
        })
    }

    /// Notes the end of a unit of work in a session. What its holder had goes back if he left meanwhile.
    pub fn leave_unit(&self, accepted: &Arc<Accepted>, moment: Moment, rules: Rules) -> Ended {
        let Some(sessions) = &self.sessions else {
            return Ended::default();
        };
        let _intake = sessions.intake();
        let left = sessions.index().leave_unit(accepted);
        left.map_or_else(Ended::default, |(end, keys)| {
            self.put_back(sessions, accepted, end, keys, moment, rules)
        })
    }

    /// Gives back what the holder of a session had, for who has `intake`.
    fn put_back(
        &self,
        sessions: &Sessions,
        accepted: &Accepted,
        end: SessionEnd,
        keys: Vec<LockKey>,
        moment: Moment,
        rules: Rules,
    ) -> Ended {
        let mut ended = Ended::default();
        for key in keys {
            let outcome = match end {
                SessionEnd::Lapsed => Outcome::Abandon {
                    max_delivery_count: rules.max_delivery_count,
                    replacement: None,
                },
                SessionEnd::Closed => Outcome::Release,
            };
            // Not waited for: if it is lost, the delivery counts as one that ended with the process.
            if let Ok((one, _)) = self.settle(SubQueue::Main, key, outcome, moment.ticks) {
                ended.dead_letters += one.dead_letters;
            }
        }
        let sorted = self.sort_in(sessions, moment.now, rules);
        ended.dead_letters += sorted.dead_letters;
        ended.sessions = sorted.sessions + usize::from(sessions.index().ended(accepted));
        ended
    }

    /// Ends the sessions whose locks are over.
    pub(super) fn end_lapsed(&self, moment: Moment, rules: Rules) -> Ended {
        let mut ended = Ended::default();
        let Some(sessions) = &self.sessions else { return ended };
        if sessions.next_deadline() > moment.ticks {
            return ended;
        }
        let lapsed = sessions.index().lapsed(moment.ticks);
        for accepted in lapsed {
            let one = self.end_session(&accepted, SessionEnd::Lapsed, moment, rules);
            ended.dead_letters += one.dead_letters;
            ended.sessions += one.sessions;
        }
        ended
    }

    /// Sets the state of a session that the caller holds, or clears it. Returns what to wait for.
    pub fn set_session_state(
        &self,
        accepted: &Arc<Accepted>,
        state: Option<State>,
        moment: Moment,
    ) -> Result<Option<Pending>, SessionError> {
        let sessions = self.sessions.as_ref().ok_or(SessionError::Lost)?;
        // Under the index's mutex: a snapshot that knows the event finds the state.
        let mut index = sessions.index();
        index.state(accepted, moment.ticks)?;
        let mut pending = None;
        if let Some(journal) = self.shard.journal() {
            let mut entry = Vec::new();
            let event = Event::SessionState {
                id: accepted.id(),
                set_at: moment.now,
                state: state.as_ref().map(|state| &*state.bytes),
            };
            event.encode(self.entity, &mut entry);
            let room = if state.is_some() { Room::Adds } else { Room::Frees };
            let order = journal.order_for(room, entry.len());
            let appended = order.and_then(|order| order.append(room, &entry));
            pending = Some(appended.map_err(|error| SessionError::Store(self.shard.refuse(&error, Deed::Send)))?);
        }
        index.set_state(accepted, state, moment.ticks)?;
        Ok(pending)
    }
}
