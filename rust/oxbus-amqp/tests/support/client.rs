// SPDX-License-Identifier: Apache-2.0
//! A simulated client, which writes frames to an engine and reads its output.

use bytes::{Bytes, BytesMut};
use oxbus_amqp::codec::Field;
use oxbus_amqp::engine::{AttachResponse, DeliveryDisposition, EngineSettings, IncomingDelivery, LinkId, SessionId};
use oxbus_amqp::performative::{Attach, Begin, Open, Performative, Role, SaslCode, SaslInit, Transfer, put_sasl_frame};
use oxbus_amqp::{Engine, EngineEvent};

pub(crate) use crate::frames::{
    AMQP_HEADER, CHANNEL, SASL_HEADER, attach, begin, detach, disposition, frame, frames, link_flow, open, sasl_frame,
    sasl_init, session_flow, transfer,
};

/// A client connected to an engine.
pub(crate) struct Client {
    pub(crate) engine: Engine,
    pub(crate) now: u64,
}

impl Client {
    /// A new connection.
    pub(crate) fn new(settings: EngineSettings) -> Self {
        Self {
            engine: Engine::new(settings, 0),
            now: 0,
        }
    }

    /// An open connection with one session.
    pub(crate) fn open() -> (Self, SessionId) {
        Self::open_with(&open(), &begin())
    }

    pub(crate) fn open_with(open: &Open, begin: &Begin) -> (Self, SessionId) {
        let mut client = Self::new(EngineSettings::default());
        client.write(SASL_HEADER);
        client.write_sasl(&sasl_init("ANONYMOUS", None));
        assert!(matches!(client.events()[..], [EngineEvent::SaslInit(_)]));
        client.engine.sasl_outcome(SaslCode::Ok);
        client.write(AMQP_HEADER);
        client.say(0, open);
        client.say(CHANNEL, begin);
        let mut events = client.events();
        let Some(EngineEvent::Begin { session }) = events.pop() else {
            panic!("a session: {events:?}");
        };
        client.take_output();
        (client, session)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.engine.input().extend_from_slice(bytes);
    }

    pub(crate) fn say(&mut self, channel: u16, body: &impl Field) {
        self.write(&frame(channel, body, b""));
    }

    pub(crate) fn transfer(&mut self, transfer: &Transfer, payload: &[u8]) {
        self.write(&frame(CHANNEL, transfer, payload));
    }

    pub(crate) fn write_sasl(&mut self, init: &SaslInit) {
        let mut out = BytesMut::new();
        put_sasl_frame(&mut out, init);
        self.write(&out);
    }

    pub(crate) fn events(&mut self) -> Vec<EngineEvent> {
        std::iter::from_fn(|| self.engine.next_event(self.now)).collect()
    }

    pub(crate) fn event(&mut self) -> EngineEvent {
        let mut events = self.events();
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    pub(crate) fn take_output(&mut self) -> Bytes {
        self.engine.flush(self.now);
        self.engine.output().split().freeze()
    }

    /// The frames that the engine wrote.
    pub(crate) fn frames(&mut self) -> Vec<(u16, Performative, Bytes)> {
        frames(self.take_output())
    }

    /// The only frame that the engine wrote.
    pub(crate) fn frame(&mut self) -> Performative {
        let mut frames = self.frames();
        assert_eq!(frames.len(), 1, "{frames:?}");
        frames.remove(0).1
    }

    /// Attaches a link to send on.
    pub(crate) fn sender(&mut self, handle: u32, credit: u32) -> LinkId {
        self.attached(&attach(handle, Role::Sender), credit)
    }

    /// Attaches a link to receive from.
    pub(crate) fn receiver(&mut self, handle: u32) -> LinkId {
        self.attached(&attach(handle, Role::Receiver), 0)
    }

    pub(crate) fn attached(&mut self, attach: &Attach, credit: u32) -> LinkId {
        self.say(CHANNEL, attach);
        let EngineEvent::Attach(request) = self.event() else {
            panic!("an attach");
        };
        let accept = AttachResponse {
            credit,
            ..AttachResponse::as_requested(&request.attach).expect("both ends")
        };
        self.engine
            .accept(request.link, accept)
            .expect("the link waits for an answer");
        self.take_output();
        request.link
    }

    /// Gives credit to a link that the client receives from.
    pub(crate) fn credit(&mut self, handle: u32, credit: u32) {
        self.say(CHANNEL, &link_flow(handle, 0, credit));
        assert!(matches!(self.events()[..], [EngineEvent::Credit { .. }]));
        self.take_output();
    }

    /// The messages that arrived.
    pub(crate) fn incoming(&mut self) -> Vec<IncomingDelivery> {
        let message = |event| {
            if let EngineEvent::Incoming(incoming) = event {
                *incoming
            } else {
                panic!("{event:?}")
            }
        };
        self.events().into_iter().map(message).collect()
    }

    /// The client's dispositions.
    pub(crate) fn settles(&mut self) -> Vec<DeliveryDisposition> {
        let settle = |event| {
            if let EngineEvent::Disposition(settle) = event {
                *settle
            } else {
                panic!("{event:?}")
            }
        };
        self.events().into_iter().map(settle).collect()
    }
}
