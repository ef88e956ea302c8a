// SPDX-License-Identifier: Apache-2.0
//! A client engine whose server is a script of frames.

use bytes::{Bytes, BytesMut};
use oxbus_amqp::client::{ClientSettings, LinkId, LinkRequest, SessionId};
use oxbus_amqp::codec::Field;
use oxbus_amqp::performative::{
    Attach, Begin, Open, Performative, Role, SaslCode, SaslMechanisms, SaslOutcome, put_sasl_frame,
};
use oxbus_amqp::{ClientEngine, ClientEvent};

use super::frames::{AMQP_HEADER, SASL_HEADER, attach, begin, frame, frames, open};
use super::pair::output;

/// The channel that the server uses for the client's session 0.
pub(crate) const SERVER_CHANNEL: u16 = 7;

/// A client that talks to a script.
pub(crate) struct Script {
    pub(crate) client: ClientEngine,
    pub(crate) now: u64,
}

impl Script {
    pub(crate) fn new(settings: ClientSettings) -> Self {
        Self {
            client: ClientEngine::new(settings, 0),
            now: 0,
        }
    }

    /// An open connection with one session. The server's channel differs from the client's.
    pub(crate) fn open() -> (Self, SessionId) {
        Self::open_with(&open(), begin())
    }

    pub(crate) fn open_with(open: &Open, begin: Begin) -> (Self, SessionId) {
        let mut script = Self::new(ClientSettings::default());
        let session = script.client.begin().expect("a new connection");
        script.write(&handshake());
        script.say(0, open);
        let begin = Begin {
            remote_channel: Some(0),
            ..begin
        };
        script.say(SERVER_CHANNEL, &begin);
        let events = script.events();
        assert!(
            matches!(events[..], [ClientEvent::Open(_), ClientEvent::Begun { .. }]),
            "{events:?}"
        );
        script.take_output();
        (script, session)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.client.input().extend_from_slice(bytes);
    }

    pub(crate) fn say(&mut self, channel: u16, body: &impl Field) {
        self.write(&frame(channel, body, b""));
    }

    pub(crate) fn events(&mut self) -> Vec<ClientEvent> {
        std::iter::from_fn(|| self.client.next_event(self.now)).collect()
    }

    pub(crate) fn event(&mut self) -> ClientEvent {
        let mut events = self.events();
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    pub(crate) fn take_output(&mut self) -> Bytes {
        output(&mut self.client).freeze()
    }

    /// The frames that the client wrote.
    pub(crate) fn frames(&mut self) -> Vec<(u16, Performative, Bytes)> {
        frames(self.take_output())
    }

    /// The only frame that the client wrote.
    pub(crate) fn frame(&mut self) -> Performative {
        let mut frames = self.frames();
        assert_eq!(frames.len(), 1, "{frames:?}");
        frames.remove(0).1
    }

    /// Attaches a link, which the server calls `server_handle`.
    pub(crate) fn attached(&mut self, session: SessionId, request: LinkRequest, server_handle: u32) -> LinkId {
        let answer = accept(&request, server_handle);
        let link = self.client.attach(session, request).expect("the session is open");
        self.say(SERVER_CHANNEL, &answer);
        assert!(matches!(self.event(), ClientEvent::Attached { link: attached, .. } if attached == link));
        self.take_output();
        link
    }
}

/// The server's answer to an attach.
pub(crate) fn accept(request: &LinkRequest, server_handle: u32) -> Attach {
    let role = request.role.inverted();
    Attach {
        name: request.name.clone(),
        snd_settle_mode: request.snd_settle_mode,
        rcv_settle_mode: request.rcv_settle_mode,
        initial_delivery_count: (role == Role::Sender).then_some(0),
        ..attach(server_handle, role)
    }
}

/// What a server sends before its `open`.
pub(crate) fn handshake() -> Bytes {
    let mut bytes = BytesMut::from(SASL_HEADER);
    let offered = ["MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"];
    put_sasl_frame(
        &mut bytes,
        &SaslMechanisms {
            mechanisms: offered.map(oxbus_amqp::codec::Symbol::from_static).to_vec(),
        },
    );
    put_sasl_frame(
        &mut bytes,
        &SaslOutcome {
            code: SaslCode::Ok,
            additional_data: None,
        },
    );
    bytes.extend_from_slice(AMQP_HEADER);
    bytes.freeze()
}
