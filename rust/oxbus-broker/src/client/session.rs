// SPDX-License-Identifier: Apache-2.0
//! Receives from an accepted session (B-200 … B-217).

use std::sync::Arc;

use oxbus_log::event;
use oxbus_model::message::Fields;
use oxbus_model::options::{ReceiveMode, in_range};
use oxbus_model::{Effect, Error, ErrorKind, Moment, Result, Ticks, Timestamp};
use oxbus_store::suspended::run_now;
use oxbus_store::{ClaimMode, Record, Wait};

use super::receiver::{Deliveries, Delivery, Receiver};
use super::settlement::SettleKey;
use crate::shard::{AcceptedSession, Cell, SessionEnd, SessionLost, SessionReceive, SessionState, Sessions};
use crate::write::{ShardWrite, WriteOperation};

/// The session that a receiver has accepted.
pub(crate) struct ReceiverSession {
    /// Index of its cell.
    pub(crate) index: usize,
    pub(crate) accepted: Arc<AcceptedSession>,
}

impl Receiver {
    fn sessions_of(&self, session: &ReceiverSession, wait: &Wait<'_>) -> Result<(&Cell, &Sessions)> {
        let shard = self.entity.shard(session.index);
        shard.health().check_serves(shard.id(), wait)?;
        let cell = self.entity.cell(session.index);
        cell.and_then(|cell| Some((cell, cell.sessions()?)))
            .ok_or_else(|| self.session_lost())
    }

    /// Receives up to `max` messages of the session without waiting.
    pub(super) async fn receive_from_session(
        &self,
        session: &ReceiverSession,
        max: usize,
        out: &mut Deliveries,
        wait: &Wait<'_>,
    ) -> Result<()> {
        self.report_earlier_failure()?;
        let moment = self.moment();
        self.sweep(moment, wait);
        let (cell, _) = self.sessions_of(session, wait)?;
        let take = SessionReceive {
            max,
            mode: self.session_mode(),
            moment,
        };
        let mut claims = Vec::new();
        let ended = cell
            .receive_from_session(
                &session.accepted,
                take,
                self.entity.delivery_policy(),
                &mut claims,
                wait,
            )
            .map_err(|SessionLost| self.session_lost())?;
        self.entity.announce(session.index, ended, wait);
        out.extend(claims.into_iter().map(|claimed| Delivery {
            index: session.index,
            claimed,
            locked_until: None,
        }));
        if !out.is_empty() && self.entity.core().is_durable() {
            let failure = self.journal_deliveries(out, moment.ticks, wait).await;
            return self.report_failure(failure, !out.is_empty());
        }
        Ok(())
    }

    /// The claim mode of a session's messages: their locks end with the session's lock, and have no separate deadline.
    pub(super) fn session_mode(&self) -> ClaimMode {
        match self.mode {
            ReceiveMode::PeekLock => ClaimMode::Lock {
                deadline: Ticks::OPEN_END,
            },
            ReceiveMode::ReceiveAndDelete => self.removal_mode(),
        }
    }

    /// Id of the accepted session.
    pub fn session_id(&self) -> Option<&str> {
        self.session.as_ref().map(|session| session.accepted.id())
    }

    /// Returns false if the session does not have the message locked. Fails if the session is lost.
    pub(super) fn may_settle(&self, at: SettleKey, ticks: Ticks, wait: &Wait<'_>) -> Result<bool> {
        let Some(session) = &self.session else { return Ok(true) };
        let (_, sessions) = self.sessions_of(session, wait)?;
        let is_locked = sessions
            .has_locked(&session.accepted, at.key, ticks)
            .map_err(|SessionLost| self.session_lost())?;
        Ok(is_locked && at.index == session.index)
    }

    /// Removes settled messages from the locked ones of the session.
    pub(super) fn note_settled(&self, at: &[SettleKey]) {
        if let Some(session) = &self.session
            && let Some(sessions) = self.entity.cell(session.index).and_then(Cell::sessions)
        {
            sessions.unlock(&session.accepted, at.iter().map(|at| at.key));
        }
    }

    /// True if a message belongs to the session, or the receiver has no session.
    pub(super) fn is_of_session(&self, record: &Record) -> bool {
        self.session_id()
            .is_none_or(|id| Fields::decode(record).is_ok_and(|fields| fields.session_id == Some(id)))
    }

    /// Adds deferred messages that were received by number to the locked ones of the session.
    pub(super) fn note_fetched(&self, deliveries: &Deliveries, ticks: Ticks, wait: &Wait<'_>) -> Result<()> {
        let Some(session) = self.session.as_ref().filter(|_| self.mode == ReceiveMode::PeekLock) else {
            return Ok(());
        };
        let (_, sessions) = self.sessions_of(session, wait)?;
        for delivery in deliveries {
            sessions
                .lock(&session.accepted, &delivery.claimed, ticks)
                .map_err(|SessionLost| self.session_lost())?;
        }
        Ok(())
    }

    fn session(&self) -> Result<&ReceiverSession> {
        self.check_open()?;
        self.entity.check_alive()?;
        self.entity.note_use();
        self.session.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidOperation,
                "the receiver has no session; give it a session_id",
            )
        })
    }

    /// Wall time at which the session's lock expires.
    pub fn session_locked_until(&self) -> Option<Timestamp> {
        let session = self.session.as_ref()?;
        let Moment { now, ticks } = self.moment();
        Self::locked_until(session.accepted.deadline(), now, ticks)
    }

    /// Renews the session's lock for one lock duration from now. Returns the wall time at which it expires (B-202).
    pub fn renew_session(&self, wait: &Wait<'_>) -> Result<Timestamp> {
        let session = self.session()?;
        let moment = self.moment();
        self.entity.tick(moment, wait);
        let (_, sessions) = self.sessions_of(session, wait)?;
        sessions
            .renew(&session.accepted, moment.ticks.plus_ms(self.lock_ms()), moment.ticks)
            .map_err(|SessionLost| self.session_lost())?;
        self.entity.check_owned(wait)?;
        Ok(moment.now.plus_ms(self.lock_ms()))
    }

    /// Returns the state of the session, or `None` if it was never set or was cleared (B-211).
    pub fn session_state(&self, wait: &Wait<'_>) -> Result<Option<Arc<[u8]>>> {
        let session = self.session()?;
        let moment = self.moment();
        self.entity.tick(moment, wait);
        let (_, sessions) = self.sessions_of(session, wait)?;
        let state = sessions.state(&session.accepted, moment.ticks);
        self.entity.check_owned(wait)?;
        Ok(state
            .map_err(|SessionLost| self.session_lost())?
            .map(|state| state.bytes))
    }

    /// Sets the state of the session, or clears it (B-210, B-211).
    pub fn set_session_state(&self, state: Option<&[u8]>, wait: &Wait<'_>) -> Result<()> {
        run_now(self.set_session_state_async(state, wait))
    }

    /// [`Receiver::set_session_state`] for a call that may be suspended.
    pub async fn set_session_state_async(&self, state: Option<&[u8]>, wait: &Wait<'_>) -> Result<()> {
        let (index, accepted, state) = self.prepare_state(state, wait)?;
        let cell = self.entity.cell(index).ok_or_else(|| self.session_lost())?;
        let set = WriteOperation::SessionState { cell, accepted, state };
        let mut write = ShardWrite::of(set, self.moment());
        let set = write.commit_async(cell, cell.durability(None), wait).await;
        set.map(drop).map_err(|error| error.or_lost(|_| self.session_lost()))
    }

    /// Checks a new state of the session. Returns the cell index, the session and the state.
    pub(super) fn prepare_state(
        &self,
        state: Option<&[u8]>,
        wait: &Wait<'_>,
    ) -> Result<(usize, Arc<AcceptedSession>, Option<SessionState>)> {
        let session = self.session()?;
        self.entity.tick(self.moment(), wait);
        let state = self.new_state(session, state, wait)?;
        Ok((session.index, Arc::clone(&session.accepted), state))
    }

    /// Checks a new state of a session that the receiver, or its reservation, holds.
    pub(super) fn new_state(
        &self,
        session: &ReceiverSession,
        state: Option<&[u8]>,
        wait: &Wait<'_>,
    ) -> Result<Option<SessionState>> {
        let moment = self.moment();
        let (cell, sessions) = self.sessions_of(session, wait)?;
        let before = sessions
            .state(&session.accepted, moment.ticks)
            .map_err(|SessionLost| self.session_lost())?;
        if let Some(bytes) = state {
            let growth = bytes.len().saturating_sub(before.map_or(0, |state| state.bytes.len()));
            self.check_state(cell, session, bytes, growth)?;
        }
        Ok(state.map(|bytes| SessionState {
            bytes: bytes.into(),
            set_at: moment.now,
        }))
    }

    /// The accepted session.
    pub(super) fn accepted(&self) -> Option<Arc<AcceptedSession>> {
        self.session.as_ref().map(|session| Arc::clone(&session.accepted))
    }

    fn check_state(&self, cell: &Cell, session: &ReceiverSession, bytes: &[u8], growth: usize) -> Result<()> {
        let max = self.entity.settings().message_size_bytes_max as u64;
        in_range("the session state", bytes.len() as u64, 0, max, "bytes")?;
        self.entity.core().check_memory(growth)?;
        let Some(max) = self.entity.settings().size_bytes_max() else {
            return Ok(());
        };
        if growth == 0 || cell.has_room(growth as u64, growth as u64, max, || cell.counted_bytes()) {
            return Ok(());
        }
        Err(self.entity.full_error(session.index, max))
    }

    /// Releases the session without counting a delivery (B-205).
    pub(super) fn close_session(&self, wait: &Wait<'_>) {
        if let Some(session) = &self.session
            && let Some(cell) = self.entity.cell(session.index)
        {
            let ended = cell.end_session(
                &session.accepted,
                SessionEnd::Closed,
                self.moment(),
                self.entity.delivery_policy(),
                wait,
            );
            self.entity.announce(session.index, ended, wait);
        }
    }

    /// The error of a lost session (B-203).
    #[cold]
    pub(super) fn session_lost(&self) -> Error {
        let partition = self
            .session
            .as_ref()
            .map(|session| self.entity.shard(session.index).id().0);
        event!(
            SESSION_LOST,
            entity = self.entity.name().as_str(),
            partition,
            reason = "call_refused"
        );
        let detail = format!(
            "The session lock has expired on the MessageSession. Accept a new MessageSession: queue=`{}` session_id=`{}`",
            self.entity.name().as_str(),
            self.session_id().unwrap_or_default()
        );
        Error::new(ErrorKind::SessionLockLost, detail).with_effect(Effect::None)
    }
}
