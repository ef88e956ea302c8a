// SPDX-License-Identifier: Apache-2.0
//! Links come and go: attach, accept, refuse, detach.

use oxbus_model::caps::AMQP_LINKS_MAX;

use super::link::Link;
use super::{Accept, AttachRequest, Engine, Event, Gone, LinkId, Trouble};
use crate::performative::{Attach, Detach, Fault, Role, condition, put_frame};

impl Engine {
    /// Accepts a link, now or long after it was asked for.
    ///
    /// # Errors
    /// The client has detached it meanwhile, or its session or connection ended: what was taken for it must be given back.
    pub fn accept(&mut self, id: LinkId, accept: Accept) -> Result<(), Gone> {
        let session = self
            .session(id.session)
            .filter(|session| session.is_live())
            .ok_or(Gone)?;
        let link = session
            .link(id)
            .filter(|link| link.peer_detached.is_none())
            .ok_or(Gone)?;
        let asked = link.asked.take().ok_or(Gone)?;
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
            ..link.answer(&asked)
        };
        let (role, credit, drain) = (link.role, link.credit, link.drain);
        let early = std::mem::take(&mut link.early);
        let early_bytes = std::mem::take(&mut link.early_bytes);
        put_frame(&mut self.output, id.session.channel, &answer);
        self.loads.early_bytes -= early_bytes;
        self.events
            .extend(early.into_iter().map(|incoming| Event::Incoming(incoming.into())));
        if role == Role::Receiver {
            self.set_credit(id, accept.credit);
        } else if credit > 0 || drain {
            self.events.push_back(Event::Credit {
                link: id,
                credit,
                drain,
            });
        }
        Ok(())
    }

    /// Detaches a link: as an answer to the client's detach, as a refusal of its attach, or out of the server's own will.
    pub fn detach(&mut self, id: LinkId, error: Option<Fault>) {
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
        if let Some(asked) = link.asked.take() {
            // Without ends: refused.
            put_frame(&mut self.output, channel, &link.answer(&asked));
        }
        put_frame(&mut self.output, channel, &link.detach(error));
        link.is_detach_sent = true;
        self.loads.release(link);
        let is_over = link.peer_detached.is_some();
        session.forget(id.handle);
        if is_over {
            self.remove_link(id);
        }
    }

    /// Detaches a link whose client broke a limit.
    pub(super) fn lose_link(&mut self, link: LinkId, fault: Fault) {
        self.detach(link, Some(fault.clone()));
        self.events.push_back(Event::LinkLost { link, fault });
    }

    /// Takes up a wish for a link. Gives it back if its number waits for the application.
    pub(super) fn take_attach(&mut self, channel: u16, attach: Box<Attach>) -> Result<Option<Box<Attach>>, Trouble> {
        let turn = self.next_turn();
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else {
            return Ok(None);
        };
        let handle = attach.handle;
        if handle > session.handle_max {
            let text = format!(
                "handle out of range: handle=`{handle}` handle_max=`{}`",
                session.handle_max
            );
            return Err(Trouble::Connection(Fault::new(condition::FRAMING_ERROR, text)));
        }
        match session.link_at(handle) {
            Some(link) if link.peer_detached.is_some() => return Ok(Some(attach)),
            Some(_) => {
                let text = format!("a link has this handle: handle=`{handle}`");
                return Err(Trouble::Session(Fault::new(condition::HANDLE_IN_USE, text)));
            }
            None => {}
        }
        let excess = Fault::new(
            condition::RESOURCE_LIMIT_EXCEEDED,
            "too many links; close some, or open another connection",
        );
        if self.loads.links >= 2 * AMQP_LINKS_MAX {
            return Err(Trouble::Connection(excess));
        }
        let id = LinkId {
            session: session.id,
            handle,
            turn,
        };
        let mut link = Box::new(Link::new(id, &attach));
        let place = handle as usize;
        if session.links.len() <= place {
            session.links.resize_with(place + 1, || None);
        }
        if self.loads.links < AMQP_LINKS_MAX {
            link.asked = Some(attach.clone());
            session.links[place] = Some(link);
            self.loads.links += 1;
            self.events.push_back(Event::Attach(Box::new(AttachRequest {
                link: id,
                attach: *attach,
            })));
        } else {
            link.asked = Some(attach);
            session.links[place] = Some(link);
            self.loads.links += 1;
            self.detach(id, Some(excess));
        }
        Ok(None)
    }

    pub(super) fn take_detach(&mut self, channel: u16, detach: Detach) -> Result<(), Trouble> {
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else {
            return Ok(());
        };
        let Some(link) = session
            .link_at(detach.handle)
            .filter(|link| link.peer_detached.is_none())
        else {
            return Err(Trouble::unattached(detach.handle));
        };
        let id = link.id;
        link.peer_detached = Some(detach.closed);
        if link.is_detach_sent {
            self.remove_link(id);
            return Ok(());
        }
        session.forget(id.handle);
        self.events.push_back(Event::Detach {
            link: id,
            closed: detach.closed,
            error: detach.error,
        });
        Ok(())
    }

    fn remove_link(&mut self, id: LinkId) {
        if let Some(session) = self.session(id.session)
            && let Some(place) = session.links.get_mut(id.handle as usize)
        {
            *place = None;
            self.loads.links -= 1;
        }
    }
}
