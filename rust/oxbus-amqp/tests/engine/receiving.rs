// SPDX-License-Identifier: Apache-2.0
//! Messages from the client: transfers, credit, answers.

use bytes::Bytes;
use oxbus_amqp::EngineEvent;
use oxbus_amqp::performative::{
    AmqpError, Attach, DeliveryState, Disposition, Flow, Performative, Role, SenderSettleMode, Transfer, condition,
};

use super::client::{CHANNEL, Client, attach, detach, link_flow, session_flow, transfer};

#[test]
fn a_message_arrives_as_sent() {
    let (mut client, _) = Client::open();
    let link = client.sender(0, 10);
    client.transfer(&transfer(0, 7), b"message");
    let [incoming] = <[_; 1]>::try_from(client.incoming()).expect("one message");
    assert_eq!(
        (incoming.link, &incoming.message[..], incoming.message_format),
        (link, &b"message"[..], 0)
    );
    assert_eq!(incoming.tag.as_bytes(), 7_u32.to_be_bytes());
    client
        .engine
        .answer(incoming.id.expect("unsettled"), DeliveryState::Accepted);
    let expected = Disposition {
        role: Role::Receiver,
        first: 7,
        last: Some(7),
        settled: true,
        state: Some(DeliveryState::Accepted),
        batchable: false,
    };
    assert_eq!(client.frame(), Performative::Disposition(expected));
}

/// Some clients repeat id and tag in each transfer; others omit them.
#[test]
fn transfers_are_assembled() {
    let (mut client, _) = Client::open();
    let first = client.sender(0, 10);
    let second = client.sender(1, 10);
    let part = |handle, id, more| Transfer {
        more,
        ..transfer(handle, id)
    };
    client.transfer(&part(0, 0, true), b"one ");
    client.transfer(&part(1, 1, true), b"uno ");
    client.transfer(&part(0, 0, true), b"two ");
    assert_eq!(client.events(), []);
    let silent = Transfer {
        delivery_id: None,
        delivery_tag: None,
        message_format: None,
        settled: None,
        ..transfer(1, 1)
    };
    client.transfer(&silent, b"due");
    client.transfer(&part(0, 0, false), b"three");
    let incoming = client.incoming();
    let reported: Vec<_> = incoming
        .iter()
        .map(|incoming| (incoming.link, &incoming.message[..]))
        .collect();
    assert_eq!(reported, [(second, &b"uno due"[..]), (first, b"one two three")]);
    assert_eq!(incoming[0].tag.as_bytes(), 1_u32.to_be_bytes());
    assert_eq!(client.engine.credit(first), 9);
}

#[test]
fn an_aborted_message_is_discarded() {
    let (mut client, _) = Client::open();
    client.sender(0, 10);
    let begun = Transfer {
        more: true,
        ..transfer(0, 0)
    };
    let aborted = Transfer {
        aborted: true,
        ..transfer(0, 0)
    };
    client.transfer(&begun, b"one");
    client.transfer(&aborted, b"");
    client.transfer(&transfer(0, 1), b"two");
    let messages: Vec<_> = client.incoming().into_iter().map(|incoming| incoming.message).collect();
    assert_eq!(messages, [&b"two"[..]]);
}

#[test]
fn a_settled_message_needs_no_answer() {
    let (mut client, _) = Client::open();
    client.sender(0, 10);
    let settled_link = Attach {
        snd_settle_mode: SenderSettleMode::Settled,
        ..attach(1, Role::Sender)
    };
    client.attached(&settled_link, 10);
    let settled = Transfer {
        settled: Some(true),
        ..transfer(0, 0)
    };
    client.transfer(&settled, b"");
    let unsaid = Transfer {
        settled: None,
        ..transfer(1, 1)
    };
    client.transfer(&unsaid, b"");
    assert!(client.incoming().iter().all(|incoming| incoming.id.is_none()));
}

#[test]
fn the_transaction_of_a_message_is_emitted() {
    let (mut client, _) = Client::open();
    client.sender(0, 10);
    let state = DeliveryState::Transactional {
        transaction_id: Bytes::from_static(b"id"),
        outcome: None,
    };
    let enlisted = Transfer {
        state: Some(state.clone()),
        ..transfer(0, 0)
    };
    client.transfer(&enlisted, b"");
    let [incoming] = <[_; 1]>::try_from(client.incoming()).expect("one message");
    assert_eq!(incoming.state, Some(state));
    let answer = DeliveryState::Transactional {
        transaction_id: Bytes::from_static(b"id"),
        outcome: Some(Box::new(DeliveryState::Accepted)),
    };
    client.engine.answer(incoming.id.expect("unsettled"), answer.clone());
    assert!(matches!(client.frame(), Performative::Disposition(disposition) if disposition.state == Some(answer)));
}

/// Answers may come in any order; consecutive deliveries with the same outcome share a frame.
#[test]
fn answers_to_consecutive_deliveries_share_a_frame() {
    let (mut client, _) = Client::open();
    client.sender(0, 100);
    for number in 0..10 {
        client.transfer(&transfer(0, number), b"");
    }
    let mut ids: Vec<_> = client.incoming().into_iter().map(|incoming| incoming.id).collect();
    let error = AmqpError::new(condition::RESOURCE_LIMIT_EXCEEDED, "the queue is full");
    for number in [3, 1, 0, 2, 9, 5, 6, 7] {
        let state = if number == 6 {
            error.clone().into()
        } else {
            DeliveryState::Accepted
        };
        client.engine.answer(ids[number].take().expect("unsettled"), state);
    }
    let frames = client.frames();
    let ranges: Vec<_> = frames
        .iter()
        .map(|(_, performative, _)| match performative {
            Performative::Disposition(disposition) => (
                disposition.first,
                disposition.last.expect("a last one"),
                disposition.state.clone(),
            ),
            other => panic!("{other:?}"),
        })
        .collect();
    let accepted = Some(DeliveryState::Accepted);
    let rejected = Some(DeliveryState::from(error));
    let expected = [
        (0, 3, accepted.clone()),
        (5, 5, accepted.clone()),
        (6, 6, rejected),
        (7, 7, accepted.clone()),
        (9, 9, accepted),
    ];
    assert_eq!(ranges, expected);
}

/// After a message and an immediate detach, the answer is still sent, before the detach.
#[test]
fn answer_goes_before_the_detach() {
    let (mut client, _) = Client::open();
    let link = client.sender(0, 10);
    client.transfer(&transfer(0, 0), b"");
    client.say(CHANNEL, &detach(0));
    let mut events = client.events();
    assert!(matches!(events.pop(), Some(EngineEvent::Detach { .. })));
    let Some(EngineEvent::Incoming(incoming)) = events.pop() else {
        panic!("a message");
    };
    client
        .engine
        .answer(incoming.id.expect("unsettled"), DeliveryState::Accepted);
    client.engine.detach(link, None);
    let frames = client.frames();
    assert!(
        matches!(
            frames[..],
            [(_, Performative::Disposition(_), _), (_, Performative::Detach(_), _)]
        ),
        "{frames:?}"
    );
}

#[test]
fn an_answer_on_a_removed_link_does_nothing() {
    let (mut client, session) = Client::open();
    let link = client.sender(0, 10);
    client.transfer(&transfer(0, 0), b"");
    client.transfer(&transfer(0, 1), b"");
    let mut ids = client.incoming().into_iter().filter_map(|incoming| incoming.id);
    client.engine.detach(link, None);
    client.take_output();
    client
        .engine
        .answer(ids.next().expect("unsettled"), DeliveryState::Accepted);
    client.engine.end(session, None);
    client.take_output();
    client
        .engine
        .answer(ids.next().expect("unsettled"), DeliveryState::Accepted);
    assert!(client.take_output().is_empty());
}

/// A common client sends beyond its credit.
#[test]
fn messages_beyond_the_credit_are_accepted() {
    let (mut client, _) = Client::open();
    let link = client.sender(0, 2);
    for number in 0..5 {
        client.transfer(&transfer(0, number), b"");
    }
    let incoming = client.incoming();
    assert_eq!(incoming.len(), 5);
    assert_eq!(client.engine.credit(link), 0);
    for delivery in incoming {
        client
            .engine
            .answer(delivery.id.expect("unsettled"), DeliveryState::Accepted);
    }
    let frames = client.frames();
    let Some((_, Performative::Flow(flow), _)) = frames.iter().find(|frame| matches!(frame.1, Performative::Flow(_)))
    else {
        panic!("a flow: {frames:?}");
    };
    assert_eq!(flow.delivery_count, Some(5));
}

/// Credit follows answers, not arrivals, so unanswered messages are limited.
#[test]
fn credit_is_renewed_as_messages_are_answered() {
    let (mut client, _) = Client::open();
    let link = client.sender(0, 10);
    for number in 0..10 {
        client.transfer(&transfer(0, number), b"");
    }
    let ids: Vec<_> = client
        .incoming()
        .into_iter()
        .filter_map(|incoming| incoming.id)
        .collect();
    assert!(client.take_output().is_empty());
    assert_eq!(client.engine.credit(link), 0);
    for id in ids {
        client.engine.answer(id, DeliveryState::Accepted);
    }
    let frames = client.frames();
    let flows: Vec<_> = frames
        .iter()
        .filter(|frame| matches!(frame.1, Performative::Flow(_)))
        .collect();
    let [(_, Performative::Flow(flow), _)] = &flows[..] else {
        panic!("one flow: {frames:?}");
    };
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(10), Some(6)));
    client.engine.set_credit(link, 0);
    assert!(matches!(client.frame(), Performative::Flow(flow) if flow.link_credit == Some(0)));
}

#[test]
fn the_session_window_is_renewed_before_it_closes() {
    // AMQP_WINDOW_FRAMES is a grant that is renewed; the limit of unanswered messages bounds transfers beyond it.
    let (mut client, _) = Client::open();
    client.sender(0, 10_000);
    let settled = |number| Transfer {
        settled: Some(true),
        ..transfer(0, number)
    };
    let mut flows = Vec::new();
    for number in 0..6_000 {
        client.transfer(&settled(number), b"");
        assert_eq!(client.incoming().len(), 1);
        flows.extend(client.frames());
    }
    let session_flows: Vec<_> = flows
        .iter()
        .filter_map(|(_, flow, _)| match flow {
            Performative::Flow(flow) if flow.handle.is_none() => Some((flow.next_incoming_id, flow.incoming_window)),
            _ => None,
        })
        .collect();
    assert_eq!(session_flows, [(Some(2_500), 5_000), (Some(5_000), 5_000)]);
}

#[test]
fn echo_is_answered_for_links_and_sessions() {
    let (mut client, _) = Client::open();
    client.sender(0, 10);
    let echo = Flow {
        echo: true,
        ..session_flow(1, 100)
    };
    client.say(CHANNEL, &echo);
    assert_eq!(client.events(), []);
    assert!(matches!(client.frame(), Performative::Flow(flow) if flow.handle.is_none() && !flow.echo));
    let echo = Flow {
        echo: true,
        ..link_flow(0, 0, 0)
    };
    client.say(CHANNEL, &echo);
    assert_eq!(client.events(), []);
    assert!(matches!(client.frame(), Performative::Flow(flow) if flow.link_credit == Some(10) && !flow.echo));
}

#[test]
fn an_interleaved_transfer_of_another_message_detaches_the_link() {
    let (mut client, _) = Client::open();
    let link = client.sender(0, 10);
    let begun = Transfer {
        more: true,
        ..transfer(0, 0)
    };
    client.transfer(&begun, b"one");
    client.transfer(&transfer(0, 1), b"two");
    assert!(matches!(client.event(), EngineEvent::LinkFailed { link: lost, error }
        if lost == link && error.condition.as_str() == condition::NOT_ALLOWED));
    let nameless = Transfer {
        delivery_id: None,
        ..transfer(1, 0)
    };
    client.sender(1, 10);
    client.transfer(&nameless, b"");
    assert!(matches!(client.event(), EngineEvent::LinkFailed { .. }));
}
