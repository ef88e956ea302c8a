// SPDX-License-Identifier: Apache-2.0
//! The sessions of a reservation and their states.
//!
//! A state changes only together with the settlement of a message of its session, in one step. So a program that repeats
//! a batch after a failure does not apply the batch to the state twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use oxbus_model::message::Fields;
use oxbus_model::{Effect, Error, ErrorKind, Result};
use oxbus_store::suspended::run_now;
use oxbus_store::{PeekedMessage, Wait};

use super::Reservations;
use crate::client::commit::commit;
use crate::client::session::ReceiverSession;
use crate::client::settlement::{SettleKey, Settlement};
use crate::client::transaction::{SessionStateChange, TransactionSettlement, TransactionWork};
use crate::entity::Entity;
use crate::shard::{AcceptedSession, ReservedMessage};

/// A session that a reservation holds.
#[derive(Debug, Clone)]
pub struct ReservedSession {
    /// Its id.
    pub id: Arc<str>,
    /// Its state, if it has one.
    pub state: Option<Arc<[u8]>>,
}

/// Some of the sessions that a reservation holds in a partition.
#[derive(Debug, Clone)]
pub struct SessionPage {
    /// The sessions, by id.
    pub sessions: Vec<ReservedSession>,
    /// True if there are more after the last one.
    pub has_more: bool,
}

/// New states of sessions, by the sequence number of a message of the session. `None` clears the state.
pub type SessionStates = BTreeMap<u64, Option<Vec<u8>>>;

impl Reservations {
    /// The sessions that a reservation holds in a partition, in the order of their ids, after the one with the id
    /// `after`. The page ends once its states have `bytes_max` bytes.
    pub fn sessions(
        &self,
        (id, epoch): (&str, u64),
        partition: u16,
        after: Option<&str>,
        bytes_max: usize,
        wait: &Wait<'_>,
    ) -> Result<SessionPage> {
        self.check_reserves()?;
        self.check_has_sessions()?;
        let moment = self.entity().core().clock().moment();
        self.entity().tick(moment, wait);
        let index = usize::from(partition);
        let mut accepted = self.entity().reserved_sessions(self.sub_queue(), (id, epoch), index)?;
        accepted.sort_unstable_by(|a, b| a.id().cmp(b.id()));
        let states = self.entity().cell(index).and_then(|cell| cell.sessions());
        let mut page = SessionPage {
            sessions: Vec::new(),
            has_more: false,
        };
        let mut bytes = 0;
        for session in accepted.iter().filter(|it| after.is_none_or(|after| it.id() > after)) {
            if bytes >= bytes_max {
                page.has_more = true;
                break;
            }
            let state = states.and_then(|states| states.state(session, moment.ticks).ok().flatten());
            let state = state.map(|state| state.bytes);
            bytes += session.id().len() + state.as_ref().map_or(0, |state| state.len());
            page.sessions.push(ReservedSession {
                id: session.id().into(),
                state,
            });
        }
        Ok(page)
    }

    /// [`Reservations::settle`] with new states of sessions. The state of a session and the settlement of its messages
    /// take effect together. A state whose message the reservation does not have any more is left out; of several for
    /// one session, that of the last message counts.
    pub fn settle_with_states(
        &self,
        id: &str,
        epoch: u64,
        (numbers, states): (&[u64], &SessionStates),
        settlement: Settlement<'_>,
        wait: &Wait<'_>,
    ) -> Result<u64> {
        self.check_alive()?;
        self.check_has_sessions()?;
        let settled: BTreeSet<u64> = numbers.iter().copied().collect();
        if let Some(number) = states.keys().find(|number| !settled.contains(number)) {
            let detail = format!(
                "a session state is set together with a message that the call settles; add its number: sequence_number={number}"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        self.entity().settle_reserved(
            self.sub_queue(),
            (id, epoch),
            numbers,
            |locked| {
                let (mut unsettled, mut failed) = (Vec::new(), None);
                let mut at = 0;
                for run in locked.chunk_by(|a, b| a.0 == b.0) {
                    if let Err(error) = self.settle_cell((id, epoch), run, states, settlement, wait) {
                        unsettled.extend(at..at + run.len());
                        failed = failed.or(Some(error));
                    }
                    at += run.len();
                }
                if matches!(settlement, Settlement::Abandon(_)) {
                    self.note_abandoned(locked, &unsettled, wait)?;
                }
                let is_partial = !unsettled.is_empty() && unsettled.len() < locked.len();
                let failed = failed.map(|error: Error| match error.effect() {
                    Some(Effect::None) | None if is_partial => error.with_effect(Effect::Partial),
                    _ => error,
                });
                Ok((unsettled, failed))
            },
            wait,
        )
    }

    /// Settles messages of one cell and sets the states of their sessions, all or nothing.
    fn settle_cell(
        &self,
        reservation: (&str, u64),
        run: &[(usize, ReservedMessage)],
        states: &SessionStates,
        settlement: Settlement<'_>,
        wait: &Wait<'_>,
    ) -> Result<()> {
        let index = run[0].0;
        let shard = self.entity().shard(index);
        let clock = self.entity().core().clock();
        let mut work = TransactionWork::new(self.entity(), shard.id(), clock.ticks());
        let held = self.entity().reserved_sessions(self.sub_queue(), reservation, index)?;
        let held: HashMap<&str, &Arc<AcceptedSession>> = held.iter().map(|it| (it.id(), it)).collect();
        // By session, that of its last message: the messages are in the order of their numbers.
        let mut changes: BTreeMap<String, (Arc<AcceptedSession>, Option<&[u8]>)> = BTreeMap::new();
        for (_, reserved) in run {
            let at = SettleKey {
                index,
                key: reserved.key,
            };
            if let Some(state) = states.get(&Entity::sequence_number(index, reserved.key.counter).0) {
                let session = self.session_of(at, &held)?;
                changes.insert(session.id().to_owned(), (session, state.as_deref()));
            }
            work.settled.push(TransactionSettlement {
                entity: Arc::clone(self.entity()),
                sub_queue: self.sub_queue(),
                at,
                settle: self.receiver.prepare(at, settlement, wait)?,
                session: None,
            });
        }
        for (accepted, state) in changes.into_values() {
            let session = ReceiverSession { index, accepted };
            let state = self.receiver.new_state(&session, state, wait)?;
            work.states.push(SessionStateChange {
                entity: Arc::clone(self.entity()),
                index,
                accepted: session.accepted,
                state,
            });
        }
        run_now(commit(work, None, wait))
    }

    /// The session of a message, among those that the reservation holds.
    fn session_of(&self, at: SettleKey, held: &HashMap<&str, &Arc<AcceptedSession>>) -> Result<Arc<AcceptedSession>> {
        let lost = || self.receiver.lock_lost(at);
        let cell = self.entity().cell(at.index).ok_or_else(lost)?;
        let mut peeked: Vec<PeekedMessage> = Vec::new();
        cell.store(self.sub_queue()).peek(at.key.counter, 1, &mut peeked);
        let message = peeked
            .pop()
            .filter(|it| it.counter == at.key.counter)
            .ok_or_else(lost)?;
        let record = cell.load(&message.record)?;
        let id = Fields::decode(&record).ok().and_then(|fields| fields.session_id);
        let session = id.and_then(|id| held.get(id));
        session.map(|session| Arc::clone(session)).ok_or_else(lost)
    }

    fn check_has_sessions(&self) -> Result<()> {
        if self.has_sessions() {
            return Ok(());
        }
        Err(self.entity().no_sessions_error())
    }
}
