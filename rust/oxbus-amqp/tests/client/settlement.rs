// SPDX-License-Identifier: Apache-2.0
//! Settlement of messages from the server.

use oxbus_amqp::client::{CommandError, DeliveryOutcome, LinkRequest, ReceivedId};
use oxbus_amqp::performative::{
    AmqpError, DeliveryState, Disposition, Modified, Performative, ReceiverSettleMode, Role,
};
use oxbus_amqp::{ClientEvent, EngineEvent};

use super::frames::{disposition, frame, transfer};
use super::pair::{Pair, receiver};
use super::script::{SERVER_CHANNEL, Script};

/// A script that has delivered messages 0 to `count` less one, and their ids.
fn received(rcv_settle_mode: ReceiverSettleMode, count: u32) -> (Script, Vec<ReceivedId>) {
    let (mut script, session) = Script::open();
    let request = LinkRequest {
        rcv_settle_mode,
        credit: count,
        ..receiver("receiver")
    };
    script.attached(session, request, 0);
    for number in 0..count {
        script.write(&frame(SERVER_CHANNEL, &transfer(0, number), b"one"));
    }
    let id = |event| match event {
        ClientEvent::Received(received) => received.id.expect("unsettled"),
        other => panic!("{other:?}"),
    };
    let ids = script.events().into_iter().map(id).collect();
    script.take_output();
    (script, ids)
}

fn dispositions(script: &mut Script) -> Vec<Disposition> {
    let disposition = |(_, performative, _)| match performative {
        Performative::Disposition(disposition) => disposition,
        other => panic!("{other:?}"),
    };
    script.frames().into_iter().map(disposition).collect()
}

fn abandoned() -> DeliveryState {
    DeliveryState::from(Modified {
        delivery_failed: true,
        undeliverable_here: false,
        message_annotations: None,
    })
}

#[test]
fn a_list_is_settled_with_one_frame() {
    let (mut script, ids) = received(ReceiverSettleMode::Second, 100);
    // In any order.
    for id in ids.iter().rev() {
        assert_eq!(script.client.settle(*id, DeliveryState::Accepted, false), Ok(true));
    }
    let frames = dispositions(&mut script);
    assert_eq!(frames.len(), 1);
    let all = &frames[0];
    assert_eq!((all.role, all.first, all.last), (Role::Receiver, 0, Some(99)));
    assert!(!all.settled, "the server confirms first");
    assert_eq!(all.state, Some(DeliveryState::Accepted));
    let confirmation = Disposition {
        role: Role::Sender,
        settled: true,
        ..disposition(0, 99)
    };
    script.say(SERVER_CHANNEL, &confirmation);
    let events = script.events();
    assert_eq!(events.len(), 100);
    assert!(
        matches!(&events[42], ClientEvent::Settled(settled) if settled.delivery == ids[42]),
        "{:?}",
        events[42]
    );
}

#[test]
fn different_outcomes_take_frames_of_their_own() {
    let (mut script, ids) = received(ReceiverSettleMode::Second, 6);
    let states = [
        DeliveryState::Accepted,
        DeliveryState::Accepted,
        abandoned(),
        abandoned(),
        DeliveryState::Accepted,
    ];
    for (id, state) in ids.iter().zip(states) {
        script.client.settle(*id, state, false).expect("an unsettled message");
    }
    let ranges: Vec<_> = dispositions(&mut script)
        .iter()
        .map(|frame| (frame.first, frame.last))
        .collect();
    assert_eq!(ranges, [(0, Some(1)), (2, Some(3)), (4, Some(4))]);
}

#[test]
fn the_server_confirms_each_settlement() {
    let (mut pair, session) = Pair::open();
    let (link, at_server) = pair.receiver(session, 10);
    let dead_letter = DeliveryState::from(AmqpError::new("com.microsoft:dead-letter", "unreadable"));
    for state in [
        DeliveryState::Accepted,
        abandoned(),
        DeliveryState::Released,
        dead_letter,
    ] {
        pair.deliver(at_server, &[b"one"]);
        let delivery = pair.received()[0].id.expect("unsettled");
        pair.client
            .settle(delivery, state.clone(), false)
            .expect("an unsettled message");
        let state = Some(state);
        assert_eq!(
            pair.exchange(),
            [ClientEvent::Settled(DeliveryOutcome { link, delivery, state })]
        );
        assert_eq!(
            pair.client.settle(delivery, DeliveryState::Accepted, false),
            Err(CommandError::DeliveryNotFound)
        );
    }
    assert_eq!(pair.server.unsettled(pair_session(&pair)), 0);
}

fn pair_session(pair: &Pair) -> oxbus_amqp::engine::SessionId {
    let session = |event: &EngineEvent| match event {
        EngineEvent::Attach(request) => Some(request.link.session()),
        _ => None,
    };
    pair.server_events.iter().find_map(session).expect("a session")
}

#[test]
fn a_refused_settlement_is_reported_with_the_reason() {
    let (mut pair, session) = Pair::open();
    let lost = DeliveryState::from(AmqpError::new("com.microsoft:message-lock-lost", "the lock expired"));
    pair.confirmation = Some(lost.clone());
    let (_, at_server) = pair.receiver(session, 10);
    pair.deliver(at_server, &[b"one"]);
    let delivery = pair.received()[0].id.expect("unsettled");
    pair.client
        .settle(delivery, DeliveryState::Accepted, false)
        .expect("an unsettled message");
    let events = pair.exchange();
    assert!(
        matches!(&events[..], [ClientEvent::Settled(settled)] if settled.state.as_ref() == Some(&lost)),
        "{events:?}"
    );
}

#[test]
fn a_message_is_settled_once() {
    let (mut script, ids) = received(ReceiverSettleMode::Second, 1);
    script
        .client
        .settle(ids[0], DeliveryState::Accepted, false)
        .expect("an unsettled message");
    assert_eq!(
        script.client.settle(ids[0], abandoned(), false),
        Err(CommandError::DeliveryNotFound)
    );
    assert_eq!(dispositions(&mut script).len(), 1);
}

/// As a receiver gives back what it prefetched.
#[test]
fn an_unconfirmed_settlement_needs_no_answer() {
    for mode in [ReceiverSettleMode::First, ReceiverSettleMode::Second] {
        let (mut script, ids) = received(mode, 3);
        let is_unconfirmed = mode == ReceiverSettleMode::Second;
        for id in &ids {
            let is_confirmed = script.client.settle(*id, DeliveryState::Released, is_unconfirmed);
            assert_eq!(is_confirmed, Ok(false));
        }
        let frames = dispositions(&mut script);
        assert_eq!(frames.len(), 1);
        assert!(frames[0].settled && frames[0].last == Some(2));
        assert_eq!(
            script.client.settle(ids[0], DeliveryState::Accepted, false),
            Err(CommandError::DeliveryNotFound)
        );
    }
}

/// As a server settles what the client never will: the lock is lost.
#[test]
fn a_server_may_settle_by_itself() {
    let (mut script, ids) = received(ReceiverSettleMode::Second, 2);
    let update = Disposition {
        role: Role::Sender,
        ..disposition(0, 1)
    };
    script.say(SERVER_CHANNEL, &update);
    assert_eq!(script.events(), [], "not settled yet");
    let settled = Disposition {
        role: Role::Sender,
        settled: true,
        ..disposition(1, 1)
    };
    script.say(SERVER_CHANNEL, &settled);
    assert!(matches!(script.event(), ClientEvent::Settled(settled) if settled.delivery == ids[1]));
    assert_eq!(
        script.client.settle(ids[1], DeliveryState::Accepted, false),
        Err(CommandError::DeliveryNotFound)
    );
    script
        .client
        .settle(ids[0], DeliveryState::Accepted, false)
        .expect("the other one is unsettled");
}

#[test]
fn messages_of_a_detached_link_cannot_be_settled() {
    let (mut script, ids) = received(ReceiverSettleMode::Second, 1);
    script.client.detach(ids[0].link(), true, None);
    assert_eq!(
        script.client.settle(ids[0], DeliveryState::Accepted, false),
        Err(CommandError::DeliveryNotFound)
    );
}

#[test]
fn a_settlement_before_a_detach_is_written_before_it() {
    let (mut script, ids) = received(ReceiverSettleMode::First, 1);
    script
        .client
        .settle(ids[0], DeliveryState::Accepted, false)
        .expect("an unsettled message");
    script.client.detach(ids[0].link(), true, None);
    let frames = script.frames();
    assert!(
        matches!(
            &frames[..],
            [(_, Performative::Disposition(_), _), (_, Performative::Detach(_), _)]
        ),
        "{frames:?}"
    );
}
