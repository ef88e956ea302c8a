// SPDX-License-Identifier: Apache-2.0
//! The sessions of a cell by id: which messages are ready, who holds which session, and which is next.
//!
//! Invariants
//! - a message is in `ready` of its session, in the order of the numbers, or in `locked`, or not in the index;
//! - a session is in `available` if and only if it has ready messages, no earlier message is delayed, and it has neither
//!   a holder nor an end in progress;
//! - `deadlines` has one entry for each session that is held;
//! - a pinned session whose holder left keeps its messages, and no receiver can accept it, until the last pin is
//!   removed;
//! - a session without messages, state and holder is not in the index (B-186).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use oxbus_model::{Counter, Moment, Ticks, Timestamp};
use oxbus_store::{ClaimedMessage, LockKey};

use super::SessionEnd;
use super::session::{AcceptedSession, LockedMessage, SessionEntry, SessionState};

/// A session as management shows it.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    /// The session.
    pub id: Arc<str>,
    /// Messages that are ready, locked or delayed.
    pub messages: usize,
    /// Enqueued time of the oldest of those that are ready or locked.
    pub oldest: Option<Timestamp>,
    /// When its state was set, if it has one.
    pub state_set_at: Option<Timestamp>,
    /// Name of its holder.
    pub owner: Option<String>,
    /// First tick at which the lock no longer holds.
    pub deadline: Option<Ticks>,
}

/// The caller no longer holds the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLost;

/// What a caller looks for among the available sessions, and how far it got.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionSearch {
    /// The session has a message from the first number on and below the second.
    range: (Counter, Counter),
    /// The queue position at which the search continues.
    position: u64,
}

impl SessionSearch {
    /// Sessions with a message in a range.
    pub(crate) fn within(range: (Counter, Counter)) -> Self {
        Self { range, position: 0 }
    }

    /// All sessions.
    pub(crate) fn all() -> Self {
        Self::within((Counter::FIRST, Counter::MAX))
    }

    pub(crate) fn range(&self) -> (Counter, Counter) {
        self.range
    }
}

/// The sessions of a cell.
#[derive(Debug, Default)]
pub(crate) struct SessionIndex {
    sessions: HashMap<Arc<str>, SessionEntry>,
    /// Sessions that may be accepted, by queue position: the longest waiting comes first.
    available: BTreeMap<u64, Arc<str>>,
    next_queue_position: u64,
    deadlines: BTreeSet<(Ticks, Arc<str>)>,
}

/// The wake-ups to send after messages were moved into sessions.
#[derive(Debug, Default)]
pub(crate) struct SessionWakeUps {
    pub(crate) holders: Vec<Arc<AcceptedSession>>,
    /// Sessions that became available.
    pub(crate) available: usize,
}

impl SessionWakeUps {
    fn add_holder(&mut self, holder: &Arc<AcceptedSession>) {
        if !self.holders.iter().any(|known| Arc::ptr_eq(known, holder)) {
            self.holders.push(Arc::clone(holder));
        }
    }
}

impl SessionIndex {
    /// Sessions with the states that recovery found.
    pub(crate) fn restore(states: impl Iterator<Item = (Arc<str>, SessionState)>) -> Self {
        let session = |state| SessionEntry {
            state: Some(state),
            ..SessionEntry::default()
        };
        Self {
            sessions: states.map(|(id, state)| (id, session(state))).collect(),
            ..Self::default()
        }
    }

    /// Inserts a message into its session.
    pub(crate) fn insert(&mut self, id: &str, message: ClaimedMessage, wake_ups: &mut SessionWakeUps) {
        let session = match self.sessions.get_mut(id) {
            Some(session) => session,
            None => self.sessions.entry(id.into()).or_default(),
        };
        session.insert(message);
        if let Some(holder) = &session.holder {
            wake_ups.add_holder(holder);
            return;
        }
        wake_ups.available += usize::from(self.make_available(id));
    }

    /// Makes a session wait for a message that was abandoned with a delay: later messages are not received before.
    pub(crate) fn delay(&mut self, id: &str, counter: Counter) {
        let session = match self.sessions.get_mut(id) {
            Some(session) => session,
            None => self.sessions.entry(id.into()).or_default(),
        };
        session.delayed.insert(counter);
        if !session.has_next()
            && let Some(queue_position) = session.queue_position.take()
        {
            self.available.remove(&queue_position);
        }
    }

    /// Ends the wait of a session for a delayed message, which is in the session by now or no longer exists.
    pub(crate) fn end_delay(&mut self, id: &str, counter: Counter, wake_ups: &mut SessionWakeUps) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        session.delayed.remove(&counter);
        if let Some(holder) = &session.holder {
            wake_ups.add_holder(holder);
            return;
        }
        wake_ups.available += usize::from(self.make_available(id));
        self.remove_if_vacant(id);
    }

    /// Adds a session to `available` if it may be accepted. Returns true if it was added.
    fn make_available(&mut self, id: &str) -> bool {
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        let may_be_accepted = session.holder.is_none() && !session.is_ending && session.has_next();
        if !may_be_accepted || session.queue_position.is_some() {
            return false;
        }
        let queue_position = self.next_queue_position;
        self.next_queue_position += 1;
        session.queue_position = Some(queue_position);
        let id = self
            .sessions
            .get_key_value(id)
            .map(|(id, _)| Arc::clone(id))
            .expect("the session is in the index");
        self.available.insert(queue_position, id);
        true
    }

    /// True if a session may be accepted; its messages may have expired.
    pub(crate) fn has_available(&self) -> bool {
        !self.available.is_empty()
    }

    /// The earliest deadline of a session lock.
    pub(crate) fn next_deadline(&self) -> Ticks {
        self.deadlines.first().map_or(Ticks::NEVER, |(deadline, _)| *deadline)
    }

    /// Holders whose lock has expired.
    pub(crate) fn expired(&self, ticks: Ticks) -> Vec<Arc<AcceptedSession>> {
        let expired = self.deadlines.iter().take_while(|(deadline, _)| *deadline <= ticks);
        expired
            .filter_map(|(_, id)| self.sessions.get(id)?.holder.clone())
            .collect()
    }

    /// Locks a session until `deadline`; `None` if it has a holder.
    pub(crate) fn accept(&mut self, id: &str, owner: &str, deadline: Ticks) -> Option<Arc<AcceptedSession>> {
        if !self.sessions.contains_key(id) {
            self.sessions.insert(id.into(), SessionEntry::default());
        }
        let (id, _) = self.sessions.get_key_value(id)?;
        let id = Arc::clone(id);
        let session = self.sessions.get_mut(&id)?;
        if session.holder.is_some() || session.is_ending {
            return None;
        }
        if let Some(queue_position) = session.queue_position.take() {
            self.available.remove(&queue_position);
        }
        let accepted = Arc::new(AcceptedSession::new(Arc::clone(&id), owner.to_owned(), deadline));
        session.holder = Some(Arc::clone(&accepted));
        self.deadlines.insert((deadline, id));
        Some(accepted)
    }

    /// Locks the session that has waited longest, among those that the caller looks for. It has an unexpired message,
    /// maybe not among those. Expired messages go to `expired`.
    pub(crate) fn accept_next(
        &mut self,
        owner: &str,
        deadline: Ticks,
        now: Timestamp,
        search: &mut SessionSearch,
        expired: &mut Vec<ClaimedMessage>,
    ) -> Option<Arc<AcceptedSession>> {
        while let Some(position) = self.find_available(now, search) {
            search.position = position + 1;
            let id = self.available.remove(&position).expect("the position was just found");
            let session = self
                .sessions
                .get_mut(&id)
                .expect("an available session is in the index");
            session.queue_position = None;
            if session.all_expired(now) {
                expired.append(&mut session.take_expired(now, false));
                self.remove_if_vacant(&id);
                continue;
            }
            return self.accept(&id, owner, deadline);
        }
        None
    }

    /// The queue position of the first session to accept, or to remove because all its messages have expired.
    fn find_available(&self, now: Timestamp, search: &SessionSearch) -> Option<u64> {
        let mut rest = self.available.range(search.position..);
        let found = rest.find(|(_, id)| {
            let session = self.sessions.get(*id);
            session.is_some_and(|it| it.has_next_within(search.range) || it.all_expired(now))
        });
        found.map(|(position, _)| *position)
    }

    /// Removes ready messages that were claimed from the store, not from their sessions.
    pub(crate) fn withdraw(&mut self, keys: &HashSet<LockKey>) {
        for session in self.sessions.values_mut() {
            session.ready.retain(|message| !keys.contains(&message.key));
            if !session.has_next()
                && let Some(queue_position) = session.queue_position.take()
            {
                self.available.remove(&queue_position);
            }
        }
        self.sessions.retain(|_, session| !session.is_vacant());
    }

    /// Removes all ready messages of all sessions.
    pub(crate) fn take_ready(&mut self) -> Vec<LockKey> {
        self.available.clear();
        let mut keys = Vec::new();
        for session in self.sessions.values_mut() {
            session.queue_position = None;
            session.earliest_expiry = None;
            keys.extend(session.ready.drain(..).map(|message| message.key));
        }
        self.sessions.retain(|_, session| !session.is_vacant());
        keys
    }

    fn remove_if_vacant(&mut self, id: &str) {
        if self.sessions.get(id).is_some_and(SessionEntry::is_vacant) {
            self.sessions.remove(id);
        }
    }

    fn held_session(
        &mut self,
        accepted: &Arc<AcceptedSession>,
        ticks: Ticks,
    ) -> Result<&mut SessionEntry, SessionLost> {
        if !accepted.holds(ticks) {
            return Err(SessionLost);
        }
        self.sessions
            .get_mut(&accepted.id)
            .filter(|session| session.holder.as_ref().is_some_and(|it| Arc::ptr_eq(it, accepted)))
            .ok_or(SessionLost)
    }

    /// Removes and returns the first ready message. Expired messages go to `expired`.
    pub(crate) fn pop(
        &mut self,
        accepted: &Arc<AcceptedSession>,
        now: Timestamp,
        ticks: Ticks,
        whole: bool,
        expired: &mut Vec<ClaimedMessage>,
    ) -> Result<Option<ClaimedMessage>, SessionLost> {
        let session = self.held_session(accepted, ticks)?;
        expired.append(&mut session.take_expired(now, whole));
        Ok(if session.has_next() {
            session.ready.pop_front()
        } else {
            None
        })
    }

    /// Removes and returns the ready messages from `from` on and below `end`, in order, as long as `takes` accepts
    /// them and no delayed message comes before. Expired messages go to `expired`.
    pub(crate) fn take_run(
        &mut self,
        accepted: &Arc<AcceptedSession>,
        moment: Moment,
        (from, end): (Counter, Counter),
        mut takes: impl FnMut(&ClaimedMessage) -> bool,
        whole: bool,
        expired: &mut Vec<ClaimedMessage>,
    ) -> Result<Vec<ClaimedMessage>, SessionLost> {
        let session = self.held_session(accepted, moment.ticks)?;
        expired.append(&mut session.take_expired(moment.now, whole));
        let end = session.delayed.first().map_or(end, |delayed| end.min(*delayed));
        let first = session.ready.partition_point(|message| message.key.counter < from);
        let run = session.ready.iter().skip(first);
        let count = run.take_while(|it| it.key.counter < end && takes(it)).count();
        Ok(session.ready.drain(first..first + count).collect())
    }

    /// Notes that the holder of a session has locked a message.
    pub(crate) fn lock(
        &mut self,
        accepted: &Arc<AcceptedSession>,
        message: &ClaimedMessage,
        ticks: Ticks,
    ) -> Result<(), SessionLost> {
        let locked = LockedMessage {
            generation: message.key.generation,
            enqueued_at: message.enqueued_at,
        };
        self.held_session(accepted, ticks)?
            .locked
            .insert(message.key.counter, locked);
        Ok(())
    }

    /// True if the holder of a session has locked the message.
    pub(crate) fn has_locked(
        &mut self,
        accepted: &Arc<AcceptedSession>,
        key: LockKey,
        ticks: Ticks,
    ) -> Result<bool, SessionLost> {
        let locked = &self.held_session(accepted, ticks)?.locked;
        Ok(locked
            .get(&key.counter)
            .is_some_and(|it| it.generation == key.generation))
    }

    /// Notes that the holder of a session no longer has a message.
    pub(crate) fn unlock(&mut self, accepted: &AcceptedSession, key: LockKey) {
        if let Some(session) = self.sessions.get_mut(&accepted.id)
            && session
                .locked
                .get(&key.counter)
                .is_some_and(|it| it.generation == key.generation)
        {
            session.locked.remove(&key.counter);
        }
    }

    /// Extends the lock of a session.
    pub(crate) fn renew(
        &mut self,
        accepted: &Arc<AcceptedSession>,
        deadline: Ticks,
        ticks: Ticks,
    ) -> Result<(), SessionLost> {
        self.held_session(accepted, ticks)?;
        let before = accepted.deadline();
        self.deadlines.remove(&(before, Arc::clone(&accepted.id)));
        self.deadlines.insert((deadline, Arc::clone(&accepted.id)));
        accepted.set_deadline(deadline);
        Ok(())
    }

    /// Ends a session for its holder and returns its locks, which the caller gives back before
    /// [`SessionIndex::finish_end`]. `None` if it has ended already, or if it is pinned: then [`SessionIndex::unpin`]
    /// returns the locks.
    pub(crate) fn end(&mut self, accepted: &Arc<AcceptedSession>, end: SessionEnd) -> Option<Vec<LockKey>> {
        if !accepted.mark_over() {
            return None;
        }
        self.deadlines.remove(&(accepted.deadline(), Arc::clone(&accepted.id)));
        let session = self.sessions.get_mut(&accepted.id)?;
        session.holder = None;
        session.is_ending = true;
        if session.pins > 0 {
            session.pending_end = Some(end);
            return None;
        }
        Some(session.take_locked())
    }

    /// Pins a session that the caller holds: until the last pin is removed, no other receiver can accept it.
    pub(crate) fn pin(&mut self, accepted: &Arc<AcceptedSession>, ticks: Ticks) -> Result<(), SessionLost> {
        self.held_session(accepted, ticks)?.pins += 1;
        Ok(())
    }

    /// Removes a pin. If it was the last one and the holder has left, returns how the session ended, and the holder's
    /// locks.
    pub(crate) fn unpin(&mut self, accepted: &AcceptedSession) -> Option<(SessionEnd, Vec<LockKey>)> {
        let session = self.sessions.get_mut(&accepted.id)?;
        session.pins -= 1;
        if session.pins > 0 {
            return None;
        }
        let end = session.pending_end.take()?;
        Some((end, session.take_locked()))
    }

    /// Finishes the end of a session after its locks were given back. Returns true if it became available.
    pub(crate) fn finish_end(&mut self, accepted: &AcceptedSession) -> bool {
        if let Some(session) = self.sessions.get_mut(&accepted.id) {
            session.is_ending = false;
        }
        let is_new = self.make_available(&accepted.id);
        self.remove_if_vacant(&accepted.id);
        is_new
    }

    /// The state of a session that the caller holds.
    pub(crate) fn state(
        &mut self,
        accepted: &Arc<AcceptedSession>,
        ticks: Ticks,
    ) -> Result<Option<SessionState>, SessionLost> {
        Ok(self.held_session(accepted, ticks)?.state.clone())
    }

    /// Sets the state of a session that the caller holds.
    pub(crate) fn set_state(
        &mut self,
        accepted: &Arc<AcceptedSession>,
        state: Option<SessionState>,
        ticks: Ticks,
    ) -> Result<(), SessionLost> {
        self.held_session(accepted, ticks)?.state = state;
        Ok(())
    }

    /// Sets the state of a pinned session, even if its holder has left.
    pub(crate) fn set_pinned_state(&mut self, accepted: &AcceptedSession, state: Option<SessionState>) {
        if let Some(session) = self.sessions.get_mut(&accepted.id) {
            session.state = state;
        }
    }

    /// Holders of all sessions.
    pub(crate) fn holders(&self) -> Vec<Arc<AcceptedSession>> {
        self.sessions
            .values()
            .filter_map(|session| session.holder.clone())
            .collect()
    }

    /// All states.
    pub(crate) fn states(&self) -> Vec<(Arc<str>, SessionState)> {
        let with_state = |(id, session): (&Arc<str>, &SessionEntry)| Some((Arc::clone(id), session.state.clone()?));
        self.sessions.iter().filter_map(with_state).collect()
    }

    /// All sessions, for management.
    pub(crate) fn list(&self) -> Vec<SessionInfo> {
        let info = |(id, session): (&Arc<str>, &SessionEntry)| {
            let ready = session.ready.front().map(|message| message.enqueued_at);
            let locked = session.locked.values().next().map(|message| message.enqueued_at);
            SessionInfo {
                id: Arc::clone(id),
                messages: session.ready.len() + session.locked.len() + session.delayed.len(),
                oldest: ready.into_iter().chain(locked).min(),
                state_set_at: session.state.as_ref().map(|state| state.set_at),
                owner: session.holder.as_ref().map(|holder| holder.owner.clone()),
                deadline: session.holder.as_ref().map(|holder| holder.deadline()),
            }
        };
        self.sessions.iter().map(info).collect()
    }

    /// Bytes of all states.
    pub(crate) fn state_bytes(&self) -> usize {
        let states = self.sessions.values().filter_map(|session| session.state.as_ref());
        states.map(|state| state.bytes.len()).sum()
    }

    /// Bytes in memory without the states.
    pub(crate) fn overhead_bytes(&self) -> usize {
        let sessions = self.sessions.iter().map(|(id, session)| {
            id.len() + size_of::<SessionEntry>() + session.ready.capacity() * size_of::<ClaimedMessage>()
        });
        sessions.sum::<usize>() + self.available.len() * size_of::<(u64, Arc<str>)>()
    }
}
