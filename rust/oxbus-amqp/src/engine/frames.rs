// SPDX-License-Identifier: Apache-2.0
//! From bytes to frames, and from each frame to what takes it up.

use bytes::Bytes;
use oxbus_model::caps::AMQP_FRAME_BYTES_MAX;

use super::connection::Phase;
use super::link::Link;
use super::session::Session;
use super::{Engine, Event, Loads, SessionId, Trouble};
use crate::codec::DecodeError;
use crate::performative::{
    Begin, End, Fault, Frame, FrameHead, FrameKind, Performative, SaslFrame, condition, put_frame,
};

impl Trouble {
    pub(super) fn unattached(handle: u32) -> Self {
        Self::Session(Fault::new(
            condition::UNATTACHED_HANDLE,
            format!("no link has this handle: handle=`{handle}`"),
        ))
    }

    fn protocol(text: impl Into<String>) -> Self {
        Self::Connection(Fault::new(condition::FRAMING_ERROR, text.into()))
    }
}

impl From<DecodeError> for Trouble {
    fn from(error: DecodeError) -> Self {
        let condition = match error {
            DecodeError::FrameSize(_) | DecodeError::FrameOffset(_) | DecodeError::FrameType(_) => {
                condition::FRAMING_ERROR
            }
            DecodeError::MissingField(_) | DecodeError::UnknownChoice { .. } => condition::INVALID_FIELD,
            _ => condition::DECODE_ERROR,
        };
        Self::Connection(Fault::new(condition, error.to_string()))
    }
}

impl Engine {
    /// Works on the next header or frame, if it is there.
    pub(super) fn work_on_next(&mut self, now: u64) -> bool {
        let done = match self.phase {
            Phase::Header | Phase::AmqpHeader => Ok(self.take_header()),
            Phase::Sasl => self.work_on_sasl(),
            Phase::Open | Phase::Running | Phase::CloseSent => self.work_on_frame(),
            Phase::SaslDecision | Phase::PeerClosed | Phase::Finished => Ok(false),
        };
        match done {
            Ok(is_done) => {
                if is_done {
                    self.clocks.input = now;
                }
                is_done
            }
            Err(Trouble::Connection(fault) | Trouble::Session(fault)) => {
                if self.phase == Phase::Sasl {
                    self.give_up(fault);
                } else if self.phase == Phase::CloseSent {
                    self.phase = Phase::Finished;
                } else {
                    self.fail(fault, now);
                }
                true
            }
        }
    }

    fn work_on_sasl(&mut self) -> Result<bool, Trouble> {
        let Some((head, body)) = self.cut()? else {
            return Ok(false);
        };
        if head.kind != FrameKind::Sasl {
            return Err(DecodeError::FrameType(0).into());
        }
        self.take_sasl(SaslFrame::read(&body)?);
        Ok(true)
    }

    fn work_on_frame(&mut self) -> Result<bool, Trouble> {
        let (channel, frame) = if let Some(waiting) = self.waiting.take() {
            waiting
        } else {
            let Some((head, body)) = self.cut()? else {
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
        match self.take_frame(channel, frame) {
            Ok(None) => Ok(true),
            Ok(Some(frame)) => {
                self.waiting = Some((channel, frame));
                Ok(false)
            }
            Err(Trouble::Session(fault)) => {
                self.lose_session(channel, fault);
                Ok(true)
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Cuts the next frame from the input, if all of it is there.
    fn cut(&mut self) -> Result<Option<(FrameHead, Bytes)>, Trouble> {
        let Some(head) = FrameHead::read(&self.input, self.settings.max_frame_size.min(AMQP_FRAME_BYTES_MAX))? else {
            return Ok(None);
        };
        let size = head.size as usize;
        if self.input.len() < size {
            self.input.reserve(size - self.input.len());
            return Ok(None);
        }
        let mut frame = self.input.split_to(size).freeze();
        Ok(Some((head, frame.split_off(head.body_at))))
    }

    /// Takes up a frame. Gives it back if it has to wait for an answer of the application.
    fn take_frame(&mut self, channel: u16, frame: Frame) -> Result<Option<Frame>, Trouble> {
        if self.phase == Phase::CloseSent {
            if let Performative::Close(close) = frame.performative {
                self.take_close(*close);
            }
            return Ok(None);
        }
        match frame.performative {
            Performative::Open(open) => return self.take_open(*open).map(|()| None),
            _ if self.phase == Phase::Open => return Err(Trouble::protocol("open was due")),
            Performative::Close(close) => {
                self.take_close(*close);
                return Ok(None);
            }
            Performative::Begin(begin) => {
                let waits = self.take_begin(channel, &begin)?;
                return Ok(waits.then_some(Frame {
                    performative: Performative::Begin(begin),
                    payload: frame.payload,
                }));
            }
            _ => {}
        }
        let session = self.sessions.get(usize::from(channel)).and_then(Option::as_deref);
        let Some(session) = session.filter(|session| !session.is_peer_ended) else {
            let text = format!("no session has this channel: channel=`{channel}`");
            return Err(Trouble::Connection(Fault::new(condition::NOT_ALLOWED, text)));
        };
        if let Performative::End(end) = frame.performative {
            self.take_end(channel, *end);
            return Ok(None);
        }
        if session.is_end_sent {
            return Ok(None);
        }
        match frame.performative {
            Performative::Attach(attach) => {
                let waits = self.take_attach(channel, attach)?;
                return Ok(waits.map(|attach| Frame {
                    performative: Performative::Attach(attach),
                    payload: frame.payload,
                }));
            }
            Performative::Flow(flow) => self.take_flow(channel, &flow)?,
            Performative::Transfer(transfer) => self.take_transfer(channel, transfer, frame.payload)?,
            Performative::Disposition(disposition) => self.take_disposition(channel, disposition),
            Performative::Detach(detach) => self.take_detach(channel, *detach)?,
            Performative::Open(_) | Performative::Begin(_) | Performative::End(_) | Performative::Close(_) => {}
        }
        Ok(None)
    }

    /// Opens a session; true if its number waits for the application.
    fn take_begin(&mut self, channel: u16, begin: &Begin) -> Result<bool, Trouble> {
        let channel_max = self.settings.channel_max.min(self.peer.channel_max);
        if channel > channel_max {
            let text = format!("channel out of range: channel=`{channel}` channel_max=`{channel_max}`");
            return Err(Trouble::protocol(text));
        }
        let place = usize::from(channel);
        if self.sessions.len() <= place {
            self.sessions.resize_with(place + 1, || None);
        }
        if let Some(session) = &self.sessions[place] {
            if session.is_peer_ended {
                return Ok(true);
            }
            let text = format!("a session has this channel: channel=`{channel}`");
            return Err(Trouble::Connection(Fault::new(condition::NOT_ALLOWED, text)));
        }
        if begin.remote_channel.is_some() {
            let text = "begin answers a session that the server never began";
            return Err(Trouble::Connection(Fault::new(condition::NOT_ALLOWED, text)));
        }
        let id = SessionId {
            channel,
            turn: self.next_turn(),
        };
        let session = Session::new(id, begin, self.settings.handle_max);
        let flow = session.flow();
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
        self.sessions[place] = Some(Box::new(session));
        self.events.push_back(Event::Begin { session: id });
        Ok(false)
    }

    fn take_end(&mut self, channel: u16, end: End) {
        let place = usize::from(channel);
        let Some(Some(session)) = self.sessions.get_mut(place) else {
            return;
        };
        if session.is_end_sent {
            self.sessions[place] = None;
            return;
        }
        session.is_peer_ended = true;
        self.loads.release_all(session);
        self.events.push_back(Event::End {
            session: session.id,
            error: end.error,
        });
    }

    /// Ends a session: as an answer to the client's end, or out of the server's own will.
    pub fn end(&mut self, id: SessionId, error: Option<Fault>) {
        let place = usize::from(id.channel);
        let Some(Some(session)) = self.sessions.get_mut(place) else {
            return;
        };
        if session.id != id || session.is_end_sent {
            return;
        }
        session.flush(&mut self.output);
        put_frame(&mut self.output, id.channel, &End { error });
        if session.is_peer_ended {
            self.sessions[place] = None;
        } else {
            session.is_end_sent = true;
            self.loads.release_all(session);
        }
    }

    /// Ends the session of a client that broke its rules.
    fn lose_session(&mut self, channel: u16, fault: Fault) {
        if let Some(Some(session)) = self.sessions.get(usize::from(channel)) {
            let session = session.id;
            self.end(session, Some(fault.clone()));
            self.events.push_back(Event::SessionLost { session, fault });
        }
    }
}

impl Loads {
    /// Lets go of what a link keeps.
    pub(super) fn release(&mut self, link: &mut Link) {
        self.unanswered -= std::mem::take(&mut link.unanswered);
        self.early_bytes -= std::mem::take(&mut link.early_bytes);
        link.early.clear();
        if let Some(partial) = link.partial.take() {
            self.partial_bytes -= partial.bytes.len();
        }
    }

    fn release_all(&mut self, session: &mut Session) {
        for mut link in session.links.drain(..).flatten() {
            self.release(&mut link);
            self.links -= 1;
        }
        session.unsettled.clear();
        session.forgotten.clear();
        session.held = None;
    }
}
