// SPDX-License-Identifier: Apache-2.0
//! Flow control: session windows, link credit, drain and echo.

use super::session::FIRST_TRANSFER;
use super::{Engine, EngineEvent, LinkId, ProtocolError};
use crate::performative::{Flow, Role, put_frame};

impl Engine {
    /// Number of messages that can be sent on a link now: its credit, or zero while the session window is closed, too
    /// many deliveries are unsettled, or the output is full.
    pub fn sendable(&self, link: LinkId) -> u32 {
        let session = self
            .session_ref(link.session)
            .filter(|session| session.can_send() && !self.is_backed_up());
        let link = session.and_then(|session| session.link_ref(link));
        link.filter(|link| link.is_live() && link.role == Role::Sender)
            .map_or(0, |link| link.credit)
    }

    /// The credit of a link, in either direction.
    pub fn credit(&self, link: LinkId) -> u32 {
        self.session_ref(link.session)
            .and_then(|session| session.link_ref(link))
            .map_or(0, |link| link.credit)
    }

    /// Uses up the credit of a link that the client drains.
    pub fn drained(&mut self, link: LinkId) {
        let Some(session) = self.session(link.session) else {
            return;
        };
        let Some(found) = session
            .link(link)
            .filter(|link| link.is_live() && link.role == Role::Sender)
        else {
            return;
        };
        if !found.drain {
            return;
        }
        found.delivery_count = found.delivery_count.wrapping_add(found.credit);
        found.credit = 0;
        self.put_link_flow(link);
        if let Some(found) = self.session(link.session).and_then(|session| session.link(link)) {
            found.drain = false;
        }
    }

    /// Allows `credit` messages from the client without an answer. The engine renews the credit as messages are
    /// answered.
    pub fn set_credit(&mut self, link: LinkId, credit: u32) {
        let Some(found) = self.session(link.session).and_then(|session| session.link(link)) else {
            return;
        };
        if found.is_live() && found.role == Role::Receiver {
            found.credit_target = credit;
            found.credit = credit.saturating_sub(found.unanswered);
            self.put_link_flow(link);
        }
    }

    /// Sends the renewed credit once it exceeds half of the target.
    pub(super) fn replenish_credit(&mut self, id: LinkId) {
        let Some(link) = self.session(id.session).and_then(|session| session.link(id)) else {
            return;
        };
        let credit = link.credit_target.saturating_sub(link.unanswered);
        if link.is_live() && link.role == Role::Receiver && credit.saturating_sub(link.credit) > link.credit_target / 2
        {
            link.credit = credit;
            self.put_link_flow(id);
        }
    }

    fn put_link_flow(&mut self, id: LinkId) {
        let Some(Some(session)) = self.sessions.get(usize::from(id.session.channel)) else {
            return;
        };
        if let Some(Some(link)) = session.links.get(id.handle as usize) {
            put_frame(&mut self.output, id.session.channel, &session.link_flow(link));
        }
    }

    /// Handles a flow: the client's window and credit.
    pub(super) fn handle_flow(&mut self, channel: u16, flow: &Flow) -> Result<(), ProtocolError> {
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else {
            return Ok(());
        };
        let was_shut = !session.can_send();
        let expected = flow.next_incoming_id.unwrap_or(FIRST_TRANSFER);
        let window = expected
            .wrapping_add(flow.incoming_window)
            .wrapping_sub(session.next_outgoing_id);
        session.remote_incoming_window = if window as i32 >= 0 { window } else { 0 };
        session.send_remainder(&mut self.output, self.peer.max_frame_size);
        let is_reopened = was_shut && session.can_send();
        let Some(handle) = flow.handle else {
            if flow.echo {
                put_frame(&mut self.output, channel, &session.flow());
            }
            self.emit_credit(channel, is_reopened, None);
            return Ok(());
        };
        let Some(link) = session.link_at(handle).filter(|link| link.peer_detached.is_none()) else {
            return Err(ProtocolError::unattached(handle));
        };
        if link.is_detach_sent {
            return Ok(());
        }
        let id = link.id;
        let mut is_changed = false;
        if link.role == Role::Sender {
            let credit = flow.link_credit.map_or(link.credit, |credit| {
                // Counts wrap. A limit below the delivery count means no credit.
                let limit = flow.delivery_count.unwrap_or(0).wrapping_add(credit);
                let left = limit.wrapping_sub(link.delivery_count);
                if left as i32 >= 0 { left } else { 0 }
            });
            is_changed = credit != link.credit || flow.drain;
            link.credit = credit;
            link.drain = flow.drain;
        } else if let Some(count) = flow.delivery_count {
            let skipped = count.wrapping_sub(link.delivery_count);
            if skipped as i32 > 0 {
                link.delivery_count = count;
                link.credit = link.credit.saturating_sub(skipped);
            }
        }
        let is_answered = link.pending_attach.is_none();
        let is_draining = link.drain;
        if is_answered {
            // The application answers a drain.
            if flow.echo && !is_draining {
                self.put_link_flow(id);
            }
            self.emit_credit(channel, is_reopened, is_changed.then_some(id));
        }
        Ok(())
    }

    /// Emits the credit of one link, or of all links of a session that can send again.
    fn emit_credit(&mut self, channel: u16, all: bool, only: Option<LinkId>) {
        let Some(Some(session)) = self.sessions.get(usize::from(channel)) else {
            return;
        };
        for link in session.links.iter().flatten() {
            let is_selected = only == Some(link.id);
            if link.is_live() && link.role == Role::Sender && (is_selected || (all && link.credit > 0)) {
                self.events.push_back(EngineEvent::Credit {
                    link: link.id,
                    credit: link.credit,
                    drain: link.drain,
                });
            }
        }
    }
}
