// SPDX-License-Identifier: Apache-2.0
//! Sessions and links: attach, detach, end.

use oxbus_amqp::client::{ClientSettings, CommandError, LinkRequest, SendError};
use oxbus_amqp::codec::{AmqpValue, Map, Symbol};
use oxbus_amqp::engine::AttachResponse;
use oxbus_amqp::performative::{
    AmqpError, Attach, Begin, Coordinator, Detach, End, Performative, ReceiverSettleMode, Role, SenderSettleMode,
    Source, Target, condition,
};
use oxbus_amqp::{ClientEvent, EngineEvent};

use super::frames::{attach, begin, detach, link_flow, open, session_flow};
use super::pair::{Pair, receiver, refusal, sender};
use super::script::{SERVER_CHANNEL, Script, accept, handshake};

#[test]
fn the_terms_of_a_link_travel_in_both_directions() {
    let (mut pair, session) = Pair::open();
    pair.terms = |_, terms| {
        Some(AttachResponse {
            max_message_size: 1 << 20,
            offered_capabilities: vec![Symbol::from_static("shared")],
            properties: Map::new().with("com.microsoft:max-message-batch-size", 1_024_u32),
            ..terms
        })
    };
    let filter = Map::new().with("com.microsoft:session-filter", "customer-7");
    let mut request = LinkRequest {
        desired_capabilities: vec![Symbol::from_static("amqp:local-transactions")],
        offered_capabilities: vec![Symbol::from_static("queue")],
        properties: Map::new().with("com.microsoft:receiver-name", "one"),
        max_message_size: 5_000,
        ..receiver("filtered")
    };
    request.source.filter = Some(filter.clone());
    let link = pair.client.attach(session, request).expect("an open session");
    let events = pair.exchange();
    let [ClientEvent::Attached { link: attached, attach }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!((*attached, attach.role), (link, Role::Sender));
    assert_eq!(attach.max_message_size, Some(1 << 20));
    assert_eq!(attach.offered_capabilities[0].as_str(), "shared");
    assert_eq!(
        attach.properties,
        Some(Map::new().with("com.microsoft:max-message-batch-size", 1_024_u32))
    );
    assert_eq!(attach.source.as_ref().expect("a source").filter, Some(filter.clone()));
    let Some(EngineEvent::Attach(seen)) = pair.server_events.first() else {
        panic!("{:?}", pair.server_events);
    };
    let seen = &seen.attach;
    assert_eq!(seen.source.as_ref().expect("a source").filter, Some(filter));
    assert_eq!(seen.rcv_settle_mode, ReceiverSettleMode::Second);
    assert_eq!(seen.max_message_size, Some(5_000));
    assert_eq!(seen.desired_capabilities[0].as_str(), "amqp:local-transactions");
    assert_eq!(seen.offered_capabilities[0].as_str(), "queue");
    assert_eq!(seen.initial_delivery_count, None, "a receiver has none");
}

#[test]
fn a_coordinator_may_be_the_target() {
    let (mut pair, session) = Pair::open();
    let request = LinkRequest {
        target: Target::Coordinator(Coordinator {
            capabilities: vec![Symbol::from_static("amqp:local-transactions")],
        }),
        ..sender("coordinator")
    };
    let (link, _) = pair.attach(session, request);
    assert_eq!(pair.client.sendable(link), super::pair::CREDIT);
}

/// The first answer has no source or target; the reason follows.
#[test]
fn a_refused_link_is_detached_with_the_reason() {
    for request in [sender("refused"), receiver("refused")] {
        let (mut pair, session) = Pair::open();
        pair.terms = |_, _| None;
        let link = pair.client.attach(session, request).expect("an open session");
        let error = Some(refusal());
        let detached = ClientEvent::Detached {
            link,
            closed: true,
            error,
        };
        assert_eq!(pair.exchange(), [detached]);
        assert_eq!(pair.send(link, b"late"), Err(SendError::LinkNotFound));
        assert!(
            pair.server_events
                .iter()
                .all(|event| !matches!(event, EngineEvent::LinkFailed { .. }))
        );
    }
}

#[test]
fn a_detach_is_answered_and_its_handle_used_again() {
    let (mut pair, session) = Pair::open();
    let (first, _) = pair.sender(session);
    pair.client.detach(first, true, None);
    assert_eq!(pair.send(first, b"late"), Err(SendError::LinkNotFound));
    pair.client.detach(first, true, None);
    let detached = ClientEvent::Detached {
        link: first,
        closed: true,
        error: None,
    };
    assert_eq!(pair.exchange(), [detached], "once");
    let (second, _) = pair.sender(session);
    assert_ne!(first, second, "an id is never used again");
    pair.send(second, b"new").expect("credit");
    assert_eq!(pair.send(first, b"late"), Err(SendError::LinkNotFound));
}

#[test]
fn a_link_may_be_detached_without_being_closed() {
    let (mut pair, session) = Pair::open();
    let (link, _) = pair.receiver(session, 0);
    pair.client.detach(link, false, None);
    pair.exchange();
    let seen = pair
        .server_events
        .iter()
        .any(|event| matches!(event, EngineEvent::Detach { closed: false, .. }));
    assert!(seen, "{:?}", pair.server_events);
}

#[test]
fn a_detach_before_the_answer_ends_the_link() {
    let (mut pair, session) = Pair::open();
    let link = pair.client.attach(session, sender("brief")).expect("an open session");
    pair.client.detach(link, true, None);
    let detached = ClientEvent::Detached {
        link,
        closed: true,
        error: None,
    };
    assert_eq!(pair.exchange(), [detached]);
}

#[test]
fn a_detach_by_the_server_is_answered_and_passed_on() {
    let (mut pair, session) = Pair::open();
    let (link, at_server) = pair.receiver(session, 0);
    let error = AmqpError::new(condition::DETACH_FORCED, "the link was idle");
    pair.server.detach(at_server, Some(error.clone()));
    let detached = ClientEvent::Detached {
        link,
        closed: true,
        error: Some(error),
    };
    assert_eq!(pair.exchange(), [detached]);
    pair.receiver(session, 0);
}

/// Two links with one name: the first is detached before its answer arrives.
#[test]
fn answers_to_links_of_one_name_come_in_order() {
    let (mut script, session) = Script::open();
    let first = script.client.attach(session, sender("one")).expect("an open session");
    script.client.detach(first, true, None);
    let second = script.client.attach(session, sender("one")).expect("an open session");
    script.say(SERVER_CHANNEL, &accept(&sender("one"), 0));
    script.say(SERVER_CHANNEL, &detach(0));
    script.say(SERVER_CHANNEL, &accept(&sender("one"), 0));
    let events = script.events();
    assert!(
        matches!(events[..], [
            ClientEvent::Detached { link: gone, .. },
            ClientEvent::Attached { link: attached, .. }
        ] if gone == first && attached == second),
        "{events:?}"
    );
}

#[test]
fn the_numbers_of_the_server_may_differ_from_the_clients() {
    let (mut script, session) = Script::open();
    let first = script.attached(session, sender("first"), 30);
    let second = script.attached(session, receiver("second"), 0);
    assert_ne!(first, second);
    script.say(SERVER_CHANNEL, &link_flow(30, 0, 4));
    assert_eq!(
        script.event(),
        ClientEvent::Credit {
            link: first,
            credit: 4,
            drain: false,
        }
    );
    script.client.set_credit(second, 3);
    let Performative::Flow(flow) = script.frame() else {
        panic!("a flow");
    };
    assert_eq!(
        (flow.handle, flow.link_credit),
        (Some(1), Some(3)),
        "the client's own handle"
    );
    script.say(SERVER_CHANNEL, &detach(0));
    assert!(matches!(script.event(), ClientEvent::Detached { link, .. } if link == second));
    let Performative::Detach(answer) = script.frame() else {
        panic!("a detach");
    };
    assert_eq!(answer.handle, 1);
}

#[test]
fn sessions_are_separate() {
    let (mut pair, one) = Pair::open();
    let two = pair.client.begin().expect("an open connection");
    assert_eq!(pair.exchange(), [ClientEvent::Begun { session: two }]);
    let (of_one, _) = pair.sender(one);
    let (of_two, _) = pair.sender(two);
    pair.client.end(one, None);
    assert_eq!(
        pair.client.attach(one, sender("late")),
        Err(CommandError::SessionNotFound)
    );
    assert_eq!(
        pair.exchange(),
        [ClientEvent::Ended {
            session: one,
            error: None
        }]
    );
    assert_eq!(pair.send(of_one, b"late"), Err(SendError::LinkNotFound));
    pair.send(of_two, b"still open").expect("credit");
    let three = pair.client.begin().expect("an open connection");
    assert_ne!(one, three, "the channel is used again, the id is not");
    assert_eq!(
        pair.client.attach(one, sender("late")),
        Err(CommandError::SessionNotFound)
    );
    let events = pair.exchange();
    assert!(
        matches!(events[..], [ClientEvent::Begun { session }, ClientEvent::Outcome(_)] | [ClientEvent::Outcome(_), ClientEvent::Begun { session }] if session == three),
        "{events:?}"
    );
}

#[test]
fn an_end_by_the_server_is_answered_and_passed_on() {
    let (mut script, session) = Script::open();
    script.attached(session, sender("one"), 0);
    let error = AmqpError::new(condition::INTERNAL_ERROR, "try again");
    script.say(
        SERVER_CHANNEL,
        &End {
            error: Some(error.clone()),
        },
    );
    assert_eq!(
        script.event(),
        ClientEvent::Ended {
            session,
            error: Some(error)
        }
    );
    assert!(matches!(script.frame(), Performative::End(end) if end.error.is_none()));
    assert_eq!(
        script.client.attach(session, sender("late")),
        Err(CommandError::SessionNotFound)
    );
}

#[test]
fn an_end_before_the_begin_is_answered() {
    let (mut script, _) = Script::open();
    let brief = script.client.begin().expect("an open connection");
    script.client.end(brief, None);
    let answer = Begin {
        remote_channel: Some(1),
        ..begin()
    };
    script.say(3, &answer);
    script.say(3, &End { error: None });
    assert_eq!(
        script.events(),
        [ClientEvent::Ended {
            session: brief,
            error: None
        }]
    );
}

#[test]
fn the_servers_limit_of_handles_holds() {
    let narrow = Begin {
        handle_max: Some(1),
        ..begin()
    };
    let (mut script, session) = Script::open_with(&open(), narrow);
    script.client.attach(session, sender("one")).expect("handle 0");
    script.client.attach(session, sender("two")).expect("handle 1");
    assert_eq!(
        script.client.attach(session, sender("three")),
        Err(CommandError::TooManyLinks)
    );
}

/// What a server does, given a link of its own.
type Act = fn(&mut Script, &Attach);

/// What a server may not do in a session ends the session, and no other.
#[test]
fn errors_of_the_server_end_the_session() {
    let own = Attach {
        name: "of the server".into(),
        ..attach(5, Role::Sender)
    };
    let cases: [(&str, Act); 4] = [
        (condition::NOT_ALLOWED, |script, own| script.say(SERVER_CHANNEL, own)),
        (condition::UNATTACHED_HANDLE, |script, _| {
            script.say(SERVER_CHANNEL, &link_flow(9, 0, 1));
        }),
        (condition::UNATTACHED_HANDLE, |script, _| {
            script.say(SERVER_CHANNEL, &detach(9));
        }),
        (condition::HANDLE_IN_USE, |script, _| {
            script.say(SERVER_CHANNEL, &accept(&sender("two"), 0));
        }),
    ];
    for (condition, act) in cases {
        let (mut script, session) = Script::open();
        script.attached(session, sender("one"), 0);
        script.client.attach(session, sender("two")).expect("an open session");
        script.take_output();
        act(&mut script, &own);
        let event = script.event();
        let ClientEvent::SessionFailed { session: failed, error } = &event else {
            panic!("{event:?}");
        };
        assert_eq!((*failed, error.condition.as_str()), (session, condition));
        assert!(matches!(script.frame(), Performative::End(end) if end.error.as_ref() == Some(error)));
        script.say(SERVER_CHANNEL, &session_flow(1, 10));
        assert_eq!(script.events(), [], "frames before the answer are dropped");
        script.say(SERVER_CHANNEL, &End { error: None });
        assert_eq!(script.event(), ClientEvent::Ended { session, error: None });
        assert!(script.client.is_open());
    }
}

/// What a server may not do outside of a session ends the connection.
#[test]
fn errors_outside_of_a_session_end_the_connection() {
    let cases: [fn(&mut Script); 6] = [
        |script| script.say(9, &session_flow(1, 10)),
        |script| script.say(9, &begin()),
        |script| {
            let unknown = Begin {
                remote_channel: Some(40),
                ..begin()
            };
            script.say(9, &unknown);
        },
        |script| {
            let again = Begin {
                remote_channel: Some(0),
                ..begin()
            };
            script.say(9, &again);
        },
        |script| {
            script.client.begin().expect("an open connection");
            let busy = Begin {
                remote_channel: Some(1),
                ..begin()
            };
            script.say(SERVER_CHANNEL, &busy);
        },
        |script| script.say(SERVER_CHANNEL, &attach(5_000, Role::Sender)),
    ];
    for act in cases {
        let (mut script, _) = Script::open();
        act(&mut script);
        let event = script.event();
        assert!(matches!(event, ClientEvent::Failed(_)), "{event:?}");
        let frames = script.frames();
        assert!(
            matches!(frames.last(), Some((0, Performative::Close(close), _)) if close.error.is_some()),
            "{frames:?}"
        );
        assert!(script.client.is_finished());
    }
}

#[test]
fn commands_with_old_ids_do_nothing() {
    let (mut script, session) = Script::open();
    let link = script.attached(session, receiver("one"), 0);
    script.client.detach(link, true, None);
    script.say(SERVER_CHANNEL, &detach(0));
    script.events();
    script.take_output();
    script.client.set_credit(link, 5);
    script.client.drain(link);
    script.client.drained(link);
    script.client.detach(link, true, None);
    assert_eq!(script.client.credit(link), 0);
    assert!(script.take_output().is_empty());
    assert_eq!(script.events(), []);
}

/// A server that takes its time: everything is commanded before it says a word.
#[test]
fn commands_may_precede_all_answers() {
    let mut script = Script::new(ClientSettings::default());
    let session = script.client.begin().expect("a new connection");
    let request = LinkRequest {
        credit: 7,
        ..receiver("early")
    };
    let link = script.client.attach(session, request.clone()).expect("a new session");
    let gone = script.client.attach(session, sender("gone")).expect("a new session");
    script.client.detach(gone, true, None);
    script.write(&handshake());
    script.say(0, &open());
    script.say(
        SERVER_CHANNEL,
        &Begin {
            remote_channel: Some(0),
            ..begin()
        },
    );
    script.say(SERVER_CHANNEL, &accept(&request, 4));
    let events = script.events();
    assert!(
        matches!(&events[..], [
            ClientEvent::Open(_), ClientEvent::Begun { .. }, ClientEvent::Attached { link: attached, .. }
        ] if *attached == link),
        "{events:?}"
    );
    assert_eq!(script.client.credit(link), 7);
}

#[test]
fn the_modes_of_a_link_are_those_that_the_server_grants() {
    let (mut script, session) = Script::open();
    let request = sender("settled");
    let granted = Attach {
        snd_settle_mode: SenderSettleMode::Settled,
        ..accept(&request, 0)
    };
    let link = script.client.attach(session, request).expect("an open session");
    script.say(SERVER_CHANNEL, &granted);
    script.say(SERVER_CHANNEL, &link_flow(0, 0, 1));
    assert_eq!(script.events().len(), 2);
    script
        .client
        .send(link, &super::pair::outgoing(&[b"one"]))
        .expect("credit");
    assert_eq!(script.client.unsettled(session), 0, "it needs no outcome");
}

#[test]
fn a_null_address_and_a_closed_detach_are_data() {
    let (mut script, session) = Script::open();
    let link = script.client.attach(session, receiver("one")).expect("an open session");
    let mut answer = accept(&receiver("one"), 0);
    answer.source = Some(Box::new(Source::of(AmqpValue::Null)));
    script.say(SERVER_CHANNEL, &answer);
    assert!(matches!(script.event(), ClientEvent::Attached { .. }));
    let open_end = Detach {
        closed: false,
        ..detach(0)
    };
    script.say(SERVER_CHANNEL, &open_end);
    assert_eq!(
        script.event(),
        ClientEvent::Detached {
            link,
            closed: false,
            error: None
        }
    );
}
