// SPDX-License-Identifier: Apache-2.0
//! Attach and detach of links.

use super::link::ClientLink;
use super::{ClientEngine, ClientEvent, CommandError, LinkId, LinkRequest, SessionId};
use crate::endpoint::ProtocolError;
use crate::performative::{AmqpError, Attach, Detach, Role, condition, put_frame};

impl ClientEngine {
    /// Attaches a link. `Attached` follows, or `Detached` if the server refuses it.
    pub fn attach(&mut self, session: SessionId, request: LinkRequest) -> Result<LinkId, CommandError> {
        if self.is_ended() {
            return Err(CommandError::ConnectionClosed);
        }
        let generation = self.next_generation();
        let found = self.session(session).filter(|session| !session.is_end_sent);
        let found = found.ok_or(CommandError::SessionNotFound)?;
        let free = found.links.iter().position(Option::is_none);
        let index = free.unwrap_or(found.links.len());
        let handle = u32::try_from(index).ok().filter(|handle| *handle <= found.handle_max);
        let id = LinkId {
            session,
            handle: handle.ok_or(CommandError::TooManyLinks)?,
            generation,
        };
        let link = ClientLink::new(id, &request);
        if index == found.links.len() {
            found.links.push(None);
        }
        found.links[index] = Some(Box::new(link));
        let credit = request.credit;
        put_frame(self.out(), session.channel, &request.attach(id.handle));
        if credit > 0 {
            self.set_credit(id, credit);
        }
        Ok(id)
    }

    /// Detaches a link, and closes it if `closed`. `Detached` follows. What arrives on it until then is dropped, and its
    /// messages without an outcome are forgotten.
    pub fn detach(&mut self, id: LinkId, closed: bool, error: Option<AmqpError>) {
        let is_early = !self.state.has_sent_header();
        let out = if is_early {
            &mut self.early_output
        } else {
            &mut self.output
        };
        let Some(Some(session)) = self.sessions.get_mut(usize::from(id.session.channel)) else {
            return;
        };
        if session.id != id.session || session.is_end_sent {
            return;
        }
        session.flush(out);
        let Some(link) = session.link(id).filter(|link| !link.is_detach_sent) else {
            return;
        };
        put_frame(out, id.session.channel, &link.detach(closed, error));
        link.is_detach_sent = true;
        link.assembly.clear(&mut self.partial_bytes);
        session.forget(id.handle);
    }

    /// Detaches a link whose server broke a rule.
    pub(super) fn fail_link(&mut self, link: LinkId, error: AmqpError) {
        self.detach(link, true, Some(error.clone()));
        self.events.push_back(ClientEvent::LinkFailed { link, error });
    }

    pub(super) fn handle_attach(&mut self, channel: u16, attach: Box<Attach>) -> Result<(), ProtocolError> {
        let handle_max = self.settings.handle_max;
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else {
            return Ok(());
        };
        let server_handle = attach.handle;
        if server_handle > handle_max {
            let text = format!("handle out of range: handle=`{server_handle}` handle_max=`{handle_max}`");
            return Err(ProtocolError::framing(text));
        }
        let index = server_handle as usize;
        if session.handles.len() <= index {
            session.handles.resize(index + 1, None);
        }
        if session.handles[index].is_some() {
            let text = format!("the handle is in use: handle=`{server_handle}`");
            return Err(ProtocolError::Session(AmqpError::new(condition::HANDLE_IN_USE, text)));
        }
        let role = attach.role.inverted();
        // A link that the client has detached and another one may have the same name: answers come in order.
        let links = session.links.iter_mut().flatten();
        let answered = links
            .filter(|link| link.name == attach.name && link.role == role && link.server_handle.is_none())
            .min_by_key(|link| link.id.generation);
        let Some(link) = answered else {
            let text = format!("the server attached a link of its own: name=`{}`", attach.name);
            return Err(ProtocolError::Session(AmqpError::new(condition::NOT_ALLOWED, text)));
        };
        link.server_handle = Some(server_handle);
        session.handles[index] = Some(link.id.handle);
        // An attach without the server's end refuses the link; a detach with the reason follows.
        let is_refused = match role {
            Role::Sender => attach.target.is_none(),
            Role::Receiver => attach.source.is_none(),
        };
        if is_refused || link.is_detach_sent {
            return Ok(());
        }
        link.is_attached = true;
        link.snd_settle_mode = attach.snd_settle_mode;
        link.rcv_settle_mode = attach.rcv_settle_mode;
        match role {
            Role::Sender => link.max_message_size = attach.max_message_size.unwrap_or(0),
            Role::Receiver => link.credit.delivery_count = attach.initial_delivery_count.unwrap_or(0),
        }
        let (id, credit) = (link.id, link.credit);
        self.events.push_back(ClientEvent::Attached { link: id, attach });
        if role == Role::Sender && credit.credit > 0 {
            self.emit_credit(channel, false, Some(id));
        }
        Ok(())
    }

    pub(super) fn handle_detach(&mut self, channel: u16, detach: Detach) -> Result<(), ProtocolError> {
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else {
            return Ok(());
        };
        let Some(link) = session.link_of_server(detach.handle) else {
            return Err(ProtocolError::unattached(detach.handle));
        };
        let id = link.id;
        let is_answered = link.is_detach_sent;
        link.assembly.clear(&mut self.partial_bytes);
        let answer = link.detach(detach.closed, None);
        session.handles[detach.handle as usize] = None;
        if !is_answered {
            session.flush(&mut self.output);
            put_frame(&mut self.output, channel, &answer);
            session.forget(id.handle);
        }
        session.links[id.handle as usize] = None;
        self.events.push_back(ClientEvent::Detached {
            link: id,
            closed: detach.closed,
            error: detach.error,
        });
        Ok(())
    }
}
