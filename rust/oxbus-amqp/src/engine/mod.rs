// SPDX-License-Identifier: Apache-2.0
//! The server side of a connection as a state machine: bytes in, events out, commands in, bytes out.
//!
//! Has no socket, no task and no clock. The caller reads into `input`, takes events with `next_event` until there is
//! none, answers them with commands, then calls `flush` and writes `output`. It passes in monotonic time, in
//! milliseconds.
//!
//! Invariants
//! - frames are processed one at a time, in order, and only as fast as the caller takes events (backpressure);
//! - the application answers attach, detach, end, close, outcomes and drains; the engine does not;
//! - the server uses the client's channel and handle numbers; a number stays in use until the application answers, and
//!   a frame that reuses it is blocked until then;
//! - ids of sessions, links and deliveries are never reused, and commands with an old id do nothing;
//! - the limits `AMQP_…` in `oxbus_model::caps` bound what a client can make the engine store.
//!
//! Source: AMQP 1.0, parts 2 and 5; docs/behaviour.md, section 21.

mod attach;
mod connection;
mod event;
mod flow;
mod frames;
mod handshake;
mod incoming;
mod link;
mod outgoing;
mod session;
mod settings;
mod settlement;

use std::collections::VecDeque;

use bytes::BytesMut;
use oxbus_model::caps::{AMQP_OUTPUT_BYTES_MAX, AMQP_UNANSWERED_MAX};

pub use event::{AttachRequest, AttachResponse, DeliveryDisposition, EngineEvent, IncomingDelivery, LinkNotFound};
pub use outgoing::OutgoingDelivery;
pub use settings::EngineSettings;

use crate::endpoint::{ActivityTimes, PeerLimits};
pub use crate::endpoint::{DeliveryId, IncomingId, LinkId, SendError, SessionId};
use crate::performative::Frame;
use connection::EngineState;
use session::Session;
use settlement::DispositionRange;

/// The server side of a connection.
#[derive(Debug)]
pub struct Engine {
    settings: EngineSettings,
    state: EngineState,
    times: ActivityTimes,
    peer: PeerLimits,
    usage: ResourceUsage,
    input: BytesMut,
    output: BytesMut,
    events: VecDeque<EngineEvent>,
    /// A disposition of several deliveries, emitted one event at a time.
    disposition_range: Option<DispositionRange>,
    /// A frame that waits until the application answers an earlier one.
    blocked_frame: Option<(u16, Frame)>,
    /// Indexed by channel.
    sessions: Vec<Option<Box<Session>>>,
    generation: u32,
}

/// Resources that the client occupies.
#[derive(Debug, Default)]
struct ResourceUsage {
    links: usize,
    unanswered: u32,
    partial_bytes: usize,
    early_bytes: usize,
}

impl Engine {
    /// A connection accepted at `now`.
    pub fn new(settings: EngineSettings, now: u64) -> Self {
        Self {
            settings,
            state: EngineState::Header,
            times: ActivityTimes::new(now),
            peer: PeerLimits::unknown(0),
            usage: ResourceUsage::default(),
            input: BytesMut::new(),
            output: BytesMut::new(),
            events: VecDeque::new(),
            disposition_range: None,
            blocked_frame: None,
            sessions: Vec::new(),
            generation: 0,
        }
    }

    /// The input buffer: append what the client sent.
    pub fn input(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// True if the engine can process more input now. If not, write `output` or answer pending events first, without
    /// reading from the socket.
    pub fn wants_input(&self) -> bool {
        let is_deciding = matches!(
            self.state,
            EngineState::SaslDecision | EngineState::PeerClosed | EngineState::Finished
        );
        !is_deciding && self.blocked_frame.is_none() && !self.is_paused()
    }

    /// The next event. After `None`, flush, write and read.
    pub fn next_event(&mut self, now: u64) -> Option<EngineEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if let Some(event) = self.next_disposition() {
                return Some(event);
            }
            if self.is_paused() || !self.process_next(now) {
                // The last frame may have caused events.
                return self.events.pop_front();
            }
        }
    }

    /// Writes collected dispositions. Call it before writing `output`.
    pub fn flush(&mut self, now: u64) {
        for session in self.sessions.iter_mut().flatten() {
            session.flush(&mut self.output);
        }
        if !self.output.is_empty() {
            self.times.output = now;
        }
    }

    /// The output buffer: write it to the client, and remove what was written.
    pub fn output(&mut self) -> &mut BytesMut {
        &mut self.output
    }

    /// True if the client reads too slowly. Then the engine neither sends nor processes input until `output` is
    /// shorter.
    pub fn is_backed_up(&self) -> bool {
        self.output.len() >= AMQP_OUTPUT_BYTES_MAX
    }

    /// True if the connection has ended: write `output`, then close the socket.
    pub fn is_finished(&self) -> bool {
        self.state == EngineState::Finished && self.events.is_empty()
    }

    fn is_paused(&self) -> bool {
        self.is_backed_up() || self.usage.unanswered >= AMQP_UNANSWERED_MAX
    }

    fn session(&mut self, id: SessionId) -> Option<&mut Session> {
        let session = self.sessions.get_mut(usize::from(id.channel))?.as_deref_mut()?;
        (session.id == id).then_some(session)
    }

    fn session_ref(&self, id: SessionId) -> Option<&Session> {
        let session = self.sessions.get(usize::from(id.channel))?.as_deref()?;
        (session.id == id).then_some(session)
    }

    fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        self.generation
    }
}
