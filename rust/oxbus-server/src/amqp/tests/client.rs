// SPDX-License-Identifier: Apache-2.0
//! A test client that writes single frames into a pipe.

use bytes::{Bytes, BytesMut};
use oxbus_amqp::codec::{Field, Map, Symbol};
use oxbus_amqp::performative::{
    AmqpError, AmqpFrameHeader, Attach, Begin, Disposition, Flow, Frame, FrameKind, Open, Performative,
    ReceiverSettleMode, Role, SaslCode, SaslFrame, SaslInit, SenderSettleMode, Source, Target, put_empty_frame,
    put_frame, put_sasl_frame,
};
use oxbus_broker::{Namespace, NamespaceOptions};
use oxbus_model::caps::AMQP_FRAME_BYTES_MAX;
use oxbus_model::options::QueueSettings;
use oxbus_store::Wait;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::amqp::connection::AmqpConnection;
use crate::front::{Context, PeerInfo};

/// The capacity of the pipe in each direction.
pub(super) const PIPE_BYTES: usize = 64 << 10;

/// A namespace with a queue `q`.
pub(super) fn namespace() -> Namespace {
    let namespace = Namespace::open(NamespaceOptions::default()).expect("memory");
    namespace
        .create_queue("q", QueueSettings::default(), &Wait::FOREVER)
        .expect("q");
    namespace
}

/// The client, and the task that serves it.
pub(super) struct Client {
    stream: DuplexStream,
    input: BytesMut,
    pub(super) stop: watch::Sender<bool>,
    pub(super) server: JoinHandle<()>,
}

impl Client {
    /// A connection on which nothing was sent.
    pub(super) fn new(namespace: Namespace) -> Self {
        let (stream, served) = tokio::io::duplex(PIPE_BYTES);
        let (stop, stopped) = watch::channel(false);
        let context = Context::for_tests_until(namespace, stopped);
        let peer = PeerInfo {
            is_encrypted: false,
            address: None,
        };
        let server = tokio::spawn(AmqpConnection::new(context, peer).run(served));
        Self {
            stream,
            input: BytesMut::new(),
            stop,
            server,
        }
    }

    /// An open connection with one session, authenticated with the development key if `is_known`.
    pub(super) async fn open(namespace: Namespace, is_known: bool) -> Self {
        let mut client = Self::new(namespace);
        let response: &'static [u8] = if is_known {
            b"\0RootManageSharedAccessKey\0SAS_KEY_VALUE"
        } else {
            b""
        };
        let mechanism = if is_known { "PLAIN" } else { "ANONYMOUS" };
        assert_eq!(client.authenticate(mechanism, response).await, SaslCode::Ok);
        let open = Open {
            container_id: "test".into(),
            hostname: None,
            max_frame_size: Some(AMQP_FRAME_BYTES_MAX),
            channel_max: None,
            idle_time_out_ms: None,
            outgoing_locales: Vec::new(),
            incoming_locales: Vec::new(),
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
        };
        client.bytes(b"AMQP\x00\x01\x00\x00").await;
        client.send(&open).await;
        assert_eq!(client.header().await, *b"AMQP\x00\x01\x00\x00");
        assert!(matches!(client.next_performative().await, Some(Performative::Open(_))));
        client.begin(0).await;
        client
    }

    /// Begins a session.
    pub(super) async fn begin(&mut self, channel: u16) {
        let begin = Begin {
            remote_channel: None,
            next_outgoing_id: 0,
            incoming_window: 65_536,
            outgoing_window: 65_536,
            handle_max: None,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
        };
        let mut out = BytesMut::new();
        put_frame(&mut out, channel, &begin);
        self.bytes(&out).await;
        match self.next_performative().await {
            Some(Performative::Begin(begin)) => assert_eq!(begin.remote_channel, Some(channel)),
            other => panic!("no begin: {other:?}"),
        }
    }

    /// Drops the connection and waits until the server has noticed.
    pub(super) async fn disconnect(self) {
        // The stop signal is dropped last, because a stopping server would no longer read.
        let Self {
            server, stop, stream, ..
        } = self;
        drop(stream);
        server.await.expect("the connection ended");
        drop(stop);
    }

    /// Authenticates. Returns the outcome.
    pub(super) async fn authenticate(&mut self, mechanism: &'static str, response: &'static [u8]) -> SaslCode {
        self.bytes(b"AMQP\x03\x01\x00\x00").await;
        assert_eq!(self.header().await, *b"AMQP\x03\x01\x00\x00");
        self.frame().await.expect("sasl-mechanisms");
        let init = SaslInit {
            mechanism: Symbol::from(mechanism),
            initial_response: Some(Bytes::from_static(response)),
            hostname: None,
        };
        let mut out = BytesMut::new();
        put_sasl_frame(&mut out, &init);
        self.bytes(&out).await;
        let (_, body) = self.frame().await.expect("sasl-outcome");
        match SaslFrame::read(&body).expect("a frame of SASL") {
            SaslFrame::Outcome(outcome) => outcome.code,
            other => panic!("not an outcome: {other:?}"),
        }
    }

    /// Sends an attach.
    pub(super) async fn send_attach(&mut self, handle: u32, role: Role, address: &str) {
        self.send_attach_to(handle, role, address, Target::of(address)).await;
    }

    async fn send_attach_to(&mut self, handle: u32, role: Role, address: &str, target: Target) {
        let attach = Attach {
            name: format!("link-{handle}").into(),
            handle,
            role,
            snd_settle_mode: SenderSettleMode::Unsettled,
            rcv_settle_mode: ReceiverSettleMode::Second,
            source: Some(Box::new(Source::of(address))),
            target: Some(Box::new(target)),
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: (role == Role::Sender).then_some(0),
            max_message_size: None,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: Some(Map::new()),
        };
        self.send(&attach).await;
    }

    /// Attaches a link. Returns the response, or the fault of its detach.
    pub(super) async fn attach(&mut self, handle: u32, role: Role, address: &str) -> Result<Box<Attach>, AmqpError> {
        self.attach_to(handle, role, address, Target::of(address)).await
    }

    /// Like [`Self::attach`], with a given target.
    pub(super) async fn attach_to(
        &mut self,
        handle: u32,
        role: Role,
        address: &str,
        target: Target,
    ) -> Result<Box<Attach>, AmqpError> {
        self.send_attach_to(handle, role, address, target).await;
        let answer = loop {
            match self.next_performative().await {
                Some(Performative::Attach(answer)) => break answer,
                Some(Performative::Flow(_)) => {}
                other => panic!("no attach: {other:?}"),
            }
        };
        let is_there = match role {
            Role::Sender => answer.target.is_some(),
            Role::Receiver => answer.source.is_some(),
        };
        if is_there {
            return Ok(answer);
        }
        match self.next_performative().await {
            Some(Performative::Detach(detach)) => Err(detach.error.expect("an error")),
            other => panic!("no detach: {other:?}"),
        }
    }

    /// Sends a transfer with the given payload.
    pub(super) async fn transfer(&mut self, handle: u32, id: u32, settled: bool, payload: &[u8]) {
        let transfer = oxbus_amqp::performative::Transfer {
            handle,
            delivery_id: Some(id),
            delivery_tag: Some(oxbus_amqp::codec::Tag::new(&id.to_be_bytes()).expect("short")),
            message_format: Some(0),
            settled: Some(settled),
            more: false,
            rcv_settle_mode: None,
            state: None,
            resume: false,
            aborted: false,
            batchable: false,
        };
        let mut out = BytesMut::new();
        put_frame(&mut out, 0, &transfer);
        out.extend_from_slice(payload);
        let size = u32::try_from(out.len()).expect("small");
        out[..4].copy_from_slice(&size.to_be_bytes());
        self.bytes(&out).await;
    }

    /// Gives credit on a link, counted from its first delivery.
    pub(super) async fn credit(&mut self, handle: u32, credit: u32) {
        let flow = Flow {
            next_incoming_id: Some(0),
            incoming_window: u32::MAX >> 1,
            next_outgoing_id: 0,
            outgoing_window: 65_536,
            handle: Some(handle),
            delivery_count: Some(0),
            link_credit: Some(credit),
            available: None,
            drain: false,
            echo: false,
            properties: None,
        };
        self.send(&flow).await;
    }

    /// Sends a performative on channel 0.
    pub(super) async fn send(&mut self, performative: &impl Field) {
        let mut out = BytesMut::new();
        put_frame(&mut out, 0, performative);
        self.bytes(&out).await;
    }

    /// Sends an empty frame.
    pub(super) async fn heartbeat(&mut self) {
        let mut out = BytesMut::new();
        put_empty_frame(&mut out);
        self.bytes(&out).await;
    }

    pub(super) async fn bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the server reads");
    }

    async fn header(&mut self) -> [u8; 8] {
        while self.input.len() < 8 {
            assert_ne!(self.stream.read_buf(&mut self.input).await.expect("a pipe"), 0);
        }
        *self.input.split_to(8).first_chunk().expect("eight bytes")
    }

    async fn frame(&mut self) -> Option<(AmqpFrameHeader, Bytes)> {
        loop {
            if let Some(head) = AmqpFrameHeader::read(&self.input, AMQP_FRAME_BYTES_MAX).expect("a frame")
                && self.input.len() >= head.size as usize
            {
                let mut frame = self.input.split_to(head.size as usize).freeze();
                return Some((head, frame.split_off(head.body_offset)));
            }
            self.input.reserve(PIPE_BYTES);
            if self.stream.read_buf(&mut self.input).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// The server's next performative, and `None` if it has closed the connection.
    pub(super) async fn next_performative(&mut self) -> Option<Performative> {
        Some(self.next_frame().await?.performative)
    }

    async fn next_frame(&mut self) -> Option<Frame> {
        loop {
            let (head, body) = self.frame().await?;
            assert_eq!(head.kind, FrameKind::Amqp);
            if let Some(frame) = Frame::read(&body).expect("well-formed") {
                return Some(frame);
            }
        }
    }

    /// The next message that the server sends, which must fit into one frame.
    pub(super) async fn message(&mut self) -> Bytes {
        loop {
            let frame = self.next_frame().await.expect("the server responds");
            if matches!(frame.performative, Performative::Transfer(_)) {
                return frame.payload;
            }
        }
    }

    /// The outcome of a transfer.
    pub(super) async fn disposition(&mut self) -> Disposition {
        loop {
            match self.next_performative().await {
                Some(Performative::Disposition(disposition)) => return disposition,
                Some(Performative::Flow(_)) => {}
                other => panic!("no disposition: {other:?}"),
            }
        }
    }

    /// The fault with which the server closes.
    pub(super) async fn closed(&mut self) -> AmqpError {
        loop {
            match self.next_performative().await {
                Some(Performative::Close(close)) => return close.error.expect("an error"),
                Some(_) => {}
                None => panic!("the server closed without an error"),
            }
        }
    }
}
