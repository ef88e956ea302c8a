// SPDX-License-Identifier: Apache-2.0
//! Protocol headers, SASL, open and close.

use bytes::BytesMut;
use oxbus_amqp::client::{ClientSettings, CommandError, SaslChoice};
use oxbus_amqp::codec::{Map, Symbol};
use oxbus_amqp::engine::EngineSettings;
use oxbus_amqp::performative::{
    AmqpError, Close, Open, Performative, PlainCredentials, SaslCode, SaslFrame, SaslMechanisms, SaslOutcome,
    condition, put_sasl_frame,
};
use oxbus_amqp::{ClientEvent, EngineEvent};

use super::frames::{AMQP_HEADER, SASL_HEADER, begin, frames, open, sasl_frame};
use super::pair::{Pair, sender};
use super::script::{Script, handshake};

fn with_sasl(sasl: SaslChoice) -> ClientSettings {
    ClientSettings {
        sasl,
        ..ClientSettings::default()
    }
}

fn plain() -> SaslChoice {
    SaslChoice::Plain(PlainCredentials {
        user: "policy".into(),
        password: "key".into(),
    })
}

/// The reason of a failed connection.
fn failure(script: &mut Script) -> AmqpError {
    let event = script.event();
    let ClientEvent::Failed(error) = event else {
        panic!("{event:?}");
    };
    assert!(script.client.is_finished());
    error
}

fn failure_of(sasl: SaslChoice, input: &[u8]) -> String {
    let mut script = Script::new(with_sasl(sasl));
    script.write(input);
    let error = failure(&mut script);
    assert_eq!(error.condition.as_str(), condition::NOT_IMPLEMENTED);
    error.description.expect("a text").to_string()
}

#[test]
fn the_client_speaks_first_and_sends_its_commands_in_one_burst() {
    let mut script = Script::new(ClientSettings {
        hostname: Some("bus.example".into()),
        ..ClientSettings::default()
    });
    assert_eq!(&script.take_output()[..], SASL_HEADER);
    let session = script.client.begin().expect("a new connection");
    script.client.attach(session, sender("one")).expect("a new session");
    assert!(script.take_output().is_empty(), "the frames wait for SASL");

    let all = handshake();
    let outcome_at = all.len() - AMQP_HEADER.len();
    script.write(&all[..outcome_at]);
    assert_eq!(script.events(), []);
    let written = script.take_output();
    let (SaslFrame::Init(init), rest) = sasl_frame(&written) else {
        panic!("a choice");
    };
    assert_eq!(init.mechanism.as_str(), "ANONYMOUS");
    assert_eq!(init.hostname.as_deref(), Some("bus.example"));
    assert!(rest.starts_with(AMQP_HEADER));
    let burst = frames(rest.slice(AMQP_HEADER.len()..));
    assert!(
        matches!(
            &burst[..],
            [
                (0, Performative::Open(_), _),
                (0, Performative::Begin(_), _),
                (0, Performative::Attach(_), _)
            ]
        ),
        "{burst:?}"
    );
    let (_, Performative::Open(opened), _) = &burst[0] else {
        panic!("an open");
    };
    assert_eq!(opened.hostname.as_deref(), Some("bus.example"));
    assert_eq!(opened.idle_time_out_ms, Some(60_000));
}

#[test]
fn each_mechanism_opens_the_connection() {
    for sasl in [
        SaslChoice::Anonymous,
        plain(),
        SaslChoice::External,
        SaslChoice::MssbCbs,
    ] {
        let name = sasl.mechanism().expect("a mechanism");
        let mut pair = Pair::new(with_sasl(sasl.clone()));
        let events = pair.exchange();
        assert!(matches!(events[..], [ClientEvent::Open(_)]), "{name}: {events:?}");
        let EngineEvent::SaslInit(init) = &pair.server_events[0] else {
            panic!("{name}");
        };
        assert_eq!(init.mechanism.as_str(), name);
        let credentials = init.initial_response.as_ref().and_then(PlainCredentials::read);
        let expected = if let SaslChoice::Plain(expected) = sasl {
            Some(expected)
        } else {
            None
        };
        assert_eq!(credentials, expected, "{name}");
        assert!(pair.client.is_open());
    }
}

#[test]
fn a_server_without_sasl_is_opened_without() {
    let server = EngineSettings {
        is_sasl_required: false,
        ..EngineSettings::default()
    };
    let mut pair = Pair::with_server(with_sasl(SaslChoice::Skip), server);
    let events = pair.exchange();
    assert!(matches!(events[..], [ClientEvent::Open(_)]), "{events:?}");
}

#[test]
fn the_servers_open_is_passed_on() {
    let server = EngineSettings {
        properties: Map::new().with("product", "oxbus"),
        offered_capabilities: vec![Symbol::from_static("sole-connection-for-container")],
        ..EngineSettings::default()
    };
    let mut pair = Pair::with_server(ClientSettings::default(), server);
    let events = pair.exchange();
    let [ClientEvent::Open(opened)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(opened.properties, Some(Map::new().with("product", "oxbus")));
    assert_eq!(opened.offered_capabilities[0].as_str(), "sole-connection-for-container");
}

#[test]
fn a_mechanism_that_is_not_offered_is_named_with_those_that_are() {
    let mut input = BytesMut::from(SASL_HEADER);
    let mechanisms = ["ANONYMOUS", "EXTERNAL"].map(Symbol::from_static).to_vec();
    put_sasl_frame(&mut input, &SaslMechanisms { mechanisms });
    assert_eq!(
        failure_of(plain(), &input),
        "the server does not offer the SASL mechanism PLAIN; it offers: ANONYMOUS, EXTERNAL"
    );
}

#[test]
fn refused_credentials_are_an_error_of_access() {
    let mut script = Script::new(with_sasl(plain()));
    let all = handshake();
    script.write(&all[..all.len() - AMQP_HEADER.len() - 1]);
    assert_eq!(script.events(), []);
    let mut refusal = BytesMut::new();
    put_sasl_frame(
        &mut refusal,
        &SaslOutcome {
            code: SaslCode::Auth,
            additional_data: None,
        },
    );
    let mut script = Script::new(with_sasl(plain()));
    let accepted = all.len() - AMQP_HEADER.len() - refusal.len();
    script.write(&all[..accepted]);
    script.write(&refusal);
    assert_eq!(failure(&mut script).condition.as_str(), condition::UNAUTHORIZED_ACCESS);
}

#[test]
fn a_peer_that_does_not_speak_the_protocol_is_named() {
    let cases: [(&[u8], &str); 6] = [
        (
            b"HTTP/1.1 400 Bad Request",
            "the server does not speak AMQP; check host and port",
        ),
        (b"\x15\x03\x01\x00\x02\x02", "the server requires TLS; connect with TLS"),
        (b"AMQP\x02\x01\x00\x00", "the server requires TLS; connect with TLS"),
        (
            b"AMQP\x00\x00\x09\x01",
            "the server speaks AMQP 0-9-1; AMQP 1.0 is needed",
        ),
        (AMQP_HEADER, "the server does not support AMQP 1.0 with this SASL layer"),
        (b"S", "the server does not speak AMQP; check host and port"),
    ];
    for (input, text) in cases {
        assert_eq!(failure_of(SaslChoice::Anonymous, input), text);
    }
    assert_eq!(failure_of(SaslChoice::Skip, SASL_HEADER), "the server requires SASL");
}

/// Found by fuzzing: the text depended on how much of the answer had arrived.
#[test]
fn a_peer_is_named_the_same_however_its_answer_is_split() {
    for input in [
        &b"AMQP\x00\x00\x09\x01"[..],
        b"AMQP\x02\x01\x00\x00",
        b"HTTP/1.1 400",
        b"AMQX",
    ] {
        let mut script = Script::new(ClientSettings::default());
        let mut events = Vec::new();
        for byte in input {
            script.write(&[*byte]);
            events.extend(script.events());
        }
        let whole = failure_of(SaslChoice::Anonymous, input);
        assert!(
            matches!(&events[..], [ClientEvent::Failed(error)] if error.description.as_deref() == Some(&*whole)),
            "{whole}: {events:?}"
        );
    }
}

#[test]
fn frames_at_the_wrong_time_end_the_connection() {
    for frames in [vec![0], vec![0, 0]] {
        let mut script = Script::new(ClientSettings::default());
        script.write(&handshake());
        if frames.len() == 1 {
            script.say(0, &begin());
        } else {
            script.say(0, &open());
            script.say(0, &open());
        }
        let events = script.events();
        assert!(matches!(events.last(), Some(ClientEvent::Failed(_))), "{events:?}");
        assert!(script.client.is_finished());
        let written = script.take_output();
        assert!(written.len() > AMQP_HEADER.len(), "with a close");
    }
}

#[test]
fn a_handshake_has_a_limit_of_time() {
    let mut script = Script::new(ClientSettings::default());
    let deadline = script.client.deadline().expect("a limit");
    script.client.tick(deadline - 1);
    assert_eq!(script.events(), []);
    script.client.tick(deadline);
    assert_eq!(failure(&mut script).condition.as_str(), condition::CONNECTION_FORCED);
    assert_eq!(script.client.deadline(), None);
}

#[test]
fn a_close_is_answered() {
    let (mut pair, _) = Pair::open();
    pair.client.close(None, 0);
    assert_eq!(pair.exchange(), [ClientEvent::Closed { error: None }]);
    assert!(pair.client.is_finished() && pair.server.is_finished());
    assert_eq!(pair.client.begin(), Err(CommandError::ConnectionClosed));
}

#[test]
fn a_close_before_sasl_needs_no_answer() {
    let mut script = Script::new(ClientSettings::default());
    script.client.close(None, 0);
    assert_eq!(script.events(), [ClientEvent::Closed { error: None }]);
    assert!(script.client.is_finished());
}

#[test]
fn a_close_without_an_answer_ends_after_some_seconds() {
    let (mut script, _) = Script::open();
    script.client.close(None, 10);
    script.client.tick(5_009);
    assert_eq!(script.events(), []);
    script.client.tick(5_010);
    assert_eq!(script.events(), [ClientEvent::Closed { error: None }]);
}

/// As a server closes that restarts, or that found the connection idle.
#[test]
fn the_reason_of_a_servers_close_is_passed_on() {
    let (mut pair, _) = Pair::open();
    let error = AmqpError {
        info: Some(Map::new().with("retry-after", 5_u32)),
        ..AmqpError::new(condition::CONNECTION_FORCED, "the server restarts")
    };
    pair.server.close(Some(error.clone()), 0);
    assert_eq!(pair.exchange(), [ClientEvent::Closed { error: Some(error) }]);
    assert!(
        pair.client.is_finished() && pair.server.is_finished(),
        "the client answered"
    );
}

#[test]
fn the_end_of_the_bytes_is_not_a_close() {
    let (mut script, _) = Script::open();
    script.client.disconnected();
    assert_eq!(script.events(), [ClientEvent::Disconnected]);
    script.client.disconnected();
    assert_eq!(script.events(), [], "once");

    let (mut script, _) = Script::open();
    script.client.close(None, 0);
    script.client.disconnected();
    assert_eq!(script.events(), [ClientEvent::Closed { error: None }]);
}

#[test]
fn frames_after_the_clients_close_are_dropped() {
    let (mut script, session) = Script::open();
    script.client.close(None, 0);
    script.client.end(session, None);
    script.say(0, &open());
    script.say(0, &Close { error: None });
    assert_eq!(script.events(), [ClientEvent::Closed { error: None }]);
}

#[test]
fn limits_of_the_servers_open_hold() {
    let narrow = Open {
        channel_max: Some(1),
        ..open()
    };
    let (mut script, _) = Script::open_with(&narrow, begin());
    script.client.begin().expect("the second session");
    assert_eq!(script.client.begin(), Err(CommandError::TooManySessions));

    let mut script = Script::new(ClientSettings::default());
    script.write(&handshake());
    script.say(
        0,
        &Open {
            idle_time_out_ms: Some(5),
            ..open()
        },
    );
    assert_eq!(failure(&mut script).condition.as_str(), condition::NOT_ALLOWED);
}
