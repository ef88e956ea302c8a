// SPDX-License-Identifier: Apache-2.0
//! A simulated client, which writes frames to an engine and reads its output.

use bytes::{Bytes, BytesMut};
use oxbus_amqp::codec::{Field, Tag};
use oxbus_amqp::engine::{AttachResponse, DeliveryDisposition, EngineSettings, IncomingDelivery, LinkId, SessionId};
use oxbus_amqp::performative::{
    AmqpFrameHeader, Attach, Begin, Detach, Disposition, Flow, Frame, FrameKind, Open, Performative,
    ReceiverSettleMode, Role, SaslCode, SaslFrame, SaslInit, SenderSettleMode, Source, Target, Transfer, put_frame,
    put_sasl_frame,
};
use oxbus_amqp::{Engine, EngineEvent};

pub(crate) const AMQP_HEADER: &[u8] = b"AMQP\x00\x01\x00\x00";
pub(crate) const SASL_HEADER: &[u8] = b"AMQP\x03\x01\x00\x00";
pub(crate) const CHANNEL: u16 = 1;

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

/// Decodes frames; omits empty ones.
pub(crate) fn frames(mut bytes: Bytes) -> Vec<(u16, Performative, Bytes)> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let head = AmqpFrameHeader::read(&bytes, u32::MAX)
            .expect("a frame")
            .expect("a whole head");
        assert_eq!(head.kind, FrameKind::Amqp);
        let body = bytes.split_to(head.size as usize).slice(head.body_offset..);
        if let Some(frame) = Frame::read(&body).expect("a frame") {
            frames.push((head.channel, frame.performative, frame.payload));
        }
    }
    frames
}

/// Decodes a SASL frame; returns also the rest.
pub(crate) fn sasl_frame(bytes: &Bytes) -> (SaslFrame, Bytes) {
    let head = AmqpFrameHeader::read(bytes, u32::MAX)
        .expect("a frame")
        .expect("a whole head");
    assert_eq!(head.kind, FrameKind::Sasl);
    let size = head.size as usize;
    (
        SaslFrame::read(&bytes.slice(head.body_offset..size)).expect("a frame"),
        bytes.slice(size..),
    )
}

pub(crate) fn frame(channel: u16, body: &impl Field, payload: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    put_frame(&mut out, channel, body);
    out.extend_from_slice(payload);
    let size = out.len() as u32;
    out[..4].copy_from_slice(&size.to_be_bytes());
    out.freeze()
}

pub(crate) fn sasl_init(mechanism: &'static str, response: Option<&'static [u8]>) -> SaslInit {
    SaslInit {
        mechanism: mechanism.into(),
        initial_response: response.map(Bytes::from_static),
        hostname: None,
    }
}

pub(crate) fn open() -> Open {
    Open {
        container_id: "client".into(),
        hostname: Some("localhost".into()),
        max_frame_size: Some(1 << 20),
        channel_max: Some(u16::MAX),
        idle_time_out_ms: None,
        outgoing_locales: vec![],
        incoming_locales: vec![],
        offered_capabilities: vec![],
        desired_capabilities: vec![],
        properties: None,
    }
}

pub(crate) fn begin() -> Begin {
    Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window: 65_536,
        outgoing_window: 65_536,
        handle_max: Some(u32::MAX),
        offered_capabilities: vec![],
        desired_capabilities: vec![],
        properties: None,
    }
}

pub(crate) fn attach(handle: u32, role: Role) -> Attach {
    Attach {
        name: format!("link-{handle}").into(),
        handle,
        role,
        snd_settle_mode: SenderSettleMode::Unsettled,
        rcv_settle_mode: ReceiverSettleMode::Second,
        source: Some(Source::of("amqps://localhost:5672/queue").into()),
        target: Some(Target::of("amqps://localhost:5672/queue").into()),
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: (role == Role::Sender).then_some(0),
        max_message_size: None,
        offered_capabilities: vec![],
        desired_capabilities: vec![],
        properties: None,
    }
}

pub(crate) fn detach(handle: u32) -> Detach {
    Detach {
        handle,
        closed: true,
        error: None,
    }
}

pub(crate) fn transfer(handle: u32, delivery_id: u32) -> Transfer {
    Transfer {
        handle,
        delivery_id: Some(delivery_id),
        delivery_tag: Some(Tag::new(&delivery_id.to_be_bytes()).expect("a short tag")),
        message_format: Some(0),
        settled: Some(false),
        more: false,
        rcv_settle_mode: None,
        state: None,
        resume: false,
        aborted: false,
        batchable: false,
    }
}

pub(crate) fn session_flow(next_incoming_id: u32, incoming_window: u32) -> Flow {
    Flow {
        next_incoming_id: Some(next_incoming_id),
        incoming_window,
        next_outgoing_id: 0,
        outgoing_window: 65_536,
        handle: None,
        delivery_count: None,
        link_credit: None,
        available: None,
        drain: false,
        echo: false,
        properties: None,
    }
}

pub(crate) fn link_flow(handle: u32, delivery_count: u32, credit: u32) -> Flow {
    Flow {
        handle: Some(handle),
        delivery_count: Some(delivery_count),
        link_credit: Some(credit),
        ..session_flow(1, 65_536)
    }
}

pub(crate) fn disposition(first: u32, last: u32) -> Disposition {
    Disposition {
        role: Role::Receiver,
        first,
        last: Some(last),
        settled: false,
        state: Some(oxbus_amqp::performative::DeliveryState::Accepted),
        batchable: false,
    }
}
