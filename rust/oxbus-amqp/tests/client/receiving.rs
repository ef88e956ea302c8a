// SPDX-License-Identifier: Apache-2.0
//! Messages from the server: credit, drain, frames, windows.

use oxbus_amqp::client::{LinkId, LinkRequest};
use oxbus_amqp::codec::Tag;
use oxbus_amqp::engine::OutgoingDelivery;
use oxbus_amqp::performative::{Attach, Flow, Performative, SenderSettleMode, Transfer, condition};
use oxbus_amqp::{ClientEvent, EngineEvent};

use super::frames::{frame, link_flow, transfer};
use super::pair::{Pair, receiver, sender};
use super::script::{SERVER_CHANNEL, Script, accept};

/// A client with a link from a script.
fn with_link(credit: u32) -> (Script, LinkId) {
    let (mut script, session) = Script::open();
    let request = LinkRequest {
        credit,
        ..receiver("receiver")
    };
    let link = script.attached(session, request, 0);
    (script, link)
}

fn deliver(script: &mut Script, transfer: &Transfer, payload: &[u8]) {
    script.write(&frame(SERVER_CHANNEL, transfer, payload));
}

#[test]
fn messages_arrive_within_the_credit() {
    let (mut pair, session) = Pair::open();
    let (link, at_server) = pair.receiver(session, 3);
    assert_eq!(
        pair.server.sendable(at_server),
        3,
        "the first credit goes with the attach"
    );
    pair.deliver(at_server, &[b"one", b"two"]);
    let received = pair.received();
    let bodies: Vec<_> = received.iter().map(|received| &received.message[..]).collect();
    assert_eq!(bodies, [b"one", b"two"]);
    assert_eq!(received[1].tag, Tag::from_number(1));
    assert!(
        received
            .iter()
            .all(|received| received.link == link && received.id.is_some())
    );
    assert_eq!(pair.client.credit(link), 1);
    pair.client.set_credit(link, 10);
    pair.exchange();
    assert_eq!(pair.server.sendable(at_server), 10, "credit is absolute");
}

#[test]
fn a_message_of_many_frames_is_one_event() {
    let (mut pair, session) = Pair::open();
    let (_, at_server) = pair.receiver(session, 3);
    let large: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    pair.deliver(at_server, &[&large]);
    let received = pair.received();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].message, large);
}

#[test]
fn a_settled_message_has_no_id() {
    let (mut pair, session) = Pair::open();
    let request = LinkRequest {
        snd_settle_mode: SenderSettleMode::Settled,
        credit: 5,
        ..receiver("settled")
    };
    let (_, at_server) = pair.attach(session, request);
    let outgoing = OutgoingDelivery {
        tag: None,
        message_format: 7,
        settled: true,
        parts: &[b"one"],
    };
    pair.server.send(at_server, &outgoing).expect("credit");
    let received = pair.received();
    assert_eq!((received[0].id, received[0].message_format), (None, 7));
}

#[test]
fn a_drain_ends_with_an_event() {
    let (mut pair, session) = Pair::open();
    let (link, at_server) = pair.receiver(session, 5);
    pair.deliver(at_server, &[b"one"]);
    assert_eq!(pair.received().len(), 1);
    pair.client.drain(link);
    assert_eq!(pair.exchange(), [ClientEvent::Drained { link }]);
    assert_eq!((pair.client.credit(link), pair.server.sendable(at_server)), (0, 0));
    pair.client.drain(link);
    assert_eq!(pair.exchange(), [ClientEvent::Drained { link }], "nothing to drain");
    pair.client.set_credit(link, 2);
    pair.exchange();
    assert_eq!(pair.server.sendable(at_server), 2);
}

#[test]
fn a_drain_also_ends_with_the_last_message() {
    let (mut script, link) = with_link(2);
    script.client.drain(link);
    let Performative::Flow(flow) = script.frame() else {
        panic!("a flow");
    };
    assert!(flow.drain);
    deliver(&mut script, &transfer(0, 0), b"one");
    deliver(&mut script, &transfer(0, 1), b"two");
    let events = script.events();
    assert!(
        matches!(
            events[..],
            [
                ClientEvent::Received(_),
                ClientEvent::Received(_),
                ClientEvent::Drained { .. }
            ]
        ),
        "{events:?}"
    );
    script.say(
        SERVER_CHANNEL,
        &Flow {
            drain: true,
            ..link_flow(0, 2, 0)
        },
    );
    assert_eq!(script.events(), [], "once");
}

/// Messages that were on their way when the client lowered the credit are no error.
#[test]
fn credit_may_be_lowered_while_messages_are_on_their_way() {
    let (mut script, link) = with_link(2);
    script.client.set_credit(link, 0);
    deliver(&mut script, &transfer(0, 0), b"one");
    deliver(&mut script, &transfer(0, 1), b"two");
    let events = script.events();
    assert!(
        events.len() == 2 && events.iter().all(|event| matches!(event, ClientEvent::Received(_))),
        "{events:?}"
    );
}

#[test]
fn a_server_may_exceed_the_credit() {
    let (mut script, link) = with_link(1);
    deliver(&mut script, &transfer(0, 0), b"one");
    deliver(&mut script, &transfer(0, 1), b"two");
    let events = script.events();
    assert!(
        events.len() == 2 && events.iter().all(|event| matches!(event, ClientEvent::Received(_))),
        "{events:?}"
    );
    assert_eq!(script.client.credit(link), 0);
    script.client.set_credit(link, 1);
    let Some((_, Performative::Flow(flow), _)) = script.frames().pop() else {
        panic!("the credit is told");
    };
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(2), Some(1)));
}

/// The server counts from any number.
#[test]
fn an_initial_delivery_count_moves_the_credit() {
    let (mut script, session) = Script::open();
    let request = LinkRequest {
        credit: 2,
        ..receiver("receiver")
    };
    let start = u32::MAX;
    let answer = Attach {
        initial_delivery_count: Some(start),
        ..accept(&request, 0)
    };
    let link = script.client.attach(session, request).expect("an open session");
    let frames = script.frames();
    assert!(
        matches!(frames.last(), Some((_, Performative::Flow(flow), _)) if flow.delivery_count.is_none()),
        "the count is not known yet: {frames:?}"
    );
    script.say(SERVER_CHANNEL, &answer);
    script.events();
    for number in 0..2 {
        deliver(&mut script, &transfer(0, number), b"one");
    }
    assert_eq!(script.events().len(), 2);
    script.client.set_credit(link, 5);
    let Performative::Flow(flow) = script.frame() else {
        panic!("a flow");
    };
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(1), Some(5)));
    deliver(&mut script, &transfer(0, 2), b"one");
    assert!(matches!(script.event(), ClientEvent::Received(_)));
}

#[test]
fn a_broken_message_costs_the_link() {
    let part = |number, more| Transfer {
        more,
        ..transfer(0, number)
    };
    let nameless = Transfer {
        delivery_id: None,
        ..transfer(0, 0)
    };
    let cases: [(&[Transfer], &str); 2] = [
        (&[part(0, true), part(1, false)], condition::NOT_ALLOWED),
        (&[nameless], condition::INVALID_FIELD),
    ];
    for (transfers, condition) in cases {
        let (mut script, _) = with_link(5);
        for transfer in transfers {
            deliver(&mut script, transfer, b"part");
        }
        let event = script.event();
        assert!(
            matches!(&event, ClientEvent::LinkFailed { error, .. } if error.condition.as_str() == condition),
            "{event:?}"
        );
    }
}

#[test]
fn an_aborted_message_is_dropped() {
    let (mut script, link) = with_link(5);
    let part = Transfer {
        more: true,
        ..transfer(0, 0)
    };
    let abort = Transfer {
        aborted: true,
        ..transfer(0, 0)
    };
    deliver(&mut script, &part, b"part");
    deliver(&mut script, &abort, b"");
    deliver(&mut script, &transfer(0, 1), b"whole");
    assert!(matches!(script.event(), ClientEvent::Received(received) if &received.message[..] == b"whole"));
    assert_eq!(script.client.credit(link), 3);
}

#[test]
fn the_clients_limit_of_a_message_holds() {
    let (mut script, session) = Script::open();
    let request = LinkRequest {
        credit: 5,
        max_message_size: 10,
        ..receiver("small")
    };
    script.attached(session, request, 0);
    let part = Transfer {
        more: true,
        ..transfer(0, 0)
    };
    deliver(&mut script, &part, b"123456");
    deliver(&mut script, &part, b"123456");
    let event = script.event();
    assert!(
        matches!(&event, ClientEvent::LinkFailed { error, .. } if error.condition.as_str() == condition::MESSAGE_SIZE_EXCEEDED),
        "{event:?}"
    );
}

#[test]
fn a_transfer_on_a_link_to_the_server_ends_the_session() {
    let (mut script, session) = Script::open();
    script.attached(session, sender("sender"), 0);
    deliver(&mut script, &transfer(0, 0), b"one");
    let event = script.event();
    assert!(
        matches!(&event, ClientEvent::SessionFailed { error, .. } if error.condition.as_str() == condition::ERRANT_LINK),
        "{event:?}"
    );
}

#[test]
fn the_window_of_the_session_is_renewed() {
    let (mut pair, session) = Pair::open();
    let (link, at_server) = pair.receiver(session, 20_000);
    let mut received = 0;
    for _ in 0..12 {
        for _ in 0..1_000 {
            pair.deliver(at_server, &[b"one"]);
        }
        received += pair.received().len();
    }
    assert_eq!(received, 12_000);
    assert_eq!(pair.client.credit(link), 8_000);
    assert!(
        !pair
            .server_events
            .iter()
            .any(|event| matches!(event, EngineEvent::SessionFailed { .. }))
    );
}
