// SPDX-License-Identifier: Apache-2.0
//! Decodes frames written by azure-servicebus and values written by proton. `tests/amqp` has their decoders read ours.
//!
//! `OXBUS_GOLDEN=write cargo test -p oxbus-amqp --test golden` rewrites ours.

use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::{Bytes, BytesMut};
use oxbus_amqp::codec::{AmqpTimestamp, AmqpValue, Array, Field, Map, Reader, Symbol, Tag, Uuid};
use oxbus_amqp::message::{
    AmqpBodyKind, AmqpMessageId, Header, MESSAGE_FORMAT_BATCH, Properties, Sections, data, put_application_properties,
    put_delivery_annotations, put_message_annotations, put_value_body, read_map, read_value_body,
};
use oxbus_amqp::performative::{
    AmqpError, AmqpFrameHeader, Attach, Begin, Close, DeliveryState, Detach, Disposition, End, Flow, Frame, FrameKind,
    Open, Performative, ReceiverSettleMode, Role, SaslFrame, SaslMechanisms, SenderSettleMode, Source, Target,
    TransferHeader, condition, mechanism, put_frame, put_sasl_frame, put_transfer,
};

const ADDRESS: &str = "amqps://localhost:5672/orders";
const TOKEN: [u8; 16] = [
    0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
];
/// The token as .NET orders the bytes of a GUID.
const TAG: [u8; 16] = [
    0x33, 0x22, 0x11, 0, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
];

/// The named byte strings of a file.
fn lines(text: &str) -> BTreeMap<&str, Bytes> {
    let bytes = |text: &str| {
        let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
        (0..text.len()).step_by(2).map(byte).collect::<Vec<_>>().into()
    };
    let pairs = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '));
    pairs.map(|(name, text)| (name, bytes(text))).collect()
}

fn theirs(name: &str) -> Bytes {
    lines(include_str!("golden/azure-servicebus.txt"))[name].clone()
}

fn read(name: &str) -> (Performative, Bytes) {
    let bytes = theirs(name);
    let head = AmqpFrameHeader::read(&bytes, u32::MAX)
        .expect("a frame")
        .expect("a head");
    assert_eq!((head.size as usize, head.kind), (bytes.len(), FrameKind::Amqp));
    let frame = Frame::read(&bytes.slice(head.body_offset..))
        .expect("a frame")
        .expect("not empty");
    (frame.performative, frame.payload)
}

#[test]
fn their_connection_and_session_are_read() {
    let (Performative::Open(open), _) = read("open") else {
        panic!("an open");
    };
    assert_eq!(
        (&*open.container_id, open.hostname.as_deref()),
        ("client", Some("localhost"))
    );
    assert_eq!(
        (open.max_frame_size, open.channel_max, open.idle_time_out_ms),
        (Some(1 << 20), Some(65_535), None)
    );
    assert_eq!(
        open.properties.expect("properties").get("product"),
        Some(&AmqpValue::from("p"))
    );
    let (Performative::Begin(begin), _) = read("begin") else {
        panic!("a begin");
    };
    assert_eq!(
        (begin.remote_channel, begin.incoming_window, begin.handle_max),
        (None, 65_536, Some(u32::MAX))
    );
    let init = theirs("sasl-init");
    let Ok(SaslFrame::Init(init)) = SaslFrame::read(&init.slice(8..)) else {
        panic!("an init");
    };
    assert_eq!(init.mechanism.as_str(), mechanism::ANONYMOUS);
    assert!(matches!(read("detach").0, Performative::Detach(detach) if detach.closed && detach.error.is_none()));
    assert!(matches!(read("end").0, Performative::End(end) if end.error.is_none()));
    assert!(matches!(read("close").0, Performative::Close(close)
        if close.error.as_ref().is_some_and(|error| error.condition.as_str() == condition::INTERNAL_ERROR)));
}

#[test]
fn their_links_are_read() {
    let (Performative::Attach(sender), _) = read("attach-sender") else {
        panic!("an attach");
    };
    assert_eq!((sender.role, sender.initial_delivery_count), (Role::Sender, Some(0)));
    assert_eq!(
        (sender.snd_settle_mode, sender.rcv_settle_mode),
        (SenderSettleMode::Unsettled, ReceiverSettleMode::Second)
    );
    assert_eq!(
        sender.target.expect("a target").address().map(|address| &**address),
        Some(ADDRESS)
    );
    for (name, filter) in [
        ("attach-session", AmqpValue::from("one")),
        ("attach-any-session", AmqpValue::Null),
    ] {
        let (Performative::Attach(receiver), _) = read(name) else {
            panic!("an attach");
        };
        assert_eq!(receiver.role, Role::Receiver);
        let source = receiver.source.expect("a source");
        assert_eq!(source.address().map(|address| &**address), Some(ADDRESS));
        assert_eq!(
            source.filter.expect("a filter").get("com.microsoft:session-filter"),
            Some(&filter)
        );
        assert_eq!(
            receiver
                .properties
                .expect("properties")
                .get("com.microsoft:timeout")
                .and_then(AmqpValue::as_i64),
            Some(5_000)
        );
    }
    let (Performative::Flow(flow), _) = read("flow") else {
        panic!("a flow");
    };
    assert_eq!(
        (flow.handle, flow.delivery_count, flow.link_credit, flow.drain),
        (Some(2), Some(0), Some(300), false)
    );
    assert!(matches!(read("drain").0, Performative::Flow(flow) if flow.drain && flow.link_credit == Some(0)));
}

#[test]
fn their_settlements_are_read() {
    let state = |name| match read(name).0 {
        Performative::Disposition(disposition) => {
            assert_eq!(
                (disposition.role, disposition.first, disposition.last),
                (Role::Receiver, 1 << 20, None)
            );
            (disposition.state.expect("a state"), disposition.settled)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(state("complete"), (DeliveryState::Accepted, false));
    assert_eq!(state("release"), (DeliveryState::Released, true));
    for (name, expected) in [("abandon", false), ("defer", true)] {
        let (DeliveryState::Modified(modified), false) = state(name) else {
            panic!("modified");
        };
        assert_eq!(
            (modified.delivery_failed, modified.undeliverable_here),
            (true, expected)
        );
    }
    let (DeliveryState::Rejected(Some(error)), false) = state("dead-letter") else {
        panic!("rejected");
    };
    assert_eq!(error.condition.as_str(), "com.microsoft:dead-letter");
    let info = error.info.expect("info");
    assert_eq!(
        info.get("DeadLetterReason").and_then(AmqpValue::as_text),
        Some("reason")
    );
    assert_eq!(info.get("DeadLetterErrorDescription"), Some(&AmqpValue::Null));
}

#[test]
fn their_batch_is_read() {
    let (Performative::Transfer(transfer), payload) = read("transfer") else {
        panic!("a transfer");
    };
    assert_eq!(
        (transfer.delivery_id, transfer.message_format),
        (Some(9), Some(MESSAGE_FORMAT_BATCH))
    );
    assert_eq!(payload, theirs("batch"));
    let sections = Sections::scan(&payload).expect("a batch");
    assert_eq!((sections.body_kind, sections.body_sections), (AmqpBodyKind::Data, 2));
    for (number, inner) in data(&payload, &sections).enumerate() {
        let inner = inner.expect("a message");
        let sections = Sections::scan(&inner).expect("a message");
        let properties = Properties::decode(&mut Reader::within(&inner, sections.properties.start, inner.len()));
        let properties = properties.expect("properties");
        assert_eq!(
            properties.message_id,
            Some(AmqpMessageId::String(format!("id-{number}").into()))
        );
        assert_eq!(properties.group_id.as_deref(), Some("session"));
        let body: Result<Vec<_>, _> = data(&inner, &sections).collect();
        assert_eq!(body, Ok(vec![Bytes::from(format!("body {number}"))]));
    }
}

#[test]
fn their_message_is_read() {
    let message = theirs("message");
    let sections = Sections::scan(&message).expect("a message");
    let header = Header::decode(&mut Reader::within(
        &message,
        sections.header.start,
        sections.header.end,
    ))
    .expect("a header");
    assert_eq!(
        (header.ttl_ms, header.delivery_count, header.priority),
        (Some(60_000), Some(2), Some(7))
    );
    let mut reader = Reader::within(&message, sections.properties.start, sections.properties.end);
    let properties = Properties::decode(&mut reader).expect("properties");
    assert_eq!(properties.message_id, Some(AmqpMessageId::Uuid(Uuid(TOKEN))));
    assert_eq!(properties.absolute_expiry_time, Some(AmqpTimestamp(2_000)));
    let annotations = read_map(&message, &sections.message_annotations).expect("a map");
    assert_eq!(
        annotations.get("x-opt-partition-key").and_then(AmqpValue::as_text),
        Some("key")
    );
    let own = read_map(&message, &sections.application_properties).expect("a map");
    assert_eq!(own.get("large"), Some(&AmqpValue::Long(1 << 40)));
    assert_eq!(own.get("uuid"), Some(&AmqpValue::Uuid(Uuid(TOKEN))));
    assert_eq!(own.get("nothing"), Some(&AmqpValue::Null));
    assert_eq!(own.len(), 8);
    let body = read_value_body(&message, &sections).expect("a value");
    assert_eq!(
        body.as_map()
            .and_then(|map| map.get("lock-tokens"))
            .and_then(AmqpValue::as_text),
        Some("none")
    );
}

fn framed(channel: u16, body: &impl Field) -> BytesMut {
    let mut out = BytesMut::new();
    put_frame(&mut out, channel, body);
    out
}

/// A message to a client: new sections, then stored bytes.
fn delivered() -> BytesMut {
    let tag = Tag::from(TAG);
    let head = TransferHeader {
        handle: 2,
        delivery_id: Some(1 << 20),
        tag: Some(&tag),
        message_format: Some(0),
        settled: false,
        more: false,
        state: None,
    };
    let mut out = BytesMut::from(&b"\0\0\0\0\x02\0\0\x01"[..]);
    put_transfer(&mut out, &head);
    Header::of(2, Some(60_000)).encode(&mut out);
    put_delivery_annotations(&mut out, &Map::new().with("x-opt-lock-token", Uuid(TOKEN)));
    let annotations = Map::new()
        .with("x-opt-sequence-number", 5_i64)
        .with("x-opt-enqueued-time", AmqpTimestamp(1_700_000_000_000))
        .with("x-opt-locked-until", AmqpTimestamp(1_700_000_060_000))
        .with("x-opt-partition-key", "key");
    put_message_annotations(&mut out, &annotations);
    let message = theirs("message");
    let sections = Sections::scan(&message).expect("a message");
    out.extend_from_slice(&message[sections.bare()]);
    let size = out.len() as u32;
    out[..4].copy_from_slice(&size.to_be_bytes());
    out
}

fn management() -> BytesMut {
    let mut out = BytesMut::new();
    let properties = Properties {
        correlation_id: Some(AmqpMessageId::Uuid(Uuid(TOKEN))),
        ..Properties::NONE
    };
    properties.encode(&mut out);
    let mut own = Map::new();
    own.push("statusCode", 200_i32);
    own.push("statusDescription", "OK");
    put_application_properties(&mut out, &own);
    let times = [1_700_000_000_000, 1_700_000_060_000].map(|at| AmqpValue::from(AmqpTimestamp(at)));
    let mut body = Map::new();
    body.push("expirations", Array::new(times.to_vec()).expect("one type"));
    body.push("none", Array::default());
    put_value_body(&mut out, &body.into());
    out
}

fn ours() -> BTreeMap<&'static str, BytesMut> {
    let open = Open {
        container_id: "oxbus".into(),
        hostname: None,
        max_frame_size: Some(65_536),
        channel_max: Some(1_999),
        idle_time_out_ms: Some(240_000),
        outgoing_locales: vec![],
        incoming_locales: vec![],
        offered_capabilities: vec!["capability".into()],
        desired_capabilities: vec![],
        properties: Some(Map::new()),
    };
    let begin = Begin {
        remote_channel: Some(1),
        next_outgoing_id: 1,
        incoming_window: 5_000,
        outgoing_window: 5_000,
        handle_max: Some(1_023),
        offered_capabilities: vec![],
        desired_capabilities: vec![],
        properties: None,
    };
    let mut source = Source::of(ADDRESS);
    source.filter = Some(Map::new().with("com.microsoft:session-filter", "one"));
    let attach = Attach {
        name: "session".into(),
        handle: 2,
        role: Role::Sender,
        snd_settle_mode: SenderSettleMode::Unsettled,
        rcv_settle_mode: ReceiverSettleMode::Second,
        source: Some(source.into()),
        target: Some(Target::of("receiver-link-session").into()),
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: Some(0),
        max_message_size: Some(262_144),
        offered_capabilities: vec![],
        desired_capabilities: vec![],
        properties: Some(Map::new().with("com.microsoft:locked-until-utc", 638_000_000_000_000_000_i64)),
    };
    let refused = Attach {
        source: None,
        target: None,
        properties: Some(Map::new()),
        ..attach.clone()
    };
    let flow = Flow {
        next_incoming_id: Some(9),
        incoming_window: 5_000,
        next_outgoing_id: 1,
        outgoing_window: 5_000,
        handle: Some(2),
        delivery_count: Some(9),
        link_credit: Some(1_000),
        available: Some(0),
        drain: false,
        echo: false,
        properties: None,
    };
    let settled = Disposition {
        role: Role::Sender,
        first: 1 << 20,
        last: Some((1 << 20) + 4),
        settled: true,
        state: Some(DeliveryState::Accepted),
        batchable: false,
    };
    let detach = Detach {
        handle: 2,
        closed: true,
        error: Some(AmqpError::new("com.microsoft:session-lock-lost", "the lock expired")),
    };
    let error = Some(AmqpError::new(condition::CONNECTION_FORCED, "shutting down"));
    let mut mechanisms = BytesMut::new();
    let names = [mechanism::MSSBCBS, mechanism::PLAIN, mechanism::ANONYMOUS]
        .map(Into::into)
        .to_vec();
    put_sasl_frame(&mut mechanisms, &SaslMechanisms { mechanisms: names });
    BTreeMap::from([
        ("open", framed(0, &open)),
        ("begin", framed(1, &begin)),
        ("attach-session", framed(1, &attach)),
        ("refused", framed(1, &refused)),
        ("flow", framed(1, &flow)),
        ("settled", framed(1, &settled)),
        ("detach", framed(1, &detach)),
        ("end", framed(1, &End { error: error.clone() })),
        ("close", framed(0, &Close { error })),
        ("mechanisms", mechanisms),
        ("transfer", delivered()),
        ("management", management()),
    ])
}

/// The values that `tests/kit/proton_values.py` writes with proton.
fn values() -> Vec<(&'static str, AmqpValue)> {
    let array = |items: Vec<AmqpValue>| AmqpValue::from(Array::new(items).expect("one type"));
    let list = |items: Vec<AmqpValue>| AmqpValue::List(items);
    let kind = |text: &str| AmqpValue::described(Symbol::from("kind").into(), text.into());
    let counted: [u8; 16] = std::array::from_fn(|place| place as u8);
    vec![
        ("null", AmqpValue::Null),
        ("true", true.into()),
        ("false", false.into()),
        ("ubyte", 200_u8.into()),
        ("ushort", 60_000_u16.into()),
        ("uint-zero", 0_u32.into()),
        ("uint-small", 200_u32.into()),
        ("uint", 4_000_000_000_u32.into()),
        ("ulong-zero", 0_u64.into()),
        ("ulong-small", 200_u64.into()),
        ("ulong", (1_u64 << 63).into()),
        ("byte", (-100_i8).into()),
        ("short", (-30_000_i16).into()),
        ("int-small", (-100_i32).into()),
        ("int", (-2_000_000_000_i32).into()),
        ("long-small", (-100_i64).into()),
        ("long", (-(1_i64 << 62)).into()),
        ("float", 1.5_f32.into()),
        ("double", (-2.25_f64).into()),
        ("decimal32", AmqpValue::Decimal32([0x12, 0x34, 0x56, 0x78])),
        (
            "decimal64",
            AmqpValue::Decimal64([0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0]),
        ),
        ("decimal128", AmqpValue::Decimal128(counted)),
        ("char", 'ß'.into()),
        ("timestamp", AmqpTimestamp(1_700_000_000_000).into()),
        ("uuid", Uuid(TOKEN).into()),
        ("binary", Bytes::from_static(b"\0\xff").into()),
        ("binary-long", Bytes::from(vec![0; 300]).into()),
        ("string", "näme".into()),
        ("string-long", "x".repeat(300).into()),
        ("symbol", Symbol::from("amqp:accepted:list").into()),
        ("list-empty", list(vec![])),
        (
            "list",
            list(vec![
                1_i64.into(),
                "two".into(),
                list(vec![Bytes::from_static(b"three").into()]),
            ]),
        ),
        ("map", {
            let mut inner = Map::new();
            inner.push("inner", 5_i64);
            Map::new().with("key", inner).into()
        }),
        (
            "described",
            AmqpValue::described(0x1_3700_0006_u64.into(), list(vec!["x = 1".into(), 20_i64.into()])),
        ),
        (
            "array-of-longs",
            array(vec![1_i64.into(), (-2_i64).into(), (1_i64 << 40).into()]),
        ),
        (
            "array-of-uuids",
            array([1_u128, 2].map(|id| Uuid(id.to_be_bytes()).into()).to_vec()),
        ),
        (
            "array-of-symbols",
            array(["one", "two"].map(|name| Symbol::from(name).into()).to_vec()),
        ),
        ("array-described", array(vec![kind("one"), kind("two")])),
    ]
}

#[test]
fn values_that_proton_wrote_are_read() {
    let recorded = lines(include_str!("golden/proton.txt"));
    let values = values();
    assert_eq!(recorded.len(), values.len());
    for (name, value) in values {
        assert_eq!(AmqpValue::from_bytes(&recorded[name]), Ok(value), "{name}");
    }
}

#[test]
fn our_values_are_those_that_proton_read() {
    let head = "# What oxbus-amqp writes; OXBUS_GOLDEN=write cargo test -p oxbus-amqp --test golden wrote this file.";
    check(
        "values.txt",
        head,
        values().into_iter().map(|(name, value)| (name, value.to_bytes())),
    );
}

#[test]
fn our_frames_are_those_that_their_decoder_read() {
    let head = "# What oxbus-amqp writes; OXBUS_GOLDEN=write cargo test -p oxbus-amqp --test golden wrote this file.";
    check(
        "oxbus.txt",
        head,
        ours().into_iter().map(|(name, bytes)| (name, bytes.freeze())),
    );
}

fn check<'a>(file: &str, head: &str, written: impl Iterator<Item = (&'a str, Bytes)>) {
    let mut text = format!("{head}\n");
    for (name, bytes) in written {
        write!(text, "{name} ").expect("a string takes everything");
        for byte in bytes {
            write!(text, "{byte:02x}").expect("a string takes everything");
        }
        text.push('\n');
    }
    let path = format!("{}/tests/golden/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("OXBUS_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(&path, &text).expect("the file can be written");
    }
    assert_eq!(std::fs::read_to_string(path).expect("the golden file exists"), text);
}
