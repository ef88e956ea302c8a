// SPDX-License-Identifier: Apache-2.0
//! Dispatches the frames of the server.

use oxbus_model::caps::AMQP_OUTPUT_BYTES_MAX;

use super::connection::ClientState;
use super::{ClientEngine, ClientEvent};
use crate::codec::DecodeError;
use crate::endpoint::{ProtocolError, split_frame};
use crate::performative::{AmqpError, Frame, FrameKind, Performative, SaslFrame, condition};

impl ClientEngine {
    /// Processes the next protocol header or frame. Returns false if there is none.
    pub(super) fn process_next(&mut self, now: u64) -> bool {
        let done = match self.state {
            ClientState::Header | ClientState::AmqpHeader => Ok(self.handle_header()),
            ClientState::Mechanisms | ClientState::SaslOutcome => self.process_sasl(),
            ClientState::Open | ClientState::Running | ClientState::CloseSent => self.process_frame(),
            ClientState::Finished => Ok(false),
        };
        match done {
            Ok(is_done) => {
                if is_done {
                    self.times.input = now;
                }
                is_done
            }
            Err(ProtocolError::Connection(error) | ProtocolError::Session(error)) => {
                if self.state.has_sent_header() {
                    self.fail(error);
                } else {
                    self.abort(error);
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
        let Some((head, body)) = split_frame(&mut self.input, self.settings.max_frame_size)? else {
            return Ok(false);
        };
        if head.kind != FrameKind::Amqp {
            return Err(DecodeError::FrameType(1).into());
        }
        let Some(frame) = Frame::read(&body)? else {
            return Ok(true);
        };
        if self.output.len() >= 2 * AMQP_OUTPUT_BYTES_MAX {
            let text = "the server demands answers but does not read them";
            return Err(ProtocolError::Connection(AmqpError::new(
                condition::RESOURCE_LIMIT_EXCEEDED,
                text,
            )));
        }
        let channel = head.channel;
        match self.handle_frame(channel, frame) {
            Err(ProtocolError::Session(error)) => {
                self.fail_session(channel, error);
                Ok(true)
            }
            done => done.map(|()| true),
        }
    }

    fn handle_frame(&mut self, server_channel: u16, frame: Frame) -> Result<(), ProtocolError> {
        if self.state == ClientState::CloseSent {
            if let Performative::Close(close) = frame.performative {
                self.handle_close(*close);
            }
            return Ok(());
        }
        match frame.performative {
            Performative::Open(open) => return self.handle_open(*open),
            Performative::Close(close) => {
                self.handle_close(*close);
                return Ok(());
            }
            _ if self.state == ClientState::Open => return Err(ProtocolError::framing("open must come first")),
            Performative::Begin(begin) => return self.handle_begin(server_channel, &begin),
            _ => {}
        }
        let Some(channel) = self.channels.get(usize::from(server_channel)).copied().flatten() else {
            let text = format!("no session has this channel: channel=`{server_channel}`");
            return Err(ProtocolError::not_allowed(text));
        };
        if let Performative::End(end) = frame.performative {
            self.handle_end(channel, server_channel, *end);
            return Ok(());
        }
        let Some(Some(session)) = self.sessions.get(usize::from(channel)) else {
            return Ok(());
        };
        if session.is_end_sent {
            return Ok(());
        }
        match frame.performative {
            Performative::Attach(attach) => self.handle_attach(channel, attach),
            Performative::Flow(flow) => self.handle_flow(channel, &flow),
            Performative::Transfer(transfer) => self.handle_transfer(channel, transfer, frame.payload),
            Performative::Disposition(disposition) => {
                self.handle_disposition(channel, &disposition);
                Ok(())
            }
            Performative::Detach(detach) => self.handle_detach(channel, *detach),
            Performative::Open(_) | Performative::Begin(_) | Performative::End(_) | Performative::Close(_) => Ok(()),
        }
    }

    /// Ends a session after a protocol error.
    fn fail_session(&mut self, server_channel: u16, error: AmqpError) {
        let channel = self.channels.get(usize::from(server_channel)).copied().flatten();
        let session = channel.and_then(|channel| self.sessions.get(usize::from(channel)));
        if let Some(Some(session)) = session {
            let session = session.id;
            self.end(session, Some(error.clone()));
            self.events.push_back(ClientEvent::SessionFailed { session, error });
        }
    }
}
