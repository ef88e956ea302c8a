// SPDX-License-Identifier: Apache-2.0
//! Frames as a peer writes them, and the frames that an engine wrote.

use bytes::{Bytes, BytesMut};
use oxbus_amqp::codec::{Field, Tag};
use oxbus_amqp::performative::{
    AmqpFrameHeader, Attach, Begin, DeliveryState, Detach, Disposition, Flow, Frame, FrameKind, Open, Performative,
    ReceiverSettleMode, Role, SaslFrame, SaslInit, SenderSettleMode, Source, Target, Transfer, put_frame,
};

/// The protocol header of AMQP.
pub const AMQP_HEADER: &[u8] = b"AMQP\x00\x01\x00\x00";
/// The protocol header of SASL.
pub const SASL_HEADER: &[u8] = b"AMQP\x03\x01\x00\x00";
/// The channel of the session.
pub const CHANNEL: u16 = 1;

/// Decodes frames; omits empty ones.
pub fn frames(mut bytes: Bytes) -> Vec<(u16, Performative, Bytes)> {
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
pub fn sasl_frame(bytes: &Bytes) -> (SaslFrame, Bytes) {
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

/// A frame.
pub fn frame(channel: u16, body: &impl Field, payload: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    put_frame(&mut out, channel, body);
    out.extend_from_slice(payload);
    let size = out.len() as u32;
    out[..4].copy_from_slice(&size.to_be_bytes());
    out.freeze()
}

/// A choice of mechanism.
pub fn sasl_init(mechanism: &'static str, response: Option<&'static [u8]>) -> SaslInit {
    SaslInit {
        mechanism: mechanism.into(),
        initial_response: response.map(Bytes::from_static),
        hostname: None,
    }
}

/// An `open` without demands.
pub fn open() -> Open {
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

/// A `begin` with wide windows.
pub fn begin() -> Begin {
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

/// An attach of a link to or from a queue.
pub fn attach(handle: u32, role: Role) -> Attach {
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

/// A detach that closes.
pub fn detach(handle: u32) -> Detach {
    Detach {
        handle,
        closed: true,
        error: None,
    }
}

/// The only transfer of a delivery.
pub fn transfer(handle: u32, delivery_id: u32) -> Transfer {
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

/// A flow for the session.
pub fn session_flow(next_incoming_id: u32, incoming_window: u32) -> Flow {
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

/// A flow for a link.
pub fn link_flow(handle: u32, delivery_count: u32, credit: u32) -> Flow {
    Flow {
        handle: Some(handle),
        delivery_count: Some(delivery_count),
        link_credit: Some(credit),
        ..session_flow(1, 65_536)
    }
}

/// A receiver's `accepted`, unsettled.
pub fn disposition(first: u32, last: u32) -> Disposition {
    Disposition {
        role: Role::Receiver,
        first,
        last: Some(last),
        settled: false,
        state: Some(DeliveryState::Accepted),
        batchable: false,
    }
}
