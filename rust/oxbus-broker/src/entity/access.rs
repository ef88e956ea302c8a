// SPDX-License-Identifier: Apache-2.0
//! Access checks: whether an entity exists, and whether its status and kind allow a call.

use std::sync::atomic::Ordering;

use oxbus_model::{Error, ErrorKind, Result};

use super::Entity;
use crate::shard::Sessions;

impl Entity {
    /// Marks the entity as deleted: every later call on a handle of it fails. [`Entity::wake_all`] makes waiting calls
    /// notice it.
    pub(crate) fn mark_removed(&self) {
        self.is_removed.store(true, Ordering::SeqCst);
    }

    /// Makes every waiting call look again. The caller must not hold the lock of the map of entities. This takes the
    /// guards of the sessions, which are held while a session state is journaled, and a snapshot reads the map under
    /// the append guard.
    pub fn wake_all(&self) {
        if self.idle_ms().is_some() && self.has_waiters() {
            // A waiting receiver uses the entity all the time.
            self.note_use();
        }
        self.main.wait_queue.notify_all();
        self.dead_letters.wait_queue.notify_all();
        let sessions = self.cells().filter_map(|(_, cell)| cell.sessions());
        sessions.for_each(Sessions::wake_holders);
    }

    /// Fails if the entity was deleted or its namespace was closed.
    #[inline]
    pub fn check_alive(&self) -> Result<()> {
        if !self.is_removed.load(Ordering::Acquire) && !self.is_idle() {
            return Ok(());
        }
        self.core.check_open()?;
        let advice = format!(
            "The {} was deleted; create it and open a new handle.",
            self.kind().name()
        );
        Err(Error::entity_not_found(self.name.as_str(), &advice))
    }

    /// Fails if the entity no longer exists, or its status forbids sending.
    #[inline]
    pub fn check_sends(&self) -> Result<()> {
        self.check_alive()?;
        if self.settings().status.allows_send() {
            Ok(())
        } else {
            Err(self.disabled_error("sending"))
        }
    }

    /// Fails if the entity no longer exists, or its status forbids receiving.
    #[inline]
    pub fn check_receives(&self) -> Result<()> {
        self.check_alive()?;
        if self.settings().status.allows_receive() {
            Ok(())
        } else {
            Err(self.disabled_error("receiving"))
        }
    }

    fn disabled_error(&self, operation: &str) -> Error {
        let detail = format!(
            "the {0}'s status forbids {operation}; set its status to Active with update_{0}: `{1}`",
            self.kind().name(),
            self.name.as_str()
        );
        Error::new(ErrorKind::EntityDisabled, detail)
    }

    /// Fails if the entity is a topic: receivers read its subscriptions.
    pub(crate) fn check_receivable(&self) -> Result<()> {
        if self.kind().can_be_received_from() {
            return Ok(());
        }
        let detail = format!(
            "a topic cannot be received from; receive from one of its subscriptions with get_subscription_receiver: `{}`",
            self.name.as_str()
        );
        Err(Error::new(ErrorKind::InvalidOperation, detail))
    }

    /// Fails if the entity is a subscription: senders send to its topic.
    pub(crate) fn check_sendable(&self) -> Result<()> {
        if self.kind().accepts_sends() {
            return Ok(());
        }
        let detail = format!(
            "a subscription cannot be sent to; send to its topic with get_topic_sender: `{}`",
            self.name.as_str()
        );
        Err(Error::new(ErrorKind::InvalidOperation, detail))
    }
}
