// SPDX-License-Identifier: Apache-2.0
//! The sessions of an entity in all its cells (B-181 … B-217).

use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::Wait;

use super::Entity;
use crate::shard::{ReadyCounts, SessionInfo, Sessions};

impl Entity {
    /// True if messages are received by session (B-181).
    #[inline]
    pub fn requires_session(&self) -> bool {
        self.features.requires_session
    }

    /// Fails if the entity requires sessions and the message has no session id (B-184).
    #[inline]
    pub(crate) fn check_session(&self, session_id: Option<&str>) -> Result<()> {
        if self.requires_session() {
            Self::check_session_id(session_id)?;
        }
        Ok(())
    }

    /// Fails if the message has no session id.
    pub(crate) fn check_session_id(session_id: Option<&str>) -> Result<()> {
        if session_id.is_some() {
            return Ok(());
        }
        // The service's text.
        let detail = "The SessionId was not set on a message, and it cannot be sent to the entity. Entities that have session support \
                      enabled can only receive messages that have the SessionId set to a valid value. Set session_id.";
        Err(Error::new(ErrorKind::InvalidOperation, detail))
    }

    /// Moves ready messages of a cell into their sessions, and announces available sessions.
    pub(crate) fn fill_sessions(&self, index: usize, wait: &Wait<'_>) {
        if let Some(cell) = self.cell(index) {
            let ended = cell.fill_sessions(self.now(), self.delivery_policy(), wait);
            self.announce(index, ended, wait);
        }
    }

    /// Dead-letters ready messages of a cell that have no session, even while the others cannot be forwarded. The
    /// others stay in the cell.
    pub(super) fn dead_letter_without_session(&self, index: usize, wait: &Wait<'_>) {
        if let Some(cell) = self.cell(index) {
            let ended = cell.fill_sessions(self.now(), self.delivery_policy(), wait);
            cell.empty_sessions();
            self.announce(index, ReadyCounts { sessions: 0, ..ended }, wait);
        }
    }

    /// Moves ready messages of a cell's sessions back to the cell, to be forwarded.
    pub(super) fn empty_sessions(&self, index: usize) {
        if let Some(cell) = self.cell(index) {
            cell.empty_sessions();
        }
    }

    /// The sessions of all reachable partitions with the index of their cell, sorted by session id.
    pub fn list_sessions(&self, wait: &Wait<'_>) -> Result<Vec<(usize, SessionInfo)>> {
        self.check_alive()?;
        if !self.requires_session() {
            return Err(self.no_sessions_error());
        }
        self.tick(self.core().clock().moment(), wait);
        let reached = self.cells().filter(|(index, _)| self.shard(*index).health().serves());
        let sessions_of = |(index, cell): (usize, _)| {
            let sessions = crate::shard::Cell::sessions(cell)
                .map(Sessions::list)
                .unwrap_or_default();
            sessions.into_iter().map(move |info| (index, info))
        };
        let mut sessions: Vec<(usize, SessionInfo)> = reached.flat_map(sessions_of).collect();
        sessions.sort_by(|(_, a), (_, b)| a.id.cmp(&b.id));
        self.check_owned(wait)?;
        Ok(sessions)
    }

    /// The error of a session receiver on an entity without sessions (B-188).
    pub(crate) fn no_sessions_error(&self) -> Error {
        let detail = format!(
            "A sessionful message receiver cannot be created on an entity that does not require sessions. Ensure RequiresSession is set \
             to true when creating a Queue or Subscription to enable sessionful behavior: entity=`{}`",
            self.name().as_str()
        );
        Error::new(ErrorKind::InvalidOperation, detail)
    }

    /// The error of a receiver without a session on an entity that requires them (B-187).
    pub(crate) fn requires_session_error(&self) -> Error {
        let detail = format!(
            "It is not possible for an entity that requires sessions to create a non-sessionful message receiver. Give the receiver a \
             session_id, or NEXT_AVAILABLE_SESSION: entity=`{}`",
            self.name().as_str()
        );
        Error::new(ErrorKind::InvalidOperation, detail)
    }
}
