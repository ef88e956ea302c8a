// SPDX-License-Identifier: Apache-2.0
//! Flow control: session windows, link credit, drain and echo.

use super::{ClientEngine, ClientEvent, LinkId};
use crate::endpoint::{LinkCredit, ProtocolError};
use crate::performative::{Flow, Role, put_frame};

impl ClientEngine {
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

    /// True if the rest of a message is yet to come on a link.
    pub fn is_receiving(&self, link: LinkId) -> bool {
        self.session_ref(link.session)
            .and_then(|session| session.link_ref(link))
            .is_some_and(|link| link.assembly.is_incomplete())
    }

    /// Allows the server to send `credit` more messages on a link. Ends a drain.
    pub fn set_credit(&mut self, link: LinkId, credit: u32) {
        self.change_credit(link, |found| {
            found.credit = credit;
            found.drain = false;
        });
    }

    /// Demands that the server uses up the credit of a link, with the messages that it has. `Drained` follows.
    pub fn drain(&mut self, link: LinkId) {
        self.change_credit(link, |found| found.drain = true);
    }

    fn change_credit(&mut self, id: LinkId, change: impl FnOnce(&mut LinkCredit)) {
        let Some(session) = self.session(id.session).filter(|session| !session.is_end_sent) else {
            return;
        };
        let Some(link) = session.link(id) else {
            return;
        };
        if link.is_detach_sent || link.role != Role::Receiver {
            return;
        }
        change(&mut link.credit);
        let is_drained = link.credit.drain && link.credit.credit == 0;
        if is_drained {
            link.credit.drain = false;
            self.events.push_back(ClientEvent::Drained { link: id });
        } else {
            self.put_link_flow(id);
        }
    }

    /// Uses up the credit of a link that the server drains.
    pub fn drained(&mut self, id: LinkId) {
        let link = self.session(id.session).and_then(|session| session.link(id));
        let Some(link) = link.filter(|link| link.is_live() && link.role == Role::Sender && link.credit.drain) else {
            return;
        };
        link.credit.use_up();
        self.put_link_flow(id);
        if let Some(link) = self.session(id.session).and_then(|session| session.link(id)) {
            link.credit.drain = false;
        }
    }

    fn put_link_flow(&mut self, id: LinkId) {
        let Some(Some(session)) = self.sessions.get(usize::from(id.session.channel)) else {
            return;
        };
        if let Some(Some(link)) = session.links.get(id.handle as usize) {
            let mut flow = session.window.link_flow(id.handle, link.role, &link.credit);
            if link.role == Role::Receiver && !link.is_attached {
                // The server has not told its count yet.
                flow.delivery_count = None;
            }
            put_frame(self.out(), id.session.channel, &flow);
        }
    }

    /// Handles a flow: the server's window and credit.
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
        let Some(link) = session.link_of_server(handle) else {
            return Err(ProtocolError::unattached(handle));
        };
        if link.is_detach_sent {
            return Ok(());
        }
        let id = link.id;
        let mut changed = None;
        if link.role == Role::Sender {
            changed = link.credit.set_by_receiver(flow).then_some(id);
        } else {
            link.credit.advanced_by_sender(flow);
        }
        let is_draining = link.credit.drain;
        self.note_drained(id);
        if flow.echo && !is_draining {
            self.put_link_flow(id);
        }
        self.emit_credit(channel, is_reopened, changed);
        Ok(())
    }

    /// Emits the end of a drain once the credit is used up.
    pub(super) fn note_drained(&mut self, id: LinkId) {
        if let Some(link) = self.session(id.session).and_then(|session| session.link(id))
            && link.role == Role::Receiver
            && link.credit.drain
            && link.credit.credit == 0
        {
            link.credit.drain = false;
            self.events.push_back(ClientEvent::Drained { link: id });
        }
    }

    /// Emits the credit of one link, or of all links of a session that can send again.
    pub(super) fn emit_credit(&mut self, channel: u16, all: bool, only: Option<LinkId>) {
        let Some(Some(session)) = self.sessions.get(usize::from(channel)) else {
            return;
        };
        for link in session.links.iter().flatten() {
            let is_selected = only == Some(link.id);
            if link.is_live() && link.role == Role::Sender && (is_selected || (all && link.credit.credit > 0)) {
                self.events.push_back(ClientEvent::Credit {
                    link: link.id,
                    credit: link.credit.credit,
                    drain: link.credit.drain,
                });
            }
        }
    }
}
