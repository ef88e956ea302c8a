// SPDX-License-Identifier: Apache-2.0
//! Locks sessions and their messages for reservations.
//!
//! A reservation holds its sessions as a receiver does, under a lock without a deadline: the reservation has one. Its
//! messages are locked like those of any reservation, and are not in the index of sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxbus_model::message::Fields;
use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Moment, Result, Ticks, Timestamp};
use oxbus_store::{ClaimedMessage, Wait};

use crate::shard::{
    AcceptedSession, Cell, DeliveryPolicy, RESERVATION_LOCK, ReadyCounts, ReservedMessage, SessionSearch,
};

/// Messages of a cell and their sessions, locked for a reservation.
#[derive(Debug, Default)]
pub(crate) struct ReservedSessions {
    pub(crate) sessions: Vec<Arc<AcceptedSession>>,
    pub(crate) messages: Vec<ReservedMessage>,
    pub(crate) ended: ReadyCounts,
}

impl Cell {
    /// Locks the session that has waited longest, and its next messages in the range of `search`, as long as `takes`
    /// accepts them. There may be none. Returns `None` if no session with such messages is available.
    pub(crate) fn reserve_next_session(
        &self,
        owner: &str,
        search: &mut SessionSearch,
        (moment, policy): (Moment, DeliveryPolicy),
        takes: impl FnMut(&ClaimedMessage) -> bool,
        wait: &Wait<'_>,
    ) -> (Option<ReservedSessions>, ReadyCounts) {
        let (accepted, mut ended) = self.accept_next(owner, Ticks::NEVER, moment.now, policy, search, wait);
        let (Some(accepted), Some(sessions)) = (accepted, self.sessions()) else {
            return (None, ended);
        };
        let mut expired = Vec::new();
        let whole = policy.sessions_expire_whole;
        let run = sessions
            .index()
            .take_run(&accepted, moment, search.range(), takes, whole, &mut expired);
        ended.dead_letters += self.dispose_expired(expired, policy, wait);
        let locked = run.into_iter().flatten().filter_map(|mut message| {
            // A purge may have removed it.
            message.key = self
                .store(SubQueue::Main)
                .deliver_cached(message.key, RESERVATION_LOCK)?;
            Some(ReservedMessage::from(&message))
        });
        let reserved = ReservedSessions {
            messages: locked.collect(),
            sessions: vec![accepted],
            ended: ReadyCounts::default(),
        };
        (Some(reserved), ended)
    }

    /// Locks those of the given messages that no one holds, and their sessions. Messages of sessions that others hold
    /// are left out, and those that expired before `expired_at` are removed. Sessions in `own` are the
    /// caller's already. Fails if the messages cannot be read.
    pub(crate) fn reserve_with_sessions(
        &self,
        (counters, expired_at): (&[Counter], Timestamp),
        (owner, own): (&str, &[Arc<AcceptedSession>]),
        (moment, policy): (Moment, DeliveryPolicy),
        wait: &Wait<'_>,
    ) -> Result<ReservedSessions> {
        let Some(sessions) = self.sessions() else {
            return Ok(ReservedSessions::default());
        };
        let _intake = sessions.intake();
        let in_sessions = sessions.index().take_ready();
        self.store(SubQueue::Main).release_cached(&in_sessions);
        let mut claims = Vec::with_capacity(counters.len());
        let dead_lettered = self.claim_these_or_expire(
            SubQueue::Main,
            counters,
            RESERVATION_LOCK,
            (expired_at, policy.dead_letter_expired),
            &mut claims,
            wait,
        );
        let mut reserved = self.reserve_sessions_of(&claims, (owner, own), moment.ticks);
        if !in_sessions.is_empty() {
            let filled = self.fill_sessions_locked(sessions, moment.now, policy, wait);
            if let Ok(reserved) = &mut reserved {
                reserved.ended = filled;
            }
        }
        if let Ok(reserved) = &mut reserved {
            reserved.ended.dead_letters += dead_lettered;
        }
        reserved
    }

    /// Locks the sessions of locked messages, and releases the messages whose session another receiver holds.
    fn reserve_sessions_of(
        &self,
        claims: &[ClaimedMessage],
        (owner, own): (&str, &[Arc<AcceptedSession>]),
        ticks: Ticks,
    ) -> Result<ReservedSessions> {
        let mut reserved = ReservedSessions::default();
        let records: Result<Vec<_>> = claims.iter().map(|claimed| self.load(&claimed.record)).collect();
        let Some(sessions) = self.sessions() else {
            return Ok(reserved);
        };
        let records = records.inspect_err(|_| {
            let locked: Vec<ReservedMessage> = claims.iter().map(ReservedMessage::from).collect();
            self.release_all(SubQueue::Main, locked.iter(), ticks);
        })?;
        let mut held: BTreeMap<&str, bool> = BTreeMap::new();
        let mut unheld = Vec::new();
        let mut index = sessions.index();
        for (claimed, record) in claims.iter().zip(&records) {
            let id = Fields::decode(record).ok().and_then(|fields| fields.session_id);
            let is_held = id.is_some_and(|id| {
                *held.entry(id).or_insert_with(|| {
                    let accepted = index.accept(id, owner, Ticks::NEVER);
                    reserved.sessions.extend(accepted.clone());
                    accepted.is_some() || own.iter().any(|session| session.id() == id)
                })
            });
            let locked = ReservedMessage::from(claimed);
            if is_held {
                reserved.messages.push(locked);
            } else {
                unheld.push(locked);
            }
        }
        sessions.note_deadline(&index);
        drop(index);
        self.release_all(SubQueue::Main, unheld.iter(), ticks);
        Ok(reserved)
    }
}
