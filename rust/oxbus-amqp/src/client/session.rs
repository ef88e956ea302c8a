// SPDX-License-Identifier: Apache-2.0
//! A session: its windows, links and deliveries; begin and end.

use bytes::BytesMut;
use oxbus_model::caps::AMQP_UNSETTLED_MAX;

use super::link::ClientLink;
use super::sending::SentDelivery;
use super::settlement::UnsettledReceived;
use super::{ClientEngine, ClientEvent, CommandError, LinkId, SessionId};
use crate::endpoint::{DeliveryTable, DispositionBuffer, ProtocolError, SessionWindow};
use crate::performative::{AmqpError, Begin, End, Role, put_frame};

/// The number of the first delivery in either direction. The wire carries the lower half, so that it is zero; the rest
/// leaves room for ids before it.
const FIRST_DELIVERY: u64 = 1 << 32;

/// A session. It exists until both sides have ended it.
#[derive(Debug)]
pub(super) struct ClientSession {
    pub(super) id: SessionId,
    /// False until the server's `begin`.
    pub(super) is_begun: bool,
    pub(super) is_end_sent: bool,
    pub(super) handle_max: u32,
    pub(super) window: SessionWindow,
    /// Indexed by the handle that the client chose.
    pub(super) links: Vec<Option<Box<ClientLink>>>,
    /// The client's handle for each handle of the server.
    pub(super) handles: Vec<Option<u32>>,
    /// Unsettled messages to the server.
    pub(super) sent: DeliveryTable<SentDelivery>,
    /// Unsettled messages from the server.
    pub(super) received: DeliveryTable<UnsettledReceived>,
    /// Outcomes of messages from the server.
    pub(super) outcomes: DispositionBuffer,
    /// Answers to outcomes that the server has not settled.
    pub(super) settlements: DispositionBuffer,
}

impl ClientSession {
    fn new(id: SessionId, handle_max: u32) -> Self {
        Self {
            id,
            is_begun: false,
            is_end_sent: false,
            handle_max,
            window: SessionWindow::new(id.channel),
            links: Vec::new(),
            handles: Vec::new(),
            sent: DeliveryTable::starting_at(FIRST_DELIVERY),
            received: DeliveryTable::starting_at(FIRST_DELIVERY),
            outcomes: DispositionBuffer::new(Role::Receiver),
            settlements: DispositionBuffer::new(Role::Sender),
        }
    }

    pub(super) fn can_send(&self) -> bool {
        self.is_begun && !self.is_end_sent && self.window.is_open() && self.sent.len() < AMQP_UNSETTLED_MAX as usize
    }

    pub(super) fn link(&mut self, id: LinkId) -> Option<&mut ClientLink> {
        let link = self.links.get_mut(id.handle as usize)?.as_deref_mut()?;
        (link.id == id).then_some(link)
    }

    pub(super) fn link_ref(&self, id: LinkId) -> Option<&ClientLink> {
        let link = self.links.get(id.handle as usize)?.as_deref()?;
        (link.id == id).then_some(link)
    }

    /// The link of a handle of the server.
    pub(super) fn link_of_server(&mut self, handle: u32) -> Option<&mut ClientLink> {
        let own = (*self.handles.get(handle as usize)?)?;
        self.links.get_mut(own as usize)?.as_deref_mut()
    }

    /// Forgets the deliveries of a link that is detached.
    pub(super) fn forget(&mut self, handle: u32) {
        self.window.drop_remainder(Some(handle));
        self.sent.retain(|_, sent| sent.link.handle != handle);
        self.received.retain(|_, received| received.link.handle != handle);
    }

    /// Writes the collected dispositions.
    pub(super) fn flush(&mut self, out: &mut BytesMut) {
        if !self.is_end_sent {
            self.outcomes.flush(out, self.id.channel);
            self.settlements.flush(out, self.id.channel);
        }
    }
}

impl ClientEngine {
    /// Begins a session. `Begun` follows; links may be attached before.
    pub fn begin(&mut self) -> Result<SessionId, CommandError> {
        if self.is_ended() {
            return Err(CommandError::ConnectionClosed);
        }
        let free = self.sessions.iter().position(Option::is_none);
        let index = free.unwrap_or(self.sessions.len());
        let channel_max = self.settings.channel_max.min(self.peer.channel_max);
        let channel = u16::try_from(index).ok().filter(|channel| *channel <= channel_max);
        let channel = channel.ok_or(CommandError::TooManySessions)?;
        let id = SessionId {
            channel,
            generation: self.next_generation(),
        };
        let session = ClientSession::new(id, self.settings.handle_max);
        let flow = session.window.flow();
        let begin = Begin {
            remote_channel: None,
            next_outgoing_id: flow.next_outgoing_id,
            incoming_window: flow.incoming_window,
            outgoing_window: flow.outgoing_window,
            handle_max: Some(self.settings.handle_max),
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
        };
        put_frame(self.out(), channel, &begin);
        if index == self.sessions.len() {
            self.sessions.push(None);
        }
        self.sessions[index] = Some(Box::new(session));
        Ok(id)
    }

    /// Ends a session and its links. `Ended` follows; events of its links do not.
    pub fn end(&mut self, id: SessionId, error: Option<AmqpError>) {
        let is_early = !self.state.has_sent_header();
        let out = if is_early {
            &mut self.early_output
        } else {
            &mut self.output
        };
        let Some(Some(session)) = self.sessions.get_mut(usize::from(id.channel)) else {
            return;
        };
        if session.id != id || session.is_end_sent {
            return;
        }
        session.flush(out);
        put_frame(out, id.channel, &End { error });
        session.is_end_sent = true;
        release(session, &mut self.partial_bytes);
    }

    /// Number of messages to the server in a session without an outcome.
    pub fn unsettled(&self, session: SessionId) -> usize {
        self.session_ref(session).map_or(0, |session| session.sent.len())
    }

    pub(super) fn handle_begin(&mut self, server_channel: u16, begin: &Begin) -> Result<(), ProtocolError> {
        let Some(channel) = begin.remote_channel else {
            return Err(ProtocolError::not_allowed("the server began a session of its own"));
        };
        if server_channel > self.settings.channel_max {
            let text = format!("channel out of range: channel=`{server_channel}`");
            return Err(ProtocolError::framing(text));
        }
        let session = self.sessions.get_mut(usize::from(channel)).and_then(Option::as_mut);
        let Some(session) = session.filter(|session| !session.is_begun) else {
            let text = format!("begin answers no session: remote_channel=`{channel}`");
            return Err(ProtocolError::not_allowed(text));
        };
        let index = usize::from(server_channel);
        if self.channels.len() <= index {
            self.channels.resize(index + 1, None);
        }
        if self.channels[index].is_some() {
            let text = format!("the channel is in use: channel=`{server_channel}`");
            return Err(ProtocolError::not_allowed(text));
        }
        self.channels[index] = Some(channel);
        session.is_begun = true;
        session.window.open(begin);
        session.handle_max = begin.handle_max.unwrap_or(u32::MAX).min(session.handle_max);
        if !session.is_end_sent {
            self.events.push_back(ClientEvent::Begun { session: session.id });
        }
        Ok(())
    }

    pub(super) fn handle_end(&mut self, channel: u16, server_channel: u16, end: End) {
        self.channels[usize::from(server_channel)] = None;
        let Some(mut session) = self.sessions.get_mut(usize::from(channel)).and_then(Option::take) else {
            return;
        };
        if !session.is_end_sent {
            session.flush(&mut self.output);
            put_frame(&mut self.output, channel, &End { error: None });
            release(&mut session, &mut self.partial_bytes);
        }
        self.events.push_back(ClientEvent::Ended {
            session: session.id,
            error: end.error,
        });
    }
}

/// Drops the links and deliveries of a session that has ended.
fn release(session: &mut ClientSession, partial_bytes: &mut usize) {
    for mut link in session.links.drain(..).flatten() {
        link.assembly.clear(partial_bytes);
    }
    session.handles.clear();
    session.sent.clear();
    session.received.clear();
    session.window.drop_remainder(None);
}
