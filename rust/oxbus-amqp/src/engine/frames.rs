// SPDX-License-Identifier: Apache-2.0
//! Splits the input into frames and dispatches them.

use super::connection::EngineState;
use super::link::Link;
use super::session::Session;
use super::{Engine, EngineEvent, ResourceUsage, SessionId};
use crate::codec::DecodeError;
use crate::endpoint::{ProtocolError, split_frame};
use crate::performative::{AmqpError, Begin, End, Frame, FrameKind, Performative, SaslFrame, put_frame};

impl Engine {
    /// Processes the next protocol header or frame. Returns false if there is none.
    pub(super) fn process_next(&mut self, now: u64) -> bool {
        let done = match self.state {
            EngineState::Header | EngineState::AmqpHeader => Ok(self.handle_header()),
            EngineState::Sasl => self.process_sasl(),
            EngineState::Open | EngineState::Running | EngineState::CloseSent => self.process_frame(),
            EngineState::SaslDecision | EngineState::PeerClosed | EngineState::Finished => Ok(false),
        };
        match done {
            Ok(is_done) => {
                if is_done {
                    self.times.input = now;
                }
                is_done
            }
            Err(ProtocolError::Connection(error) | ProtocolError::Session(error)) => {
                if self.state == EngineState::Sasl {
                    self.abort(error);
                } else if self.state == EngineState::CloseSent {
                    self.state = EngineState::Finished;
                } else {
                    self.fail(error, now);
                }
                true
            }
        }
    }

    fn process_sasl(&mut self) -> Result<bool, ProtocolError> {
        let Some((head, body)) = split_frame(&mut self.input, self.settings.max_frame_size)? else {
            return Ok(false);
        };
        if head.kind != FrameKind::Sasl {
            return Err(DecodeError::FrameType(0).into());
        }
        self.handle_sasl(SaslFrame::read(&body)?);
        Ok(true)
    }

    fn process_frame(&mut self) -> Result<bool, ProtocolError> {
        let (channel, frame) = if let Some(waiting) = self.blocked_frame.take() {
            waiting
        } else {
            let Some((head, body)) = split_frame(&mut self.input, self.settings.max_frame_size)? else {
                return Ok(false);
            };
            if head.kind != FrameKind::Amqp {
                return Err(DecodeError::FrameType(1).into());
            }
            let Some(frame) = Frame::read(&body)? else {
                return Ok(true);
            };
            (head.channel, frame)
        };
        match self.handle_frame(channel, frame) {
            Ok(None) => Ok(true),
            Ok(Some(frame)) => {
                self.blocked_frame = Some((channel, frame));
                Ok(false)
            }
            Err(ProtocolError::Session(error)) => {
                self.fail_session(channel, error);
                Ok(true)
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Handles a frame. Returns it if it is blocked until the application answers an earlier one.
    fn handle_frame(&mut self, channel: u16, frame: Frame) -> Result<Option<Frame>, ProtocolError> {
        if self.state == EngineState::CloseSent {
            if let Performative::Close(close) = frame.performative {
                self.handle_close(*close);
            }
            return Ok(None);
        }
        match frame.performative {
            Performative::Open(open) => return self.handle_open(*open).map(|()| None),
            _ if self.state == EngineState::Open => return Err(ProtocolError::framing("open must come first")),
            Performative::Close(close) => {
                self.handle_close(*close);
                return Ok(None);
            }
            Performative::Begin(begin) => {
                let must_wait = self.handle_begin(channel, &begin)?;
                return Ok(must_wait.then_some(Frame {
                    performative: Performative::Begin(begin),
                    payload: frame.payload,
                }));
            }
            _ => {}
        }
        let session = self.sessions.get(usize::from(channel)).and_then(Option::as_deref);
        let Some(session) = session.filter(|session| !session.is_peer_ended) else {
            let text = format!("no session has this channel: channel=`{channel}`");
            return Err(ProtocolError::not_allowed(text));
        };
        if let Performative::End(end) = frame.performative {
            self.handle_end(channel, *end);
            return Ok(None);
        }
        if session.is_end_sent {
            return Ok(None);
        }
        match frame.performative {
            Performative::Attach(attach) => {
                let waiting = self.handle_attach(channel, attach)?;
                return Ok(waiting.map(|attach| Frame {
                    performative: Performative::Attach(attach),
                    payload: frame.payload,
                }));
            }
            Performative::Flow(flow) => self.handle_flow(channel, &flow)?,
            Performative::Transfer(transfer) => self.handle_transfer(channel, transfer, frame.payload)?,
            Performative::Disposition(disposition) => self.handle_disposition(channel, disposition),
            Performative::Detach(detach) => self.handle_detach(channel, *detach)?,
            Performative::Open(_) | Performative::Begin(_) | Performative::End(_) | Performative::Close(_) => {}
        }
        Ok(None)
    }

    /// Opens a session. Returns true if its channel is blocked until the application answers an end.
    fn handle_begin(&mut self, channel: u16, begin: &Begin) -> Result<bool, ProtocolError> {
        let channel_max = self.settings.channel_max.min(self.peer.channel_max);
        if channel > channel_max {
            let text = format!("channel out of range: channel=`{channel}` channel_max=`{channel_max}`");
            return Err(ProtocolError::framing(text));
        }
        let index = usize::from(channel);
        if self.sessions.len() <= index {
            self.sessions.resize_with(index + 1, || None);
        }
        if let Some(session) = &self.sessions[index] {
            if session.is_peer_ended {
                return Ok(true);
            }
            let text = format!("the channel is in use: channel=`{channel}`");
            return Err(ProtocolError::not_allowed(text));
        }
        if begin.remote_channel.is_some() {
            let text = "begin answers a session that the server never began";
            return Err(ProtocolError::not_allowed(text));
        }
        let id = SessionId {
            channel,
            generation: self.next_generation(),
        };
        let session = Session::new(id, begin, self.settings.handle_max);
        let flow = session.window.flow();
        let answer = Begin {
            remote_channel: Some(channel),
            next_outgoing_id: flow.next_outgoing_id,
            incoming_window: flow.incoming_window,
            outgoing_window: flow.outgoing_window,
            handle_max: Some(self.settings.handle_max),
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
        };
        put_frame(&mut self.output, channel, &answer);
        self.sessions[index] = Some(Box::new(session));
        self.events.push_back(EngineEvent::Begin { session: id });
        Ok(false)
    }

    fn handle_end(&mut self, channel: u16, end: End) {
        let index = usize::from(channel);
        let Some(Some(session)) = self.sessions.get_mut(index) else {
            return;
        };
        if session.is_end_sent {
            self.sessions[index] = None;
            return;
        }
        session.is_peer_ended = true;
        self.usage.release_all(session);
        self.events.push_back(EngineEvent::End {
            session: session.id,
            error: end.error,
        });
    }

    /// Ends a session: answers the client's end, or ends it on the server's initiative.
    pub fn end(&mut self, id: SessionId, error: Option<AmqpError>) {
        let index = usize::from(id.channel);
        let Some(Some(session)) = self.sessions.get_mut(index) else {
            return;
        };
        if session.id != id || session.is_end_sent {
            return;
        }
        session.flush(&mut self.output);
        put_frame(&mut self.output, id.channel, &End { error });
        if session.is_peer_ended {
            self.sessions[index] = None;
        } else {
            session.is_end_sent = true;
            self.usage.release_all(session);
        }
    }

    /// Ends a session after a protocol error.
    fn fail_session(&mut self, channel: u16, error: AmqpError) {
        if let Some(Some(session)) = self.sessions.get(usize::from(channel)) {
            let session = session.id;
            self.end(session, Some(error.clone()));
            self.events.push_back(EngineEvent::SessionFailed { session, error });
        }
    }
}

impl ResourceUsage {
    /// Releases what a link uses.
    pub(super) fn release(&mut self, link: &mut Link) {
        self.unanswered -= std::mem::take(&mut link.unanswered);
        self.early_bytes -= std::mem::take(&mut link.early_bytes);
        link.early_deliveries.clear();
        link.assembly.clear(&mut self.partial_bytes);
    }

    fn release_all(&mut self, session: &mut Session) {
        for mut link in session.links.drain(..).flatten() {
            self.release(&mut link);
            self.links -= 1;
        }
        session.unsettled.clear();
        session.forgotten.clear();
        session.window.drop_remainder(None);
    }
}
