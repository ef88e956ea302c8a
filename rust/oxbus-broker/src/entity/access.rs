// SPDX-License-Identifier: Apache-2.0
//! Whether calls on an entity are let through: it is there, and its status and its kind allow them.

use std::sync::atomic::Ordering;

use oxbus_model::{Error, ErrorKind, Result};

use super::Entity;
use crate::shard::Sessions;

impl Entity {
    /// Ends the entity: every later call on a handle of it fails. Who waits learns it by [`Entity::wake_all`].
    pub(crate) fn mark_removed(&self) {
        self.is_removed.store(true, Ordering::SeqCst);
    }

    /// Lets everyone who waits look again. Not under the queue map: it looks into the sessions, whose guard is held while a
    /// state is journaled, and a snapshot reads the map under the journal's order.
    pub fn wake_all(&self) {
        if self.idle_ms().is_some() && self.has_waiters() {
            // Who waits for a message uses the entity all the time.
            self.note_use();
        }
        self.main.wait_queue.notify_all();
        self.dead_letters.wait_queue.notify_all();
        let sessions = self.cells().filter_map(|(_, cell)| cell.sessions());
        sessions.for_each(Sessions::wake_holders);
    }

    /// Refuses when the entity or its namespace is gone.
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

    /// Refuses when nothing may be sent.
    #[inline]
    pub fn check_sends(&self) -> Result<()> {
        self.check_alive()?;
        if self.settings().status.allows_send() {
            Ok(())
        } else {
            Err(self.disabled("send"))
        }
    }

    /// Refuses when nothing may be received.
    #[inline]
    pub fn check_receives(&self) -> Result<()> {
        self.check_alive()?;
        if self.settings().status.allows_receive() {
            Ok(())
        } else {
            Err(self.disabled("receive"))
        }
    }

    fn disabled(&self, what: &str) -> Error {
        let detail = format!(
            "the {0}'s status forbids to {what}; set its status to Active with update_{0}: `{1}`",
            self.kind().name(),
            self.name.as_str()
        );
        Error::new(ErrorKind::EntityDisabled, detail)
    }

    /// Refuses to receive from a topic.
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

    /// Refuses to send to a subscription.
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
