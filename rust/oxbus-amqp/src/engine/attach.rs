// SPDX-License-Identifier: Apache-2.0
//! Attach and detach of links.

use oxbus_model::caps::AMQP_LINKS_MAX;

use super::link::Link;
use super::{AttachRequest, AttachResponse, Engine, EngineEvent, LinkId, LinkNotFound};
use crate::endpoint::ProtocolError;
use crate::performative::{AmqpError, Attach, Detach, Role, condition, put_frame};

impl Engine {
    /// Accepts a requested link, now or later.
    ///
    /// # Errors
    /// The client has detached the link, or its session or connection has ended. The caller must release what it took
    /// for the link.
    pub fn accept(&mut self, id: LinkId, accept: AttachResponse) -> Result<(), LinkNotFound> {
        let session = self
            .session(id.session)
            .filter(|session| session.is_live())
            .ok_or(LinkNotFound)?;
        let link = session
            .link(id)
            .filter(|link| link.peer_detached.is_none())
            .ok_or(LinkNotFound)?;
        let request = link.pending_attach.take().ok_or(LinkNotFound)?;
        link.max_message_size = if accept.takes_larger {
            0
        } else {
            accept.max_message_size
        };
        let answer = Attach {
            source: Some(accept.source.into()),
            target: Some(accept.target.into()),
            max_message_size: (accept.max_message_size > 0).then_some(accept.max_message_size),
            offered_capabilities: accept.offered_capabilities,
            properties: Some(accept.properties),
            ..link.attach_response(&request)
        };
        let (role, credit, drain) = (link.role, link.credit.credit, link.credit.drain);
        let early_deliveries = std::mem::take(&mut link.early_deliveries);
        let early_bytes = std::mem::take(&mut link.early_bytes);
        put_frame(&mut self.output, id.session.channel, &answer);
        self.usage.early_bytes -= early_bytes;
        self.events.extend(
            early_deliveries
                .into_iter()
                .map(|incoming| EngineEvent::Incoming(incoming.into())),
        );
        if role == Role::Receiver {
            self.set_credit(id, accept.credit);
        } else if credit > 0 || drain {
            self.events.push_back(EngineEvent::Credit {
                link: id,
                credit,
                drain,
            });
        }
        Ok(())
    }

    /// Detaches a link: answers the client's detach, rejects its attach, or detaches on the server's initiative.
    pub fn detach(&mut self, id: LinkId, error: Option<AmqpError>) {
        let channel = id.session.channel;
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else {
            return;
        };
        if session.id != id.session || !session.is_live() {
            return;
        }
        session.flush(&mut self.output);
        let Some(link) = session.link(id).filter(|link| !link.is_detach_sent) else {
            return;
        };
        if let Some(request) = link.pending_attach.take() {
            // A response without source and target rejects the attach.
            put_frame(&mut self.output, channel, &link.attach_response(&request));
        }
        put_frame(&mut self.output, channel, &link.detach(error));
        link.is_detach_sent = true;
        self.usage.release(link);
        let is_over = link.peer_detached.is_some();
        session.forget(id.handle);
        if is_over {
            self.remove_link(id);
        }
    }

    /// Detaches a link whose client exceeded a limit.
    pub(super) fn fail_link(&mut self, link: LinkId, error: AmqpError) {
        self.detach(link, Some(error.clone()));
        self.events.push_back(EngineEvent::LinkFailed { link, error });
    }

    /// Handles an attach. Returns it if its handle is blocked until the application answers a detach.
    pub(super) fn handle_attach(
        &mut self,
        channel: u16,
        attach: Box<Attach>,
    ) -> Result<Option<Box<Attach>>, ProtocolError> {
        let generation = self.next_generation();
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else {
            return Ok(None);
        };
        let handle = attach.handle;
        if handle > session.handle_max {
            let text = format!(
                "handle out of range: handle=`{handle}` handle_max=`{}`",
                session.handle_max
            );
            return Err(ProtocolError::framing(text));
        }
        match session.link_at(handle) {
            Some(link) if link.peer_detached.is_some() => return Ok(Some(attach)),
            Some(_) => {
                let text = format!("the handle is in use: handle=`{handle}`");
                return Err(ProtocolError::Session(AmqpError::new(condition::HANDLE_IN_USE, text)));
            }
            None => {}
        }
        let limit_error = AmqpError::new(
            condition::RESOURCE_LIMIT_EXCEEDED,
            "too many links; close some, or open another connection",
        );
        if self.usage.links >= 2 * AMQP_LINKS_MAX {
            return Err(ProtocolError::Connection(limit_error));
        }
        let id = LinkId {
            session: session.id,
            handle,
            generation,
        };
        let mut link = Box::new(Link::new(id, &attach));
        let index = handle as usize;
        if session.links.len() <= index {
            session.links.resize_with(index + 1, || None);
        }
        if self.usage.links < AMQP_LINKS_MAX {
            link.pending_attach = Some(attach.clone());
            session.links[index] = Some(link);
            self.usage.links += 1;
            self.events.push_back(EngineEvent::Attach(Box::new(AttachRequest {
                link: id,
                attach: *attach,
            })));
        } else {
            link.pending_attach = Some(attach);
            session.links[index] = Some(link);
            self.usage.links += 1;
            self.detach(id, Some(limit_error));
        }
        Ok(None)
    }

    pub(super) fn handle_detach(&mut self, channel: u16, detach: Detach) -> Result<(), ProtocolError> {
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else {
            return Ok(());
        };
        let Some(link) = session
            .link_at(detach.handle)
            .filter(|link| link.peer_detached.is_none())
        else {
            return Err(ProtocolError::unattached(detach.handle));
        };
        let id = link.id;
        link.peer_detached = Some(detach.closed);
        if link.is_detach_sent {
            self.remove_link(id);
            return Ok(());
        }
        session.forget(id.handle);
        self.events.push_back(EngineEvent::Detach {
            link: id,
            closed: detach.closed,
            error: detach.error,
        });
        Ok(())
    }

    fn remove_link(&mut self, id: LinkId) {
        if let Some(session) = self.session(id.session)
            && let Some(entry) = session.links.get_mut(id.handle as usize)
        {
            *entry = None;
            self.usage.links -= 1;
        }
    }
}
