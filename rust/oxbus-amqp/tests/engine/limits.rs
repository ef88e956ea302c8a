// SPDX-License-Identifier: Apache-2.0
//! Each limit of a connection, with the attack that it stops.

use oxbus_amqp::EngineEvent;
use oxbus_amqp::codec::Tag;
use oxbus_amqp::engine::{AttachResponse, EngineSettings, OutgoingDelivery, SendError};
use oxbus_amqp::performative::{
    AmqpFrameHeader, DeliveryState, Flow, Performative, Role, SaslCode, Transfer, condition,
};
use oxbus_model::caps::{
    AMQP_CHANNEL_MAX, AMQP_EARLY_BYTES_MAX, AMQP_FORGOTTEN_MAX, AMQP_FRAME_BYTES_MAX, AMQP_FRAME_BYTES_MIN,
    AMQP_HANDLE_MAX, AMQP_LINKS_MAX, AMQP_OUTPUT_BYTES_MAX, AMQP_PARTIAL_BYTES_MAX, AMQP_UNANSWERED_MAX,
    AMQP_UNSETTLED_MAX, MESSAGE_SIZE_BYTES_MAX,
};

use super::client::{
    AMQP_HEADER, CHANNEL, Client, SASL_HEADER, attach, begin, detach, disposition, frame, link_flow, open, sasl_init,
    session_flow, transfer,
};

fn lost(client: &mut Client) -> String {
    match client.event() {
        EngineEvent::Failed(error)
        | EngineEvent::LinkFailed { error, .. }
        | EngineEvent::SessionFailed { error, .. } => error.condition.as_str().to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_frame_over_the_announced_size_closes_the_connection_before_it_is_read() {
    let (mut client, _) = Client::open();
    client.write(&(AMQP_FRAME_BYTES_MAX + 1).to_be_bytes());
    client.write(&[2, 0, 0, 0]);
    assert_eq!(lost(&mut client), condition::FRAMING_ERROR);
}

#[test]
fn invalid_frame_headers_close_the_connection() {
    for head in [
        b"\0\0\0\x07\x02\0\0\0",
        b"\0\0\0\x10\x01\0\0\0",
        b"\0\0\0\x10\x05\0\0\0",
        b"\0\0\0\x10\x02\x02\0\0",
        b"\0\0\0\x08\x02\x01\0\0",
    ] {
        let (mut client, _) = Client::open();
        client.write(head);
        client.write(&[0x40; 8]);
        assert_eq!(lost(&mut client), condition::FRAMING_ERROR, "{head:?}");
    }
}

#[test]
fn an_undecodable_frame_closes_the_connection() {
    for body in [
        &b"\x40"[..],
        b"\0\x53\x99\x45",
        b"\0\x53\x14\xc0\x02\x01\xa0",
        b"\0\x53\x18\xc0\x01",
    ] {
        let (mut client, _) = Client::open();
        let size = body.len() as u8 + 8;
        client.write(&[0, 0, 0, size, 2, 0, 0, 1]);
        client.write(body);
        assert_eq!(lost(&mut client), condition::DECODE_ERROR, "{body:?}");
    }
    let (mut client, _) = Client::open();
    client.write(b"\0\0\0\x0c\x02\0\0\x01\0\x53\x14\x45");
    assert_eq!(
        lost(&mut client),
        condition::INVALID_FIELD,
        "a transfer without a handle"
    );
}

#[test]
fn frames_to_the_client_are_never_smaller_than_the_smallest_nor_larger_than_ours() {
    let message = vec![7; 200_000];
    for (asked, expected) in [(Some(1), AMQP_FRAME_BYTES_MIN), (None, AMQP_FRAME_BYTES_MAX)] {
        let odd = oxbus_amqp::performative::Open {
            max_frame_size: asked,
            ..open()
        };
        let (mut client, _) = Client::open_with(&odd, &begin());
        let link = client.receiver(0);
        client.credit(0, 1);
        let outgoing = OutgoingDelivery {
            tag: None,
            message_format: 0,
            settled: true,
            parts: &[&message],
        };
        client.engine.send(link, &outgoing).expect("credit");
        let output = client.take_output();
        let head = AmqpFrameHeader::read(&output, u32::MAX)
            .expect("a frame")
            .expect("a head");
        assert_eq!(head.size, expected);
    }
}

#[test]
fn channels_and_handles_are_limited() {
    let (mut client, _) = Client::open();
    client.say(AMQP_CHANNEL_MAX, &begin());
    assert!(matches!(client.event(), EngineEvent::Begin { .. }));
    client.say(AMQP_CHANNEL_MAX + 1, &begin());
    assert_eq!(lost(&mut client), condition::FRAMING_ERROR);
    let (mut client, _) = Client::open();
    client.sender(AMQP_HANDLE_MAX, 1);
    client.say(CHANNEL, &attach(AMQP_HANDLE_MAX + 1, Role::Sender));
    assert_eq!(lost(&mut client), condition::FRAMING_ERROR);
}

#[test]
fn links_of_a_connection_are_limited() {
    let (mut client, _) = Client::open();
    let per_session = AMQP_HANDLE_MAX as usize + 1;
    let mut accepted = 0;
    let mut refused = 0;
    for channel in 10.. {
        client.say(channel, &begin());
        for handle in 0..=AMQP_HANDLE_MAX {
            client.say(channel, &attach(handle, Role::Receiver));
        }
        let events = client.events();
        accepted += events
            .iter()
            .filter(|event| matches!(event, EngineEvent::Attach(_)))
            .count();
        let refusals = |(_, reported, _): &(u16, Performative, _)| matches!(reported, Performative::Detach(_));
        refused += client.frames().iter().filter(|frame| refusals(frame)).count();
        if matches!(events.last(), Some(EngineEvent::Failed(_))) {
            break;
        }
        assert!(usize::from(channel) * per_session < 4 * AMQP_LINKS_MAX + 10 * per_session);
    }
    assert_eq!((accepted, refused), (AMQP_LINKS_MAX, AMQP_LINKS_MAX));
}

#[test]
fn detached_links_do_not_count() {
    let (mut client, session) = Client::open();
    for _ in 0..5 {
        for handle in 0..=AMQP_HANDLE_MAX {
            let link = client.receiver(handle);
            client.say(CHANNEL, &detach(handle));
            client.events();
            client.engine.detach(link, None);
        }
        client.take_output();
    }
    client.receiver(0);
    client.engine.end(session, None);
}

#[test]
fn a_message_over_the_limit_detaches_the_link() {
    let (mut client, _) = Client::open();
    client.say(CHANNEL, &attach(0, Role::Sender));
    let EngineEvent::Attach(request) = client.event() else {
        panic!("an attach");
    };
    let accept = AttachResponse {
        max_message_size: 1_000,
        credit: 10,
        ..AttachResponse::as_requested(&request.attach).expect("ends")
    };
    client
        .engine
        .accept(request.link, accept)
        .expect("the link waits for an answer");
    let part = Transfer {
        more: true,
        ..transfer(0, 0)
    };
    client.transfer(&transfer(0, 0), &[7; 1_000]);
    assert_eq!(client.incoming().len(), 1);
    client.transfer(&part, &[7; 1_000]);
    assert_eq!(client.events(), []);
    client.transfer(&part, &[7; 1]);
    assert_eq!(lost(&mut client), condition::MESSAGE_SIZE_EXCEEDED);
    client.transfer(&part, &[7; 1]);
    assert_eq!(client.events(), [], "what was under way is ignored");
}

#[test]
fn a_message_over_the_limit_is_passed_on_if_the_application_rejects_it() {
    let (mut client, _) = Client::open();
    client.say(CHANNEL, &attach(0, Role::Sender));
    let EngineEvent::Attach(request) = client.event() else {
        panic!("an attach");
    };
    let accept = AttachResponse {
        max_message_size: 1_000,
        takes_larger: true,
        credit: 10,
        ..AttachResponse::as_requested(&request.attach).expect("ends")
    };
    client
        .engine
        .accept(request.link, accept)
        .expect("the link waits for an answer");
    client.transfer(&transfer(0, 0), &[7; 1_001]);
    assert_eq!(client.incoming()[0].message.len(), 1_001);
}

#[test]
fn endless_and_incomplete_messages_are_limited() {
    let (mut client, _) = Client::open();
    let payload = vec![7; AMQP_FRAME_BYTES_MAX as usize - 100];
    let mut total = 0;
    for handle in 0..3 {
        client.sender(handle, 10);
    }
    // Two incomplete messages of the largest size reach the limit; a third exceeds it.
    for handle in 0..2 {
        let part = Transfer {
            more: true,
            ..transfer(handle, handle)
        };
        let mut size = 0;
        while size + payload.len() <= MESSAGE_SIZE_BYTES_MAX {
            client.transfer(&part, &payload);
            assert_eq!(client.events(), []);
            client.take_output();
            size += payload.len();
        }
        total += size;
    }
    let part = Transfer {
        more: true,
        ..transfer(2, 2)
    };
    while total + payload.len() <= AMQP_PARTIAL_BYTES_MAX {
        client.transfer(&part, &payload);
        assert_eq!(client.events(), []);
        total += payload.len();
    }
    client.transfer(&part, &payload);
    assert_eq!(lost(&mut client), condition::RESOURCE_LIMIT_EXCEEDED);
    let part = Transfer {
        more: true,
        ..transfer(0, 0)
    };
    client.transfer(&part, &payload);
    assert_eq!(lost(&mut client), condition::MESSAGE_SIZE_EXCEEDED);
}

#[test]
fn messages_before_the_attach_is_answered_are_limited() {
    let (mut client, _) = Client::open();
    client.say(CHANNEL, &attach(0, Role::Sender));
    let EngineEvent::Attach(request) = client.event() else {
        panic!("an attach");
    };
    let payload = vec![7; 60_000];
    let room = AMQP_EARLY_BYTES_MAX / (payload.len() + 256);
    for number in 0..room {
        client.transfer(&transfer(0, number as u32), &payload);
        assert_eq!(client.events(), []);
    }
    client.transfer(&transfer(0, 9_999), &payload);
    assert_eq!(lost(&mut client), condition::RESOURCE_LIMIT_EXCEEDED);
    let accept = AttachResponse::as_requested(&request.attach).expect("ends");
    assert!(client.engine.accept(request.link, accept).is_err());
}

/// The messages are empty, so that only their number counts.
#[test]
fn unanswered_messages_are_limited() {
    let (mut client, _) = Client::open();
    client.sender(0, AMQP_UNANSWERED_MAX * 2);
    for number in 0..AMQP_UNANSWERED_MAX + 10 {
        client.transfer(&transfer(0, number), b"");
    }
    let mut incoming = client.incoming();
    assert_eq!(incoming.len(), AMQP_UNANSWERED_MAX as usize);
    assert!(!client.engine.wants_input());
    let id = incoming.remove(0).id.expect("unsettled");
    client.engine.answer(id, DeliveryState::Accepted);
    assert!(client.engine.wants_input());
    assert_eq!(client.incoming().len(), 1, "as many come as were answered");
}

#[test]
fn unsettled_deliveries_are_limited() {
    let (mut client, session) = Client::open();
    let link = client.receiver(0);
    let credit = Flow {
        incoming_window: u32::MAX / 2,
        ..link_flow(0, 0, u32::MAX / 2)
    };
    client.say(CHANNEL, &credit);
    client.events();
    let tag = Tag::from([7; 16]);
    let outgoing = OutgoingDelivery {
        tag: Some(&tag),
        message_format: 0,
        settled: false,
        parts: &[],
    };
    for _ in 0..AMQP_UNSETTLED_MAX {
        client.engine.send(link, &outgoing).expect("credit");
        if client.engine.is_backed_up() {
            client.take_output();
        }
    }
    client.take_output();
    assert_eq!(client.engine.unsettled(session), AMQP_UNSETTLED_MAX as usize);
    assert_eq!(client.engine.send(link, &outgoing), Err(SendError::NoWindow));
    let settled = oxbus_amqp::performative::Disposition {
        settled: true,
        ..disposition(1 << 20, 1 << 20)
    };
    client.say(CHANNEL, &settled);
    assert_eq!(client.settles().len(), 1);
    client.engine.send(link, &outgoing).expect("room for one");
}

#[test]
fn input_of_a_client_that_does_not_read_is_not_processed() {
    let (mut client, _) = Client::open();
    let link = client.receiver(0);
    client.credit(0, 60_000);
    let message = vec![7; 60_000];
    let outgoing = OutgoingDelivery {
        tag: None,
        message_format: 0,
        settled: true,
        parts: &[&message],
    };
    let mut sent = 0;
    while client.engine.send(link, &outgoing).is_ok() {
        sent += 60_000;
        assert!(sent < 2 * AMQP_OUTPUT_BYTES_MAX);
    }
    assert_eq!(client.engine.send(link, &outgoing), Err(SendError::BackedUp));
    assert_eq!(client.engine.sendable(link), 0);
    let echo = Flow {
        echo: true,
        ..session_flow(1, 60_000)
    };
    let echo = frame(CHANNEL, &echo, b"");
    for _ in 0..1_000 {
        client.write(&echo);
    }
    let before = client.engine.output().len();
    assert_eq!(client.events(), []);
    assert_eq!(client.engine.output().len(), before);
    assert!(!client.engine.wants_input());
    client.take_output();
    client.events();
    assert_eq!(client.frames().len(), 1_000);
}

#[test]
fn forgotten_deliveries_are_limited() {
    let (mut client, _) = Client::open();
    let tag = Tag::from([7; 16]);
    let outgoing = OutgoingDelivery {
        tag: Some(&tag),
        message_format: 0,
        settled: false,
        parts: &[],
    };
    let first = 1 << 20;
    let count = AMQP_FORGOTTEN_MAX as u32 + 1;
    let link = client.receiver(0);
    client.credit(0, count);
    for _ in 0..count {
        client.engine.send(link, &outgoing).expect("credit");
    }
    client.engine.detach(link, None);
    client.take_output();
    client.say(CHANNEL, &disposition(first + 1, first + 1));
    client.events();
    assert!(client.take_output().is_empty(), "still remembered");
    client.say(CHANNEL, &disposition(first, first));
    client.events();
    assert!(
        matches!(client.frame(), Performative::Disposition(_)),
        "the oldest is not"
    );
}

#[test]
fn sasl_frames_are_limited_and_of_their_type() {
    let mut client = Client::new(EngineSettings::default());
    client.write(SASL_HEADER);
    client.write(&frame(0, &open(), b""));
    assert_eq!(lost(&mut client), condition::FRAMING_ERROR);
    let mut client = Client::new(EngineSettings::default());
    client.write(SASL_HEADER);
    client.write(b"\xff\xff\xff\xff\x02\x01\0\0");
    assert_eq!(lost(&mut client), condition::FRAMING_ERROR);
    let mut client = Client::new(EngineSettings::default());
    client.write(SASL_HEADER);
    client.write_sasl(&sasl_init("ANONYMOUS", None));
    client.events();
    client.engine.sasl_outcome(SaslCode::Ok);
    client.write(AMQP_HEADER);
    client.write_sasl(&sasl_init("ANONYMOUS", None));
    assert_eq!(lost(&mut client), condition::FRAMING_ERROR);
}
