// SPDX-License-Identifier: Apache-2.0
//! Open, close and idle timeout of the connection.

use oxbus_model::caps::{AMQP_CLOSE_MS_MAX, AMQP_HANDSHAKE_MS_MAX};

use super::{Engine, EngineEvent};
use crate::endpoint::{PeerLimits, ProtocolError};
use crate::performative::{AmqpError, Close, Open, condition, put_empty_frame, put_frame};

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EngineState {
    /// Waits for the client's first protocol header.
    Header,
    /// Waits for `sasl-init`.
    Sasl,
    /// Waits until the application decides about the credentials.
    SaslDecision,
    /// Waits for the protocol header after SASL.
    AmqpHeader,
    /// Waits for `open`.
    Open,
    /// Open on both sides.
    Running,
    /// The client has closed it; the server has to answer.
    PeerClosed,
    /// The server has closed it, and waits for the close of the client.
    CloseSent,
    /// Closed on both sides, or aborted.
    Finished,
}

impl Engine {
    /// The time of the next `tick`.
    pub fn deadline(&self) -> Option<u64> {
        match self.state {
            EngineState::Finished => None,
            EngineState::CloseSent => Some(self.times.closing + AMQP_CLOSE_MS_MAX),
            EngineState::Running | EngineState::PeerClosed => {
                let times = [self.idle_deadline(), self.heartbeat_due()];
                times.into_iter().flatten().min()
            }
            _ => Some(self.times.started + AMQP_HANDSHAKE_MS_MAX),
        }
    }

    /// Handles timeouts: sends a heartbeat, or closes the connection of a silent client.
    pub fn tick(&mut self, now: u64) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.state {
            EngineState::Running | EngineState::PeerClosed => {
                if self.idle_deadline().is_some_and(|end| end <= now) {
                    let text = format!(
                        "no frame arrived within twice the idle timeout of {} ms",
                        self.settings.idle_ms
                    );
                    self.fail(AmqpError::new(condition::RESOURCE_LIMIT_EXCEEDED, text), now);
                } else {
                    put_empty_frame(&mut self.output);
                    self.times.output = now;
                }
            }
            EngineState::CloseSent | EngineState::Finished => self.state = EngineState::Finished,
            _ => {
                let text = format!("the connection was not opened within {AMQP_HANDSHAKE_MS_MAX} ms");
                self.abort(AmqpError::new(condition::CONNECTION_FORCED, text));
            }
        }
    }

    fn idle_deadline(&self) -> Option<u64> {
        self.times.idle_deadline(self.settings.idle_ms)
    }

    fn heartbeat_due(&self) -> Option<u64> {
        self.times.heartbeat_due(self.peer.idle_ms)
    }

    /// Closes the connection: answers the client's close, or closes on the server's initiative.
    pub fn close(&mut self, error: Option<AmqpError>, now: u64) {
        match self.state {
            EngineState::CloseSent | EngineState::Finished => return,
            EngineState::Header | EngineState::Sasl | EngineState::SaslDecision | EngineState::AmqpHeader => {
                self.state = EngineState::Finished;
                return;
            }
            EngineState::Open => self.put_open(),
            EngineState::Running | EngineState::PeerClosed => {}
        }
        for session in self.sessions.iter_mut().flatten() {
            session.flush(&mut self.output);
        }
        put_frame(&mut self.output, 0, &Close { error });
        self.times.closing = now;
        self.state = if self.state == EngineState::PeerClosed {
            EngineState::Finished
        } else {
            EngineState::CloseSent
        };
        self.drop_sessions();
    }

    /// Closes the connection after a protocol error.
    pub(super) fn fail(&mut self, error: AmqpError, now: u64) {
        if self.state != EngineState::CloseSent {
            self.close(Some(error.clone()), now);
            self.events.push_back(EngineEvent::Failed(error));
        }
    }

    pub(super) fn handle_open(&mut self, open: Open) -> Result<(), ProtocolError> {
        if self.state != EngineState::Open {
            return Err(ProtocolError::not_allowed("open was sent twice"));
        }
        self.peer = PeerLimits::announced(&open).map_err(ProtocolError::Connection)?;
        self.put_open();
        self.state = EngineState::Running;
        self.events.push_back(EngineEvent::Open(Box::new(open)));
        Ok(())
    }

    fn put_open(&mut self) {
        let settings = &self.settings;
        let open = Open {
            container_id: settings.container_id.clone(),
            hostname: None,
            max_frame_size: Some(settings.max_frame_size),
            channel_max: Some(settings.channel_max),
            idle_time_out_ms: (settings.idle_ms > 0).then_some(settings.idle_ms),
            outgoing_locales: Vec::new(),
            incoming_locales: Vec::new(),
            offered_capabilities: settings.offered_capabilities.clone(),
            desired_capabilities: Vec::new(),
            properties: Some(settings.properties.clone()),
        };
        put_frame(&mut self.output, 0, &open);
    }

    pub(super) fn handle_close(&mut self, close: Close) {
        if self.state == EngineState::CloseSent {
            self.state = EngineState::Finished;
        } else {
            self.state = EngineState::PeerClosed;
            self.events.push_back(EngineEvent::Close { error: close.error });
        }
    }

    /// Drops all sessions. No event follows for them.
    fn drop_sessions(&mut self) {
        self.sessions.clear();
        self.disposition_range = None;
        self.blocked_frame = None;
        self.usage = super::ResourceUsage::default();
    }
}
