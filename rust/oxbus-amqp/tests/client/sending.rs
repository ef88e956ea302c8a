// SPDX-License-Identifier: Apache-2.0
//! Messages to the server: credit, windows, frames, outcomes.

use bytes::Bytes;
use oxbus_amqp::client::{DeliveryOutcome, OutgoingMessage, SendError};
use oxbus_amqp::engine::AttachResponse;
use oxbus_amqp::message::MESSAGE_FORMAT_BATCH;
use oxbus_amqp::performative::{
    AmqpError, Begin, DeliveryState, Disposition, Flow, Open, Performative, Role, Transfer,
};
use oxbus_amqp::{ClientEngine, ClientEvent};

use super::frames::{begin, disposition, link_flow, open, session_flow};
use super::pair::{CREDIT, Pair, outgoing, sender};
use super::script::{SERVER_CHANNEL, Script};

/// A client with a link, and credit from a script.
fn with_credit(credit: u32) -> (Script, oxbus_amqp::client::LinkId) {
    let (mut script, session) = Script::open();
    let link = script.attached(session, sender("sender"), 0);
    script.say(SERVER_CHANNEL, &link_flow(0, 0, credit));
    assert!(matches!(script.event(), ClientEvent::Credit { .. }));
    (script, link)
}

fn send(client: &mut ClientEngine, link: oxbus_amqp::client::LinkId, message: &[u8]) -> Result<(), SendError> {
    client.send(link, &outgoing(&[message])).map(|_| ())
}

fn transfers(script: &mut Script) -> Vec<(Transfer, Bytes)> {
    let transfer = |(_, performative, payload)| match performative {
        Performative::Transfer(transfer) => (transfer, payload),
        other => panic!("{other:?}"),
    };
    script.frames().into_iter().map(transfer).collect()
}

#[test]
fn the_outcome_of_each_message_is_reported() {
    let (mut pair, session) = Pair::open();
    let (link, _) = pair.sender(session);
    let rejected = DeliveryState::from(AmqpError::new("com.microsoft:server-busy", "wait"));
    for outcome in [DeliveryState::Accepted, rejected, DeliveryState::Released] {
        pair.outcome = Some(outcome.clone());
        let delivery = pair.send(link, b"one message").expect("credit");
        assert_eq!(pair.client.unsettled(session), 1);
        let state = Some(outcome);
        assert_eq!(
            pair.exchange(),
            [ClientEvent::Outcome(DeliveryOutcome { link, delivery, state })]
        );
        assert_eq!(pair.client.unsettled(session), 0);
        assert_eq!(pair.arrived(), [(0, None, Bytes::from_static(b"one message"))]);
    }
}

#[test]
fn format_and_transaction_travel_with_the_message() {
    let (mut pair, session) = Pair::open();
    let (link, _) = pair.sender(session);
    let state = DeliveryState::Transactional {
        transaction_id: Bytes::from_static(b"transaction"),
        outcome: None,
    };
    let large = vec![5; 150_000];
    for parts in [&[&b"small"[..]][..], &[&b"large"[..], &large[..]][..]] {
        let message = OutgoingMessage {
            message_format: MESSAGE_FORMAT_BATCH,
            state: Some(&state),
            ..outgoing(parts)
        };
        pair.client.send(link, &message).expect("credit");
        pair.exchange();
        assert_eq!(
            pair.arrived(),
            [(MESSAGE_FORMAT_BATCH, Some(state.clone()), parts.concat().into())]
        );
    }
}

#[test]
fn a_settled_message_has_no_outcome() {
    let (mut pair, session) = Pair::open();
    let (link, _) = pair.sender(session);
    let message = OutgoingMessage {
        settled: true,
        ..outgoing(&[b"settled"])
    };
    pair.client.send(link, &message).expect("credit");
    assert_eq!(pair.client.unsettled(session), 0);
    assert_eq!(pair.exchange(), []);
    assert_eq!(pair.arrived(), [(0, None, Bytes::from_static(b"settled"))]);
}

#[test]
fn one_answer_may_settle_many_messages() {
    let (mut script, link) = with_credit(10);
    for _ in 0..3 {
        send(&mut script.client, link, b"one").expect("credit");
    }
    let all = Disposition {
        settled: true,
        ..disposition(0, 2)
    };
    script.say(SERVER_CHANNEL, &all);
    let events = script.events();
    assert_eq!(events.len(), 3);
    assert!(events.iter().all(|event| matches!(event, ClientEvent::Outcome(_))));
    script.say(SERVER_CHANNEL, &all);
    assert_eq!(script.events(), [], "each once");
    assert!(transfers(&mut script).len() == 3, "a settled outcome needs no answer");
}

/// A server that settles second waits until the client has settled.
#[test]
fn an_unsettled_outcome_is_settled_by_the_client() {
    let (mut script, link) = with_credit(10);
    for _ in 0..3 {
        send(&mut script.client, link, b"one").expect("credit");
    }
    script.take_output();
    let received = Disposition {
        state: Some(DeliveryState::Received {
            section_number: 0,
            section_offset: 0,
        }),
        ..disposition(0, 2)
    };
    script.say(SERVER_CHANNEL, &received);
    assert_eq!(script.events(), [], "not an outcome");
    script.say(SERVER_CHANNEL, &disposition(0, 2));
    assert_eq!(script.events().len(), 3);
    let Performative::Disposition(answer) = script.frame() else {
        panic!("a disposition");
    };
    assert_eq!((answer.role, answer.first, answer.last), (Role::Sender, 0, Some(2)));
    assert!(answer.settled);
    assert_eq!(answer.state, Some(DeliveryState::Accepted));
}

#[test]
fn a_settlement_without_an_outcome_is_reported() {
    let (mut script, link) = with_credit(1);
    send(&mut script.client, link, b"one").expect("credit");
    let bare = Disposition {
        settled: true,
        state: None,
        last: None,
        ..disposition(0, 0)
    };
    script.say(SERVER_CHANNEL, &bare);
    assert!(matches!(script.event(), ClientEvent::Outcome(outcome) if outcome.state.is_none()));
}

#[test]
fn credit_is_absolute() {
    let (mut script, link) = with_credit(2);
    send(&mut script.client, link, b"1").expect("credit");
    // Written before the message arrived: two from the start.
    script.say(SERVER_CHANNEL, &link_flow(0, 0, 2));
    assert_eq!(script.events(), []);
    assert_eq!(script.client.sendable(link), 1);
    send(&mut script.client, link, b"2").expect("credit");
    assert_eq!(send(&mut script.client, link, b"3"), Err(SendError::NoCredit));
    script.say(SERVER_CHANNEL, &link_flow(0, 2, 1));
    assert!(matches!(
        script.event(),
        ClientEvent::Credit {
            credit: 1,
            drain: false,
            ..
        }
    ));
    script.say(SERVER_CHANNEL, &link_flow(0, 2, 0));
    assert!(matches!(script.event(), ClientEvent::Credit { credit: 0, .. }));
    assert_eq!(send(&mut script.client, link, b"3"), Err(SendError::NoCredit));
}

#[test]
fn the_server_renews_credit_as_it_answers() {
    let (mut pair, session) = Pair::open();
    let (link, _) = pair.sender(session);
    for number in 0..3 * CREDIT {
        pair.send(link, &number.to_be_bytes()).expect("credit");
        pair.exchange();
    }
    assert_eq!(pair.arrived().len(), 3 * CREDIT as usize);
}

#[test]
fn a_message_larger_than_a_frame_is_split() {
    let small = Open {
        max_frame_size: Some(512),
        ..open()
    };
    let (mut script, session) = Script::open_with(&small, begin());
    let link = script.attached(session, sender("sender"), 0);
    script.say(SERVER_CHANNEL, &link_flow(0, 0, 10));
    script.events();
    let message: Vec<u8> = (0..2_000_u32).map(|number| number as u8).collect();
    send(&mut script.client, link, &message).expect("credit");
    send(&mut script.client, link, b"").expect("credit");
    let output = script.take_output();
    let sizes: Vec<_> = super::frames::frames(output.clone())
        .iter()
        .map(|(_, _, payload)| payload.len())
        .collect();
    assert!(sizes.len() == 6 && sizes.iter().all(|size| *size < 512), "{sizes:?}");
    script.client.output().extend_from_slice(&output);
    let transfers = transfers(&mut script);
    let more: Vec<_> = transfers.iter().map(|(transfer, _)| transfer.more).collect();
    assert_eq!(more, [true, true, true, true, false, false]);
    assert_eq!(
        transfers[0].0.delivery_tag,
        Some(oxbus_amqp::codec::Tag::from_number(0))
    );
    let joined: Vec<u8> = transfers.iter().flat_map(|(_, payload)| payload.to_vec()).collect();
    assert_eq!(joined, message);
}

#[test]
fn a_message_waits_for_the_window_of_the_session() {
    let narrow = Begin {
        incoming_window: 2,
        ..begin()
    };
    let small = Open {
        max_frame_size: Some(512),
        ..open()
    };
    let (mut script, session) = Script::open_with(&small, narrow);
    let link = script.attached(session, sender("sender"), 0);
    script.say(
        SERVER_CHANNEL,
        &Flow {
            incoming_window: 2,
            ..link_flow(0, 0, 10)
        },
    );
    script.events();
    send(&mut script.client, link, &[7; 1_500]).expect("a window");
    assert_eq!(transfers(&mut script).len(), 2);
    assert_eq!(send(&mut script.client, link, b"next"), Err(SendError::NoWindow));
    assert_eq!(script.client.sendable(link), 0);
    script.say(SERVER_CHANNEL, &session_flow(3, 10));
    assert!(
        matches!(script.event(), ClientEvent::Credit { credit: 9, .. }),
        "the link can send again"
    );
    assert_eq!(transfers(&mut script).len(), 2);
    send(&mut script.client, link, b"next").expect("a window");
}

#[test]
fn the_servers_limit_of_a_message_holds() {
    let (mut pair, session) = Pair::open();
    pair.terms = |_, terms| {
        Some(AttachResponse {
            max_message_size: 1_000,
            ..terms
        })
    };
    let (link, _) = pair.sender(session);
    assert_eq!(pair.send(link, &[0; 1_001]), Err(SendError::TooLarge(1_000)));
    pair.send(link, &[0; 1_000]).expect("as large as allowed");
    assert_eq!(pair.exchange().len(), 1);
}

#[test]
fn a_server_that_drains_gets_its_credit_back() {
    let (mut script, link) = with_credit(5);
    send(&mut script.client, link, b"one").expect("credit");
    script.take_output();
    let drain = Flow {
        drain: true,
        echo: true,
        ..link_flow(0, 0, 5)
    };
    script.say(SERVER_CHANNEL, &drain);
    assert!(matches!(
        script.event(),
        ClientEvent::Credit {
            credit: 4,
            drain: true,
            ..
        }
    ));
    assert!(script.take_output().is_empty(), "the caller answers");
    script.client.drained(link);
    let Performative::Flow(answer) = script.frame() else {
        panic!("a flow");
    };
    assert_eq!(
        (answer.delivery_count, answer.link_credit, answer.drain),
        (Some(5), Some(0), true)
    );
    script.client.drained(link);
    assert!(script.take_output().is_empty(), "once");
}

#[test]
fn an_echo_is_answered() {
    let (mut script, _) = with_credit(5);
    let link_echo = Flow {
        echo: true,
        ..link_flow(0, 0, 5)
    };
    script.say(SERVER_CHANNEL, &link_echo);
    assert!(matches!(script.frame_after_events(), Performative::Flow(flow) if flow.handle == Some(0)));
    let session_echo = Flow {
        echo: true,
        ..session_flow(1, 100)
    };
    script.say(SERVER_CHANNEL, &session_echo);
    assert!(matches!(script.frame_after_events(), Performative::Flow(flow) if flow.handle.is_none()));
}

/// Neither side waits for the other: input is processed while the output is full.
#[test]
fn a_full_output_refuses_messages_but_takes_input() {
    let (mut script, link) = with_credit(1_000);
    let large = vec![1; 1 << 20];
    let sent = (0..10)
        .take_while(|_| send(&mut script.client, link, &large).is_ok())
        .count();
    assert!((4..10).contains(&sent), "{sent}");
    assert_eq!(send(&mut script.client, link, &large), Err(SendError::BackedUp));
    assert_eq!(script.client.sendable(link), 0);
    script.say(
        SERVER_CHANNEL,
        &Disposition {
            settled: true,
            ..disposition(0, 0)
        },
    );
    assert_eq!(script.events().len(), 1);
    script.take_output();
    assert!(script.client.sendable(link) > 0);
}

#[test]
fn messages_without_an_outcome_are_forgotten_with_their_link() {
    let (mut pair, session) = Pair::open();
    pair.outcome = None;
    let (link, _) = pair.sender(session);
    pair.send(link, b"one").expect("credit");
    pair.exchange();
    assert_eq!(pair.client.unsettled(session), 1);
    pair.client.detach(link, true, None);
    assert_eq!(pair.client.unsettled(session), 0);
    assert_eq!(pair.exchange().len(), 1);
}

/// Outcomes for what was never sent are no error: they may be late.
#[test]
fn outcomes_of_unknown_messages_are_dropped() {
    let (mut script, _) = with_credit(1);
    for (first, last) in [(0, 0), (u32::MAX, 5), (5, 4), (0, u32::MAX)] {
        script.say(SERVER_CHANNEL, &disposition(first, last));
    }
    assert_eq!(script.events(), []);
    assert!(script.take_output().is_empty());
}

impl Script {
    /// The only frame that the client wrote after it took the input.
    fn frame_after_events(&mut self) -> Performative {
        assert_eq!(self.events(), []);
        self.frame()
    }
}
