// SPDX-License-Identifier: Apache-2.0
//! The client half of a connection as a state machine: bytes in, events out, commands in, bytes out.
//!
//! Has no socket, no task and no clock. The caller reads into `input`, takes events with `next_event` until there is
//! none, gives commands at any time, then calls `flush` and writes `output`. It passes in monotonic time, in
//! milliseconds, and calls `tick` at `deadline`.
//!
//! Invariants
//! - commands may precede the answers of the server: sessions and links are begun at once, messages wait for credit;
//! - the engine answers the server's detach, end and close itself; the caller only learns of them;
//! - a refused link is reported by `Detached` without an earlier `Attached`;
//! - the client chooses its channel and handle numbers; the server's are only mapped to them, by remote channel and by
//!   the name of the link;
//! - ids of sessions, links and deliveries are never reused, and commands with an old id do nothing;
//! - input is processed even while the output is full, so that two sides that send at once never wait for each other;
//! - after `Failed`, `Closed` or `Disconnected` no event follows, and `is_finished` is true once the output is written.
//!
//! Source: AMQP 1.0, parts 2 and 5.

mod attach;
mod connection;
mod event;
mod flow;
mod frames;
mod handshake;
mod link;
mod receiving;
mod sending;
mod session;
mod settings;
mod settlement;

use std::collections::VecDeque;

use bytes::BytesMut;
use oxbus_model::caps::AMQP_OUTPUT_BYTES_MAX;

pub use crate::endpoint::{DeliveryId, LinkId, SendError, SessionId};
pub use event::{ClientEvent, DeliveryOutcome, ReceivedDelivery, ReceivedId};
pub use link::LinkRequest;
pub use sending::OutgoingMessage;
pub use settings::{ClientSettings, SaslChoice};

use crate::endpoint::{ActivityTimes, PeerLimits};
use connection::ClientState;
use session::ClientSession;

/// A session or link of a command no longer exists, or the limit of the server leaves no number for a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandError {
    /// The connection is closing or closed.
    ConnectionClosed,
    /// The session has ended.
    SessionNotFound,
    /// The server allows no more sessions on the connection.
    TooManySessions,
    /// The server allows no more links in the session.
    TooManyLinks,
    /// The delivery is settled, or its link is detached.
    DeliveryNotFound,
}

impl std::fmt::Display for CommandError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::ConnectionClosed => "the connection is closed",
            Self::SessionNotFound => "the session has ended",
            Self::TooManySessions => "the server allows no more sessions on this connection",
            Self::TooManyLinks => "the server allows no more links in this session",
            Self::DeliveryNotFound => "the message is settled already, or its link is closed",
        })
    }
}

impl std::error::Error for CommandError {}

/// The client half of a connection.
#[derive(Debug)]
pub struct ClientEngine {
    settings: ClientSettings,
    state: ClientState,
    times: ActivityTimes,
    peer: PeerLimits,
    input: BytesMut,
    output: BytesMut,
    /// Frames of commands that precede the protocol header, which follows SASL.
    early_output: BytesMut,
    events: VecDeque<ClientEvent>,
    /// Bytes of incomplete messages.
    partial_bytes: usize,
    /// Indexed by the channel that the client chose.
    sessions: Vec<Option<Box<ClientSession>>>,
    /// The client's channel for each channel of the server.
    channels: Vec<Option<u16>>,
    generation: u32,
}

impl ClientEngine {
    /// A connection that was opened at `now`. Its protocol header is already in `output`.
    pub fn new(settings: ClientSettings, now: u64) -> Self {
        let mut engine = Self {
            settings,
            state: ClientState::Header,
            times: ActivityTimes::new(now),
            peer: PeerLimits::unknown(u16::MAX),
            input: BytesMut::new(),
            output: BytesMut::new(),
            early_output: BytesMut::new(),
            events: VecDeque::new(),
            partial_bytes: 0,
            sessions: Vec::new(),
            channels: Vec::new(),
            generation: 0,
        };
        engine.put_first_header();
        engine
    }

    /// The input buffer: append what the server sent.
    pub fn input(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// The next event. After `None`, flush, write and read.
    pub fn next_event(&mut self, now: u64) -> Option<ClientEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if !self.process_next(now) {
                // The last frame may have caused events.
                return self.events.pop_front();
            }
        }
    }

    /// Writes collected dispositions. Call it before writing `output`.
    pub fn flush(&mut self, now: u64) {
        if !self.is_ended() {
            let channels = self.sessions.iter_mut().flatten();
            for session in channels {
                let out = if self.state.has_sent_header() {
                    &mut self.output
                } else {
                    &mut self.early_output
                };
                session.flush(out);
            }
        }
        if !self.output.is_empty() {
            self.times.output = now;
        }
    }

    /// The output buffer: write it to the server, and remove what was written.
    pub fn output(&mut self) -> &mut BytesMut {
        &mut self.output
    }

    /// True if the server reads too slowly. Then `send` refuses messages until `output` is shorter.
    pub fn is_backed_up(&self) -> bool {
        self.output.len() >= AMQP_OUTPUT_BYTES_MAX
    }

    /// True if the connection is open on both sides.
    pub fn is_open(&self) -> bool {
        self.state == ClientState::Running
    }

    /// True if the connection has ended and all events are taken: write `output`, then close the socket.
    pub fn is_finished(&self) -> bool {
        self.state == ClientState::Finished && self.events.is_empty()
    }

    /// True if the connection takes no more commands.
    fn is_ended(&self) -> bool {
        matches!(self.state, ClientState::CloseSent | ClientState::Finished)
    }

    /// Where frames go: behind the protocol header, which may have to wait for SASL.
    fn out(&mut self) -> &mut BytesMut {
        if self.state.has_sent_header() {
            &mut self.output
        } else {
            &mut self.early_output
        }
    }

    fn session(&mut self, id: SessionId) -> Option<&mut ClientSession> {
        let session = self.sessions.get_mut(usize::from(id.channel))?.as_deref_mut()?;
        (session.id == id).then_some(session)
    }

    fn session_ref(&self, id: SessionId) -> Option<&ClientSession> {
        let session = self.sessions.get(usize::from(id.channel))?.as_deref()?;
        (session.id == id).then_some(session)
    }

    fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        self.generation
    }
}
