// SPDX-License-Identifier: Apache-2.0
//! Flow control: session windows, link credit, drain and echo.

use super::{Engine, EngineEvent, LinkId};
use crate::endpoint::ProtocolError;
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
            .map_or(0, |link| link.credit.credit)
    }

    /// The credit of a link, in either direction.
    pub fn credit(&self, link: LinkId) -> u32 {
        self.session_ref(link.session)
            .and_then(|session| session.link_ref(link))
            .map_or(0, |link| link.credit.credit)
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
        if !found.credit.drain {
            return;
        }
        found.credit.use_up();
        self.put_link_flow(link);
        if let Some(found) = self.session(link.session).and_then(|session| session.link(link)) {
            found.credit.drain = false;
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
            found.credit.credit = credit.saturating_sub(found.unanswered);
            self.put_link_flow(link);
        }
    }

    /// Sends the renewed credit once it exceeds half of the target.
    pub(super) fn replenish_credit(&mut self, id: LinkId) {
        let Some(link) = self.session(id.session).and_then(|session| session.link(id)) else {
            return;
        };
        let credit = link.credit_target.saturating_sub(link.unanswered);
        if link.is_live()
            && link.role == Role::Receiver
            && credit.saturating_sub(link.credit.credit) > link.credit_target / 2
        {
            link.credit.credit = credit;
            self.put_link_flow(id);
        }
    }

    fn put_link_flow(&mut self, id: LinkId) {
        let Some(Some(session)) = self.sessions.get(usize::from(id.session.channel)) else {
            return;
        };
        if let Some(Some(link)) = session.links.get(id.handle as usize) {
            put_frame(
                &mut self.output,
                id.session.channel,
                &session.window.link_flow(id.handle, link.role, &link.credit),
            );
        }
    }

    /// Handles a flow: the client's window and credit.
    pub(super) fn handle_flow(&mut self, channel: u16, flow: &Flow) -> Result<(), ProtocolError> {
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else {
            return Ok(());
        };
        let was_shut = !session.can_send();
        session.window.apply(flow);
        session
            .window
            .send_remainder(&mut self.output, self.peer.max_frame_size);
        let is_reopened = was_shut && session.can_send();
        let Some(handle) = flow.handle else {
            if flow.echo {
                put_frame(&mut self.output, channel, &session.window.flow());
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
            is_changed = link.credit.set_by_receiver(flow);
        } else {
            link.credit.advanced_by_sender(flow);
        }
        let is_answered = link.pending_attach.is_none();
        let is_draining = link.credit.drain;
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
            if link.is_live() && link.role == Role::Sender && (is_selected || (all && link.credit.credit > 0)) {
                self.events.push_back(EngineEvent::Credit {
                    link: link.id,
                    credit: link.credit.credit,
                    drain: link.credit.drain,
                });
            }
        }
    }
}
