// SPDX-License-Identifier: Apache-2.0
//! Open, close, end of input, and idle timeout of the connection.

use oxbus_model::caps::{AMQP_CLOSE_MS_MAX, AMQP_HANDSHAKE_MS_MAX};

use super::{ClientEngine, ClientEvent};
use crate::endpoint::{PeerLimits, ProtocolError};
use crate::performative::{AmqpError, Close, Open, condition, put_empty_frame, put_frame};

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientState {
    /// Waits for the server's header of SASL.
    Header,
    /// Waits for the mechanisms of SASL.
    Mechanisms,
    /// Waits for the outcome of SASL.
    SaslOutcome,
    /// Waits for the server's header of AMQP; header, `open` and first commands are sent.
    AmqpHeader,
    /// Waits for `open`.
    Open,
    /// Open on both sides.
    Running,
    /// The client has closed it, and waits for the close of the server.
    CloseSent,
    /// Closed on both sides, or aborted.
    Finished,
}

impl ClientState {
    pub(super) fn has_sent_header(self) -> bool {
        !matches!(self, Self::Header | Self::Mechanisms | Self::SaslOutcome)
    }
}

impl ClientEngine {
    /// The time of the next `tick`.
    pub fn deadline(&self) -> Option<u64> {
        match self.state {
            ClientState::Finished => None,
            ClientState::CloseSent => Some(self.times.closing + AMQP_CLOSE_MS_MAX),
            ClientState::Running => {
                let times = [
                    self.times.idle_deadline(self.settings.idle_ms),
                    self.times.heartbeat_due(self.peer.idle_ms),
                ];
                times.into_iter().flatten().min()
            }
            _ => Some(self.times.started + AMQP_HANDSHAKE_MS_MAX),
        }
    }

    /// Handles timeouts: sends a heartbeat, or closes the connection to a silent server.
    pub fn tick(&mut self, now: u64) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.state {
            ClientState::Running => {
                let silent_at = self.times.idle_deadline(self.settings.idle_ms);
                if silent_at.is_some_and(|end| end <= now) {
                    let text = format!(
                        "the server sent nothing within twice the idle timeout of {} ms",
                        self.settings.idle_ms
                    );
                    self.fail(AmqpError::new(condition::RESOURCE_LIMIT_EXCEEDED, text));
                } else {
                    put_empty_frame(&mut self.output);
                    self.times.output = now;
                }
            }
            ClientState::CloseSent => self.finish(ClientEvent::Closed { error: None }),
            _ => {
                let text = format!("the server did not open the connection within {AMQP_HANDSHAKE_MS_MAX} ms");
                self.abort(AmqpError::new(condition::CONNECTION_FORCED, text));
            }
        }
    }

    /// Closes the connection. `Closed` follows, at the latest after some seconds.
    pub fn close(&mut self, error: Option<AmqpError>, now: u64) {
        match self.state {
            ClientState::CloseSent | ClientState::Finished => {}
            ClientState::Header | ClientState::Mechanisms | ClientState::SaslOutcome => {
                self.finish(ClientEvent::Closed { error: None });
            }
            ClientState::AmqpHeader | ClientState::Open | ClientState::Running => {
                self.flush(now);
                put_frame(&mut self.output, 0, &Close { error });
                self.times.closing = now;
                self.drop_sessions();
                self.state = ClientState::CloseSent;
            }
        }
    }

    /// The bytes of the server have ended, or its socket failed. Process the input before.
    pub fn disconnected(&mut self) {
        match self.state {
            ClientState::Finished => {}
            ClientState::CloseSent => self.finish(ClientEvent::Closed { error: None }),
            _ => self.finish(ClientEvent::Disconnected),
        }
    }

    /// Closes the connection after an error of the server. Its answer is not awaited.
    pub(super) fn fail(&mut self, error: AmqpError) {
        if self.state == ClientState::CloseSent {
            self.finish(ClientEvent::Closed { error: None });
            return;
        }
        let close = Close {
            error: Some(error.clone()),
        };
        put_frame(&mut self.output, 0, &close);
        self.finish(ClientEvent::Failed(error));
    }

    /// Emits the last event.
    pub(super) fn finish(&mut self, event: ClientEvent) {
        self.state = ClientState::Finished;
        self.early_output.clear();
        self.drop_sessions();
        self.events.push_back(event);
    }

    pub(super) fn handle_open(&mut self, open: Open) -> Result<(), ProtocolError> {
        if self.state != ClientState::Open {
            return Err(ProtocolError::not_allowed("open was sent twice"));
        }
        self.peer = PeerLimits::announced(&open).map_err(ProtocolError::Connection)?;
        self.state = ClientState::Running;
        self.events.push_back(ClientEvent::Open(Box::new(open)));
        Ok(())
    }

    pub(super) fn put_open(&mut self) {
        let settings = &self.settings;
        let open = Open {
            container_id: settings.container_id.clone(),
            hostname: settings.hostname.clone(),
            max_frame_size: Some(settings.max_frame_size),
            channel_max: Some(settings.channel_max),
            idle_time_out_ms: (settings.idle_ms > 0).then_some(settings.idle_ms),
            outgoing_locales: Vec::new(),
            incoming_locales: Vec::new(),
            offered_capabilities: settings.offered_capabilities.clone(),
            desired_capabilities: settings.desired_capabilities.clone(),
            properties: Some(settings.properties.clone()),
        };
        put_frame(&mut self.output, 0, &open);
    }

    pub(super) fn handle_close(&mut self, close: Close) {
        if self.state != ClientState::CloseSent {
            put_frame(&mut self.output, 0, &Close { error: None });
        }
        self.finish(ClientEvent::Closed { error: close.error });
    }

    /// Drops all sessions. No event follows for them.
    fn drop_sessions(&mut self) {
        self.sessions.clear();
        self.channels.clear();
        self.partial_bytes = 0;
    }
}
