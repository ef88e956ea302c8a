// SPDX-License-Identifier: Apache-2.0
//! A client engine and a server engine, joined by a pipe in memory.

use bytes::{Bytes, BytesMut};
use oxbus_amqp::client::{ClientSettings, LinkRequest, OutgoingMessage, ReceivedDelivery};
use oxbus_amqp::codec::Tag;
use oxbus_amqp::engine::{AttachResponse, DeliveryId, EngineSettings, LinkId, OutgoingDelivery, SendError, SessionId};
use oxbus_amqp::performative::{Attach, DeliveryState, Role, SaslCode, Source, Target};
use oxbus_amqp::{ClientEngine, ClientEvent, Engine, EngineEvent};

/// Credit that the server gives a link.
pub(crate) const CREDIT: u32 = 100;

/// A client and a server. The server accepts everything, except in tests that say otherwise.
pub(crate) struct Pair {
    pub(crate) client: ClientEngine,
    pub(crate) server: Engine,
    pub(crate) now: u64,
    /// Outcome of messages to the server. `None` leaves them without.
    pub(crate) outcome: Option<DeliveryState>,
    /// Answer to settlements of the client. `None` repeats the client's state.
    pub(crate) confirmation: Option<DeliveryState>,
    /// Credit of links to the server.
    pub(crate) credit: u32,
    /// Changes the terms of a link, or refuses it.
    pub(crate) terms: fn(&Attach, AttachResponse) -> Option<AttachResponse>,
    /// What the server received, other than answered by the pair.
    pub(crate) server_events: Vec<EngineEvent>,
    /// Lengths of the pieces of the pipe, in turn. Empty means whole.
    pub(crate) pieces: Vec<usize>,
    turn: usize,
    events: Vec<ClientEvent>,
}

impl Pair {
    pub(crate) fn new(settings: ClientSettings) -> Self {
        Self::with_server(settings, EngineSettings::default())
    }

    pub(crate) fn with_server(settings: ClientSettings, server: EngineSettings) -> Self {
        Self {
            client: ClientEngine::new(settings, 0),
            server: Engine::new(server, 0),
            now: 0,
            outcome: Some(DeliveryState::Accepted),
            confirmation: None,
            credit: CREDIT,
            terms: |_, terms| Some(terms),
            server_events: Vec::new(),
            pieces: Vec::new(),
            turn: 0,
            events: Vec::new(),
        }
    }

    /// An open connection with one session.
    pub(crate) fn open() -> (Self, SessionId) {
        let mut pair = Self::new(ClientSettings::default());
        let session = pair.client.begin().expect("a new connection");
        let events = pair.exchange();
        assert!(
            matches!(events[..], [ClientEvent::Open(_), ClientEvent::Begun { .. }]),
            "{events:?}"
        );
        pair.server_events.clear();
        (pair, session)
    }

    /// Attaches a link, and returns its two ids.
    pub(crate) fn attach(&mut self, session: SessionId, request: LinkRequest) -> (LinkId, LinkId) {
        let link = self.client.attach(session, request).expect("the session is open");
        let events = self.exchange();
        assert!(
            matches!(events[0], ClientEvent::Attached { link: attached, .. } if attached == link),
            "{events:?}"
        );
        let attached = |event: &EngineEvent| match event {
            EngineEvent::Attach(request) => Some(request.link),
            _ => None,
        };
        let at_server = self.server_events.iter().rev().find_map(attached);
        (link, at_server.expect("the server saw the link"))
    }

    /// A link to send on, with credit.
    pub(crate) fn sender(&mut self, session: SessionId) -> (LinkId, LinkId) {
        self.attach(session, sender("sender"))
    }

    /// A link to receive from.
    pub(crate) fn receiver(&mut self, session: SessionId, credit: u32) -> (LinkId, LinkId) {
        let request = LinkRequest {
            credit,
            ..receiver("receiver")
        };
        self.attach(session, request)
    }

    /// Carries bytes in both directions until both sides are quiet. Returns the client's events.
    pub(crate) fn exchange(&mut self) -> Vec<ClientEvent> {
        loop {
            self.client.flush(self.now);
            let to_server = self.client.output().split().freeze();
            let mut is_quiet = to_server.is_empty();
            for piece in self.cut(&to_server) {
                self.server.input().extend_from_slice(&piece);
                self.serve();
            }
            self.serve();
            self.server.flush(self.now);
            let to_client = self.server.output().split().freeze();
            is_quiet &= to_client.is_empty();
            for piece in self.cut(&to_client) {
                self.client.input().extend_from_slice(&piece);
                while let Some(event) = self.client.next_event(self.now) {
                    self.events.push(event);
                }
            }
            while let Some(event) = self.client.next_event(self.now) {
                self.events.push(event);
            }
            if is_quiet {
                return std::mem::take(&mut self.events);
            }
        }
    }

    /// Sends a message to the server.
    pub(crate) fn send(&mut self, link: LinkId, message: &[u8]) -> Result<oxbus_amqp::client::DeliveryId, SendError> {
        let (head, rest) = message.split_at(message.len() / 2);
        self.client.send(link, &outgoing(&[head, rest]))
    }

    /// Sends messages to the client.
    pub(crate) fn deliver(&mut self, link: LinkId, messages: &[&[u8]]) -> Vec<DeliveryId> {
        let number = |index: usize| Tag::from_number(index as u32);
        let sent = messages.iter().enumerate().map(|(index, message)| {
            let outgoing = OutgoingDelivery {
                tag: Some(&number(index)),
                message_format: 0,
                settled: false,
                parts: &[message],
            };
            self.server.send(link, &outgoing).expect("the client gave credit")
        });
        sent.collect()
    }

    /// Messages that arrived at the client.
    pub(crate) fn received(&mut self) -> Vec<ReceivedDelivery> {
        let received = |event| match event {
            ClientEvent::Received(received) => *received,
            other => panic!("{other:?}"),
        };
        self.exchange().into_iter().map(received).collect()
    }

    /// Messages that arrived at the server.
    pub(crate) fn arrived(&mut self) -> Vec<(u32, Option<DeliveryState>, Bytes)> {
        let arrived = |event: EngineEvent| match event {
            EngineEvent::Incoming(incoming) => Some((incoming.message_format, incoming.state, incoming.message)),
            _ => None,
        };
        self.server_events.drain(..).filter_map(arrived).collect()
    }

    fn cut(&mut self, bytes: &Bytes) -> Vec<Bytes> {
        let mut rest = bytes.clone();
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let length = if self.pieces.is_empty() {
                rest.len()
            } else {
                self.turn += 1;
                self.pieces[self.turn % self.pieces.len()].clamp(1, rest.len())
            };
            pieces.push(rest.split_to(length));
        }
        pieces
    }

    fn serve(&mut self) {
        while let Some(event) = self.server.next_event(self.now) {
            self.answer(event);
        }
    }

    fn answer(&mut self, event: EngineEvent) {
        match &event {
            EngineEvent::SaslInit(_) => self.server.sasl_outcome(SaslCode::Ok),
            EngineEvent::Attach(request) => {
                let terms = AttachResponse::as_requested(&request.attach);
                match terms.and_then(|terms| (self.terms)(&request.attach, terms)) {
                    Some(terms) => {
                        let credit = if request.attach.role == Role::Sender {
                            self.credit
                        } else {
                            0
                        };
                        // A link that was detached has its own event.
                        let _ = self.server.accept(request.link, AttachResponse { credit, ..terms });
                    }
                    None => self.server.detach(request.link, Some(refusal())),
                }
            }
            EngineEvent::Disposition(settle) if !settle.settled => {
                let state = self.confirmation.clone().or(settle.state.clone());
                self.server.settle(settle.delivery, state.expect("an outcome"));
            }
            EngineEvent::Detach { link, .. } => self.server.detach(*link, None),
            EngineEvent::End { session, .. } => self.server.end(*session, None),
            EngineEvent::Close { .. } => self.server.close(None, self.now),
            EngineEvent::Credit { link, drain: true, .. } => self.server.drained(*link),
            _ => {}
        }
        match event {
            EngineEvent::Incoming(mut incoming) => {
                if let (Some(id), Some(outcome)) = (incoming.id.take(), &self.outcome) {
                    self.server.answer(id, outcome.clone());
                }
                incoming.message = Bytes::copy_from_slice(&incoming.message);
                self.server_events.push(EngineEvent::Incoming(incoming));
            }
            other => self.server_events.push(other),
        }
    }
}

/// Why the server refuses a link.
pub(crate) fn refusal() -> oxbus_amqp::performative::AmqpError {
    oxbus_amqp::performative::AmqpError {
        info: Some(oxbus_amqp::codec::Map::new().with("entity", "orders")),
        ..oxbus_amqp::performative::AmqpError::new("amqp:not-found", "there is no queue `orders`")
    }
}

/// A link to send on.
pub(crate) fn sender(name: &'static str) -> LinkRequest {
    LinkRequest::sender(name, Source::of("here"), Target::of("orders"))
}

/// A link to receive from.
pub(crate) fn receiver(name: &'static str) -> LinkRequest {
    LinkRequest::receiver(name, Source::of("orders"), Target::of("here"))
}

/// A message with its parts.
pub(crate) fn outgoing<'a>(parts: &'a [&'a [u8]]) -> OutgoingMessage<'a> {
    OutgoingMessage {
        message_format: 0,
        settled: false,
        state: None,
        parts,
    }
}

/// The output of a client.
pub(crate) fn output(client: &mut ClientEngine) -> BytesMut {
    client.flush(0);
    client.output().split()
}
