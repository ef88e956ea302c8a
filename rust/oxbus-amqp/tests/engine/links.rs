// SPDX-License-Identifier: Apache-2.0
//! Attach and detach.

use oxbus_amqp::EngineEvent;
use oxbus_amqp::codec::{AmqpValue, Map};
use oxbus_amqp::engine::{AttachResponse, LinkNotFound, OutgoingDelivery, SendError};
use oxbus_amqp::performative::{
    AmqpError, Attach, Detach, End, Performative, Role, SenderSettleMode, Source, Target, condition,
};

use super::client::{CHANNEL, Client, attach, detach, link_flow, transfer};

fn requested(client: &mut Client, attach: &Attach) -> Box<oxbus_amqp::engine::AttachRequest> {
    client.say(CHANNEL, attach);
    let EngineEvent::Attach(request) = client.event() else {
        panic!("an attach");
    };
    request
}

#[test]
fn accepted_link_is_echoed_with_credit_behind_it() {
    let (mut client, _) = Client::open();
    let asked = attach(5, Role::Sender);
    let request = requested(&mut client, &asked);
    assert_eq!(request.attach, asked);
    let accept = AttachResponse {
        max_message_size: 262_144,
        credit: 100,
        properties: Map::new().with("com.microsoft:tracking-id", "id"),
        ..AttachResponse::as_requested(&request.attach).expect("both ends")
    };
    client
        .engine
        .accept(request.link, accept)
        .expect("the link waits for an answer");
    let frames = client.frames();
    let [
        (CHANNEL, Performative::Attach(answer), _),
        (CHANNEL, Performative::Flow(flow), _),
    ] = &frames[..]
    else {
        panic!("attach and flow: {frames:?}");
    };
    assert_eq!(
        (answer.name.as_ref(), answer.handle, answer.role),
        ("link-5", 5, Role::Receiver)
    );
    assert_eq!(
        (answer.snd_settle_mode, answer.rcv_settle_mode),
        (asked.snd_settle_mode, asked.rcv_settle_mode)
    );
    assert_eq!((&answer.source, &answer.target), (&asked.source, &asked.target));
    assert_eq!(answer.max_message_size, Some(262_144));
    assert_eq!((flow.handle, flow.link_credit), (Some(5), Some(100)));
    assert_eq!(
        client
            .engine
            .accept(request.link, AttachResponse::as_requested(&asked).expect("ends")),
        Err(LinkNotFound)
    );
}

/// A receiving client needs the initial delivery count.
#[test]
fn the_delivery_count_of_a_link_to_a_receiver_starts_at_zero() {
    let (mut client, _) = Client::open();
    let request = requested(&mut client, &attach(0, Role::Receiver));
    let accept = AttachResponse::as_requested(&request.attach).expect("both ends");
    client
        .engine
        .accept(request.link, accept)
        .expect("the link waits for an answer");
    let Performative::Attach(answer) = client.frame() else {
        panic!("an attach");
    };
    assert_eq!((answer.role, answer.initial_delivery_count), (Role::Sender, Some(0)));
    assert_eq!(answer.properties, Some(Map::new()), "clients look for keys in it");
}

#[test]
fn a_rejected_link_has_no_source_and_target_and_is_closed_with_the_error() {
    let (mut client, _) = Client::open();
    let request = requested(&mut client, &attach(0, Role::Receiver));
    let error = AmqpError::new(condition::NOT_FOUND, "no such queue");
    client.engine.detach(request.link, Some(error.clone()));
    let frames = client.frames();
    let [
        (_, Performative::Attach(answer), _),
        (_, Performative::Detach(refusal), _),
    ] = &frames[..]
    else {
        panic!("attach and detach: {frames:?}");
    };
    assert_eq!(
        (&answer.source, &answer.target, answer.name.as_ref()),
        (&None, &None, "link-0")
    );
    let expected = Detach {
        handle: 0,
        closed: true,
        error: Some(error),
    };
    assert_eq!(**refusal, expected);
    client.say(CHANNEL, &link_flow(0, 0, 5));
    client.say(CHANNEL, &detach(0));
    assert_eq!(client.events(), [], "what was under way is ignored");
    let again = requested(&mut client, &attach(0, Role::Receiver));
    assert_ne!(again.link, request.link);
}

/// Accepting the next session: the answer comes when a session is available; other links keep working.
#[test]
fn an_attach_can_be_answered_later() {
    let (mut client, _) = Client::open();
    let held = requested(&mut client, &attach(0, Role::Receiver));
    client.say(CHANNEL, &link_flow(0, 0, 3));
    assert_eq!(client.events(), [], "the credit is emitted after the attach");
    let other = client.sender(1, 10);
    client.transfer(&transfer(1, 0), b"message");
    assert_eq!(client.incoming()[0].link, other);
    assert_eq!(client.engine.sendable(held.link), 0);

    let mut accept = AttachResponse::as_requested(&held.attach).expect("both ends");
    accept.source.filter = Some(Map::new().with("com.microsoft:session-filter", "session"));
    client
        .engine
        .accept(held.link, accept)
        .expect("the link waits for an answer");
    let credit = EngineEvent::Credit {
        link: held.link,
        credit: 3,
        drain: false,
    };
    assert_eq!(client.event(), credit);
    let Performative::Attach(answer) = client.frame() else {
        panic!("an attach");
    };
    let source = answer.source.expect("a source");
    assert_eq!(source.address(), Some(&"amqps://localhost:5672/queue".into()));
    let filter = source.filter.expect("a filter");
    assert_eq!(
        filter.get("com.microsoft:session-filter"),
        Some(&AmqpValue::from("session"))
    );
}

/// A detached link must not take a session (B-197).
#[test]
fn a_detached_attach_cannot_be_accepted() {
    let (mut client, session) = Client::open();
    let held = requested(&mut client, &attach(0, Role::Receiver));
    client.say(CHANNEL, &detach(0));
    assert!(matches!(client.event(), EngineEvent::Detach { link, .. } if link == held.link));
    assert_eq!(
        client
            .engine
            .accept(held.link, AttachResponse::as_requested(&held.attach).expect("ends")),
        Err(LinkNotFound)
    );
    assert!(client.take_output().is_empty());
    client.engine.detach(held.link, None);
    let frames = client.frames();
    assert!(
        matches!(&frames[..], [(_, Performative::Attach(attach), _), (_, Performative::Detach(detach), _)]
        if attach.source.is_none() && detach.error.is_none())
    );

    let held = requested(&mut client, &attach(0, Role::Receiver));
    client.say(CHANNEL, &End { error: None });
    assert!(matches!(client.event(), EngineEvent::End { .. }));
    assert_eq!(
        client
            .engine
            .accept(held.link, AttachResponse::as_requested(&held.attach).expect("ends")),
        Err(LinkNotFound)
    );
    client.engine.end(session, None);
}

/// A common client sends before its attach is answered.
#[test]
fn messages_before_the_answer_are_emitted_after_it() {
    let (mut client, _) = Client::open();
    client.say(CHANNEL, &attach(0, Role::Sender));
    client.transfer(&transfer(0, 0), b"first");
    client.transfer(&transfer(0, 1), b"second");
    let EngineEvent::Attach(request) = client.event() else {
        panic!("an attach");
    };
    let accept = AttachResponse {
        credit: 10,
        ..AttachResponse::as_requested(&request.attach).expect("both ends")
    };
    client
        .engine
        .accept(request.link, accept)
        .expect("the link waits for an answer");
    let messages: Vec<_> = client.incoming().into_iter().map(|incoming| incoming.message).collect();
    assert_eq!(messages, [&b"first"[..], b"second"]);
    let frames = client.frames();
    let Performative::Flow(flow) = &frames[1].1 else {
        panic!("a flow");
    };
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(2), Some(8)));
}

#[test]
fn messages_to_a_rejected_link_are_dropped() {
    let (mut client, _) = Client::open();
    client.say(CHANNEL, &attach(0, Role::Sender));
    client.transfer(&transfer(0, 0), b"first");
    let EngineEvent::Attach(request) = client.event() else {
        panic!("an attach");
    };
    client.engine.detach(
        request.link,
        Some(AmqpError::new(condition::UNAUTHORIZED_ACCESS, "no right to send")),
    );
    client.transfer(&transfer(0, 1), b"second");
    assert_eq!(client.events(), []);
}

#[test]
fn a_handle_is_blocked_until_the_application_answers_the_detach() {
    let (mut client, _) = Client::open();
    let link = client.receiver(0);
    let request = Detach {
        handle: 0,
        closed: false,
        error: None,
    };
    client.say(CHANNEL, &request);
    client.say(CHANNEL, &attach(0, Role::Sender));
    assert!(matches!(client.event(), EngineEvent::Detach { closed: false, .. }));
    assert!(client.take_output().is_empty());
    client.engine.detach(link, None);
    assert!(matches!(client.event(), EngineEvent::Attach(_)));
    assert_eq!(client.frame(), Performative::Detach(request.into()));
    let outgoing = OutgoingDelivery {
        tag: None,
        message_format: 0,
        settled: true,
        parts: &[],
    };
    assert_eq!(client.engine.send(link, &outgoing), Err(SendError::LinkNotFound));
}

#[test]
fn a_detach_by_the_server_closes_the_link_with_the_error() {
    let (mut client, _) = Client::open();
    let link = client.receiver(0);
    let error = AmqpError::new("com.microsoft:session-lock-lost", "the lock expired");
    client.engine.detach(link, Some(error.clone()));
    client.engine.detach(link, None);
    let expected = Detach {
        handle: 0,
        closed: true,
        error: Some(error),
    };
    assert_eq!(client.frame(), Performative::Detach(expected.into()));
    client.say(CHANNEL, &detach(0));
    assert_eq!(client.events(), []);
    assert!(client.take_output().is_empty());
}

#[test]
fn a_coordinator_target_differs_from_a_node() {
    let (mut client, _) = Client::open();
    let coordinator = oxbus_amqp::performative::Coordinator {
        capabilities: vec!["amqp:local-transactions".into()],
    };
    let asked = Attach {
        target: Some(Target::Coordinator(coordinator).into()),
        source: Some(Source::of(AmqpValue::Null).into()),
        ..attach(0, Role::Sender)
    };
    let request = requested(&mut client, &asked);
    assert!(matches!(request.attach.target.as_deref(), Some(Target::Coordinator(_))));
    client
        .engine
        .accept(
            request.link,
            AttachResponse::as_requested(&request.attach).expect("ends"),
        )
        .expect("the link waits for an answer");
    let frames = client.frames();
    assert!(matches!(&frames[0].1, Performative::Attach(answer) if answer.target == asked.target));
}

/// A protocol error of the client and the condition of the answer.
type Scene = (fn(&mut Client), &'static str);

#[test]
fn unknown_handles_end_the_session() {
    let scenes: [Scene; 5] = [
        (
            |client| client.transfer(&transfer(9, 0), b""),
            condition::UNATTACHED_HANDLE,
        ),
        (
            |client| client.say(CHANNEL, &link_flow(9, 0, 1)),
            condition::UNATTACHED_HANDLE,
        ),
        (|client| client.say(CHANNEL, &detach(9)), condition::UNATTACHED_HANDLE),
        (
            |client| client.say(CHANNEL, &attach(0, Role::Sender)),
            condition::HANDLE_IN_USE,
        ),
        (|client| client.transfer(&transfer(0, 0), b""), condition::ERRANT_LINK),
    ];
    for (number, (scene, expected)) in scenes.iter().enumerate() {
        let (mut client, session) = Client::open();
        let link = client.receiver(0);
        scene(&mut client);
        let EngineEvent::SessionFailed { session: lost, error } = client.event() else {
            panic!("scene {number}");
        };
        assert_eq!((lost, error.condition.as_str()), (session, *expected), "scene {number}");
        let end = End { error: Some(error) };
        assert_eq!(client.frame(), Performative::End(end.into()), "scene {number}");
        client.engine.detach(link, None);
        assert!(client.take_output().is_empty(), "its links are gone");
    }
}

#[test]
fn a_link_that_requests_settled_messages_gets_only_those() {
    let (mut client, session) = Client::open();
    let asked = Attach {
        snd_settle_mode: SenderSettleMode::Settled,
        ..attach(0, Role::Receiver)
    };
    let link = client.attached(&asked, 0);
    client.credit(0, 1);
    let outgoing = OutgoingDelivery {
        tag: None,
        message_format: 0,
        settled: false,
        parts: &[b"message"],
    };
    client.engine.send(link, &outgoing).expect("credit");
    let Performative::Transfer(sent) = client.frame() else {
        panic!("a transfer");
    };
    assert_eq!((sent.settled, sent.delivery_tag), (Some(true), None));
    assert_eq!(client.engine.unsettled(session), 0);
}
