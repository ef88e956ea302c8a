// SPDX-License-Identifier: Apache-2.0
//! Time that AMQP takes per message, without a socket.
//!
//! Case ids are `codec/OPERATION/PAYLOAD/SHAPE` and `engine/OPERATION/PAYLOAD/SHAPE`; throughput is in messages per
//! second.

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use oxbus_amqp::codec::{AmqpTimestamp, AmqpValue, Field, Map, Reader, Tag, Uuid};
use oxbus_amqp::engine::{AttachResponse, EngineSettings, LinkId, OutgoingDelivery};
use oxbus_amqp::message::{
    Header, Properties, Sections, put_application_properties, put_data, put_delivery_annotations,
    put_message_annotations,
};
use oxbus_amqp::performative::{
    Attach, Begin, DeliveryState, Disposition, Flow, Frame, Open, ReceiverSettleMode, Role, SenderSettleMode, Source,
    Target, TransferHeader, put_frame, put_transfer,
};
use oxbus_amqp::{Engine, EngineEvent};

/// Messages that a client sends or receives before it waits.
const ROUND: u32 = 100;

/// A message as azure-servicebus encodes it, with 1 KiB of data.
fn message() -> Bytes {
    let mut out = BytesMut::new();
    Header::of(0, Some(60_000)).encode(&mut out);
    put_message_annotations(&mut out, &Map::new().with("x-opt-partition-key", "customer-17"));
    let properties = Properties {
        message_id: Some("5b2c1a52-4c7e-4a3b-9c3e-000000000017".into()),
        subject: Some("order.created".into()),
        content_type: Some("application/json".into()),
        group_id: Some("customer-17".into()),
        ..Properties::NONE
    };
    properties.encode(&mut out);
    let application_properties = [
        ("region", AmqpValue::from("north")),
        ("quantity", AmqpValue::from(17_i32)),
    ];
    put_application_properties(
        &mut out,
        &application_properties
            .into_iter()
            .map(|(key, value)| (AmqpValue::from(key), value))
            .collect(),
    );
    put_data(&mut out, &Bytes::from(vec![7; 1_024]));
    out.freeze()
}

fn transfer_frame(out: &mut BytesMut, delivery_id: u32, payload: &[u8]) {
    let start = out.len();
    let tag = Tag::new(&delivery_id.to_be_bytes()).expect("the tag is short");
    out.extend_from_slice(&[0, 0, 0, 0, 2, 0, 0, 1]);
    let head = TransferHeader {
        handle: 0,
        delivery_id: Some(delivery_id),
        tag: Some(&tag),
        message_format: Some(0),
        settled: false,
        more: false,
        state: None,
    };
    put_transfer(out, &head);
    out.extend_from_slice(payload);
    let size = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
}

/// An engine with an open connection, and a link whose client end has `role`.
fn engine(role: Role) -> (Engine, LinkId) {
    let settings = EngineSettings {
        is_sasl_required: false,
        ..EngineSettings::default()
    };
    let mut engine = Engine::new(settings, 0);
    engine.input().extend_from_slice(b"AMQP\x00\x01\x00\x00");
    let open = Open {
        container_id: "client".into(),
        hostname: None,
        max_frame_size: Some(65_536),
        channel_max: None,
        idle_time_out_ms: None,
        outgoing_locales: vec![],
        incoming_locales: vec![],
        offered_capabilities: vec![],
        desired_capabilities: vec![],
        properties: None,
    };
    put_frame(engine.input(), 0, &open);
    let begin = Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window: u32::MAX / 2,
        outgoing_window: u32::MAX / 2,
        handle_max: None,
        offered_capabilities: vec![],
        desired_capabilities: vec![],
        properties: None,
    };
    put_frame(engine.input(), 1, &begin);
    let attach = Attach {
        name: "link".into(),
        handle: 0,
        role,
        snd_settle_mode: SenderSettleMode::Unsettled,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: Some(Source::of("queue").into()),
        target: Some(Target::of("queue").into()),
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: Some(0),
        max_message_size: None,
        offered_capabilities: vec![],
        desired_capabilities: vec![],
        properties: None,
    };
    put_frame(engine.input(), 1, &attach);
    let mut link = None;
    while let Some(event) = engine.next_event(0) {
        if let EngineEvent::Attach(request) = event {
            let accept = AttachResponse {
                credit: 1_000,
                ..AttachResponse::as_requested(&request.attach).expect("source and target are set")
            };
            engine.accept(request.link, accept).expect("the link exists");
            link = Some(request.link);
        }
    }
    engine.output().clear();
    (engine, link.expect("the client attached a link"))
}

fn codec(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("codec");
    group.throughput(Throughput::Elements(1));
    let message = message();
    group.bench_function("scan/1024B/sdk_message", |bencher| {
        bencher.iter(|| Sections::scan(black_box(&message)).expect("a valid message"));
    });
    let sections = Sections::scan(&message).expect("a valid message");
    group.bench_function("properties/1024B/four_set", |bencher| {
        bencher.iter(|| {
            let mut reader = Reader::within(black_box(&message), sections.properties.start, sections.properties.end);
            Properties::decode(&mut reader).expect("properties")
        });
    });
    let mut frame = BytesMut::new();
    transfer_frame(&mut frame, 70_000, &message);
    let body = frame.freeze().slice(8..);
    group.bench_function("transfer_decode/1024B/one_frame", |bencher| {
        bencher.iter(|| Frame::read(black_box(&body)).expect("a valid frame"));
    });
    let mut out = BytesMut::with_capacity(4_096);
    group.bench_function("transfer_encode/1024B/one_frame", |bencher| {
        bencher.iter(|| {
            out.clear();
            transfer_frame(&mut out, black_box(70_000), &message);
            black_box(out.len())
        });
    });
    let mut out = BytesMut::with_capacity(4_096);
    group.bench_function("sections_encode/0B/peek_lock", |bencher| {
        bencher.iter(|| {
            out.clear();
            Header::of(1, Some(60_000)).encode(&mut out);
            put_delivery_annotations(&mut out, &Map::new().with("x-opt-lock-token", Uuid([7; 16])));
            let annotations = Map::new()
                .with("x-opt-sequence-number", black_box(5_i64))
                .with("x-opt-enqueued-time", AmqpTimestamp(1_700_000_000_000))
                .with("x-opt-locked-until", AmqpTimestamp(1_700_000_060_000));
            put_message_annotations(&mut out, &annotations);
            black_box(out.len())
        });
    });
    group.finish();
}

fn rounds(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("engine");
    group.throughput(Throughput::Elements(ROUND.into()));
    let message = message();

    let (mut receiving, _) = engine(Role::Sender);
    let mut number = 0;
    group.bench_function("receive_answer/1024B/round_100", |bencher| {
        bencher.iter_batched(
            || {
                let mut bytes = BytesMut::new();
                for _ in 0..ROUND {
                    transfer_frame(&mut bytes, number, &message);
                    number += 1;
                }
                bytes
            },
            |bytes| {
                *receiving.input() = bytes;
                let mut answered = 0;
                while let Some(event) = receiving.next_event(0) {
                    if let EngineEvent::Incoming(incoming) = event {
                        answered += 1;
                        receiving.answer(incoming.id.expect("unsettled"), DeliveryState::Accepted);
                    }
                }
                assert_eq!(answered, ROUND);
                receiving.flush(0);
                receiving.output().clear();
            },
            BatchSize::SmallInput,
        );
    });

    let (mut sending, link) = engine(Role::Receiver);
    let mut number = 1_u32 << 20;
    let mut sent_before = 0_u32;
    group.bench_function("send_settle/1024B/round_100", |bencher| {
        bencher.iter(|| {
            let flow = Flow {
                next_incoming_id: Some(sent_before.wrapping_add(1)),
                incoming_window: u32::MAX / 2,
                next_outgoing_id: 0,
                outgoing_window: 1_000,
                handle: Some(0),
                delivery_count: Some(sent_before),
                link_credit: Some(ROUND),
                available: None,
                drain: false,
                echo: false,
                properties: None,
            };
            put_frame(sending.input(), 1, &flow);
            assert!(matches!(
                sending.next_event(0),
                Some(EngineEvent::Credit { credit: ROUND, .. })
            ));
            for token in 0..ROUND {
                let tag = Tag::from(u128::from(token).to_be_bytes());
                let outgoing = OutgoingDelivery {
                    tag: Some(&tag),
                    message_format: 0,
                    settled: false,
                    parts: &[&message],
                };
                sending.send(link, &outgoing).expect("the link has credit");
            }
            sending.flush(0);
            sending.output().clear();
            let disposition = Disposition {
                role: Role::Receiver,
                first: number,
                last: Some(number + ROUND - 1),
                settled: false,
                state: Some(DeliveryState::Accepted),
                batchable: true,
            };
            put_frame(sending.input(), 1, &disposition);
            let mut settled = 0;
            while let Some(event) = sending.next_event(0) {
                if let EngineEvent::Disposition(settle) = event {
                    settled += 1;
                    sending.settle(settle.delivery, DeliveryState::Accepted);
                }
            }
            assert_eq!(settled, ROUND);
            sending.flush(0);
            sending.output().clear();
            number += ROUND;
            sent_before += ROUND;
        });
    });
    group.finish();
}

criterion_group!(benches, codec, rounds);
criterion_main!(benches);
