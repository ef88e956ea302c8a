// SPDX-License-Identifier: Apache-2.0
//! Headers, SASL, open, begin, end, close.

use oxbus_amqp::EngineEvent;
use oxbus_amqp::engine::EngineSettings;
use oxbus_amqp::performative::{
    AmqpError, Begin, Close, End, Performative, PlainCredentials, SaslCode, SaslFrame, condition,
};

use super::client::{
    AMQP_HEADER, CHANNEL, Client, SASL_HEADER, attach, begin, frame, frames, open, sasl_frame, sasl_init,
};

/// Clients send everything up to their links without waiting for answers.
#[test]
fn a_pipelined_start_is_answered_in_order() {
    let mut client = Client::new(EngineSettings::default());
    client.write(SASL_HEADER);
    client.write_sasl(&sasl_init("ANONYMOUS", None));
    client.write(AMQP_HEADER);
    client.say(0, &open());
    client.say(CHANNEL, &begin());
    client.say(CHANNEL, &attach(0, oxbus_amqp::performative::Role::Sender));

    assert!(matches!(client.event(), EngineEvent::SaslInit(_)));
    assert!(!client.engine.wants_input(), "nothing is read before the decision");
    let output = client.take_output();
    assert_eq!(&output[..8], SASL_HEADER);
    let (SaslFrame::Mechanisms(mechanisms), rest) = sasl_frame(&output.slice(8..)) else {
        panic!("mechanisms");
    };
    let names: Vec<_> = mechanisms
        .mechanisms
        .iter()
        .map(|name| name.as_str().to_owned())
        .collect();
    assert_eq!(names, ["MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"]);
    assert!(rest.is_empty());

    client.engine.sasl_outcome(SaslCode::Ok);
    let events = client.events();
    assert!(
        matches!(
            events[..],
            [EngineEvent::Open(_), EngineEvent::Begin { .. }, EngineEvent::Attach(_)]
        ),
        "{events:?}"
    );
    let (SaslFrame::Outcome(outcome), rest) = sasl_frame(&client.take_output()) else {
        panic!("an outcome");
    };
    assert_eq!(outcome.code, SaslCode::Ok);
    assert_eq!(&rest[..8], AMQP_HEADER);
    let frames = frames(rest.slice(8..));
    let [
        (0, Performative::Open(open), _),
        (CHANNEL, Performative::Begin(begin), _),
    ] = &frames[..]
    else {
        panic!("open and begin: {frames:?}");
    };
    assert!(open.max_frame_size >= Some(512) && open.channel_max >= Some(1_000) && open.properties.is_some());
    assert_eq!(open.idle_time_out_ms, Some(240_000));
    assert_eq!(begin.remote_channel, Some(CHANNEL));
    assert!(begin.handle_max >= Some(255));
}

/// Compares bytes, because common clients read fields at fixed positions.
#[test]
fn performatives_are_written_in_full_with_short_descriptors() {
    let (mut client, session) = Client::open();
    client
        .engine
        .end(session, Some(AmqpError::new(condition::INTERNAL_ERROR, "why")));
    let output = client.take_output();
    let mut expected = vec![0, 0, 0, 61, 2, 0, 0, 1];
    expected.extend(b"\x00\x53\x17\xd0\x00\x00\x00\x2d\x00\x00\x00\x01");
    expected.extend(b"\x00\x53\x1d\xd0\x00\x00\x00\x21\x00\x00\x00\x03");
    expected.extend(b"\xa3\x13amqp:internal-error");
    expected.extend(b"\xa1\x03why\x40");
    expected[3] = expected.len() as u8;
    let length = expected.len() as u8;
    expected[15] = length - 8 - 8;
    expected[27] = length - 8 - 20;
    assert_eq!(&output[..], &expected[..]);

    for (performative, fields) in [(frame(0, &open(), b""), 10), (frame(0, &begin(), b""), 8)] {
        assert_eq!(&performative[8..10], b"\x00\x53");
        assert_eq!(performative[11], 0xd0);
        assert_eq!(performative[16..20], [0, 0, 0, fields]);
    }
}

#[test]
fn plain_credentials_reach_the_application_and_a_rejection_ends_the_connection() {
    let mut client = Client::new(EngineSettings::default());
    client.write(SASL_HEADER);
    client.write_sasl(&sasl_init("PLAIN", Some(b"\0key\0secret")));
    let EngineEvent::SaslInit(init) = client.event() else {
        panic!("an init");
    };
    let credentials = PlainCredentials::read(&init.initial_response.expect("a response")).expect("well formed");
    assert_eq!((&*credentials.user, &*credentials.password), ("key", "secret"));
    assert!(!format!("{credentials:?}").contains("secret"));
    client.engine.sasl_outcome(SaslCode::Auth);
    assert!(client.engine.is_finished());
    client.write(AMQP_HEADER);
    assert_eq!(client.events(), []);
}

#[test]
fn incomplete_plain_credentials_are_invalid() {
    for response in [
        &b""[..],
        b"key",
        b"\0key",
        b"\0\0secret",
        b"\0key\0secret\0more",
        b"\0\xff\0secret",
    ] {
        assert_eq!(
            PlainCredentials::read(&bytes::Bytes::from_static(response)),
            None,
            "{response:?}"
        );
    }
}

#[test]
fn a_mechanism_that_was_not_offered_is_rejected() {
    let mut client = Client::new(EngineSettings::default());
    client.write(SASL_HEADER);
    client.write_sasl(&sasl_init("GSSAPI", None));
    assert!(matches!(client.event(), EngineEvent::Failed(_)));
    let output = client.take_output();
    let (_, rest) = sasl_frame(&output.slice(8..));
    let (SaslFrame::Outcome(outcome), _) = sasl_frame(&rest) else {
        panic!("an outcome");
    };
    assert_eq!(outcome.code, SaslCode::Auth);
    assert!(client.engine.is_finished());
}

#[test]
fn other_protocols_are_answered_with_a_supported_header() {
    for header in [
        &b"AMQP\x00\x01\x00\x00"[..],
        b"AMQP\x02\x01\x00\x00",
        b"AMQP\x00\x00\x09\x01",
        b"GET / HTTP/1.1",
        b"\x16",
    ] {
        let mut client = Client::new(EngineSettings::default());
        client.write(header);
        assert!(matches!(client.event(), EngineEvent::Failed(_)), "{header:?}");
        assert_eq!(&client.take_output()[..], SASL_HEADER);
        assert!(client.engine.is_finished());
    }
    let mut client = Client::new(EngineSettings {
        is_sasl_required: false,
        ..EngineSettings::default()
    });
    client.write(b"AMQP\x00\x01\x00\x01");
    assert!(matches!(client.event(), EngineEvent::Failed(_)));
    assert_eq!(&client.take_output()[..], AMQP_HEADER);
}

#[test]
fn a_connection_without_sasl_is_accepted_if_allowed() {
    let mut client = Client::new(EngineSettings {
        is_sasl_required: false,
        ..EngineSettings::default()
    });
    client.write(AMQP_HEADER);
    client.say(0, &open());
    assert!(matches!(client.event(), EngineEvent::Open(_)));
    assert_eq!(&client.take_output()[..8], AMQP_HEADER);
}

#[test]
fn the_application_answers_a_close() {
    let (mut client, _) = Client::open();
    client.say(0, &Close { error: None });
    assert_eq!(client.event(), EngineEvent::Close { error: None });
    assert!(client.take_output().is_empty() && !client.engine.is_finished());
    client.engine.close(None, 0);
    assert_eq!(client.frame(), Performative::Close(Close { error: None }.into()));
    assert!(client.engine.is_finished());
}

#[test]
fn a_close_by_the_server_waits_for_its_answer_and_ignores_other_frames() {
    let (mut client, _) = Client::open();
    let error = AmqpError::new(condition::CONNECTION_FORCED, "shutting down");
    client.engine.close(Some(error.clone()), 0);
    let close = Close { error: Some(error) };
    assert_eq!(client.frame(), Performative::Close(close.into()));
    client.say(7, &begin());
    client.say(9, &End { error: None });
    assert_eq!(client.events(), []);
    assert!(!client.engine.is_finished());
    client.say(0, &Close { error: None });
    assert_eq!(client.events(), []);
    assert!(client.engine.is_finished());
    assert!(client.take_output().is_empty());
}

#[test]
fn end_in_both_directions() {
    let (mut client, session) = Client::open();
    client.say(CHANNEL, &End { error: None });
    assert_eq!(client.event(), EngineEvent::End { session, error: None });
    client.say(CHANNEL, &begin());
    assert_eq!(client.events(), [], "its number is taken until the end is answered");
    assert!(!client.engine.wants_input());
    client.engine.end(session, None);
    let EngineEvent::Begin { session: second } = client.event() else {
        panic!("a session");
    };
    assert_ne!(session, second);
    let frames = client.frames();
    assert!(
        matches!(
            frames[..],
            [(_, Performative::End(_), _), (_, Performative::Begin(_), _)]
        ),
        "{frames:?}"
    );

    client
        .engine
        .end(second, Some(AmqpError::new(condition::RESOURCE_DELETED, "gone")));
    assert!(matches!(client.frame(), Performative::End(_)));
    client.say(CHANNEL, &attach(0, oxbus_amqp::performative::Role::Sender));
    assert_eq!(client.events(), [], "what was under way is ignored");
    client.say(CHANNEL, &End { error: None });
    assert_eq!(client.events(), []);
    client.say(CHANNEL, &begin());
    assert!(matches!(client.event(), EngineEvent::Begin { .. }));
}

#[test]
fn sessions_are_independent() {
    let (mut client, first) = Client::open();
    for channel in [0, 2, 900] {
        client.say(channel, &begin());
        let EngineEvent::Begin { session } = client.event() else {
            panic!("a session");
        };
        assert_ne!(session, first);
        assert!(
            matches!(&client.frames()[..], [(answered, Performative::Begin(begin), _)]
            if *answered == channel && begin.remote_channel == Some(channel))
        );
    }
}

/// A protocol error of the client and the condition of the answer.
type Scene = (fn(&mut Client), &'static str);

#[test]
fn a_frame_in_the_wrong_state_closes_the_connection() {
    let scenes: [Scene; 5] = [
        (|client| client.say(CHANNEL, &begin()), condition::NOT_ALLOWED),
        (|client| client.say(0, &open()), condition::NOT_ALLOWED),
        (|client| client.say(77, &End { error: None }), condition::NOT_ALLOWED),
        (
            |client| {
                let answer = Begin {
                    remote_channel: Some(3),
                    ..begin()
                };
                client.say(3, &answer);
            },
            condition::NOT_ALLOWED,
        ),
        (|client| client.say(2_000, &begin()), condition::FRAMING_ERROR),
    ];
    for (number, (scene, expected)) in scenes.iter().enumerate() {
        let (mut client, _) = Client::open();
        scene(&mut client);
        let EngineEvent::Failed(error) = client.event() else {
            panic!("scene {number}");
        };
        assert_eq!(error.condition.as_str(), *expected, "scene {number}");
        let close = Close { error: Some(error) };
        assert_eq!(client.frame(), Performative::Close(close.into()), "scene {number}");
    }
}

/// A close must follow an open.
#[test]
fn an_error_before_open_is_sent_after_an_open() {
    let mut client = Client::new(EngineSettings::default());
    client.write(SASL_HEADER);
    client.write_sasl(&sasl_init("ANONYMOUS", None));
    client.events();
    client.engine.sasl_outcome(SaslCode::Ok);
    client.write(AMQP_HEADER);
    client.say(CHANNEL, &begin());
    client.take_output();
    assert!(matches!(client.event(), EngineEvent::Failed(_)));
    let output = client.take_output();
    let frames = frames(output.slice(8..));
    assert!(
        matches!(
            frames[..],
            [(_, Performative::Open(_), _), (_, Performative::Close(_), _)]
        ),
        "{frames:?}"
    );
}
