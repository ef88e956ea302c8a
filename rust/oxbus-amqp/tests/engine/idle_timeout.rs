// SPDX-License-Identifier: Apache-2.0
//! Idle timeouts and deadlines, in simulated time.

use oxbus_amqp::EngineEvent;
use oxbus_amqp::engine::EngineSettings;
use oxbus_amqp::performative::{AmqpError, Open, Performative, condition};
use oxbus_model::caps::{AMQP_CLOSE_MS_MAX, AMQP_HANDSHAKE_MS_MAX, AMQP_IDLE_MS, AMQP_IDLE_MS_MIN};

use super::client::{CHANNEL, Client, SASL_HEADER, begin, open, session_flow};

/// The attack: a connection that sends nothing, or too little.
#[test]
fn a_half_open_connection_is_aborted() {
    for start in [&b""[..], &SASL_HEADER[..3], SASL_HEADER] {
        let mut client = Client::new(EngineSettings::default());
        client.write(start);
        client.events();
        assert_eq!(client.engine.deadline(), Some(AMQP_HANDSHAKE_MS_MAX));
        client.engine.tick(AMQP_HANDSHAKE_MS_MAX - 1);
        assert!(!client.engine.is_finished());
        client.engine.tick(AMQP_HANDSHAKE_MS_MAX);
        assert!(matches!(client.event(), EngineEvent::Failed(_)));
        assert!(client.engine.is_finished());
        assert_eq!(client.engine.deadline(), None);
    }
}

#[test]
fn the_connection_of_a_silent_client_is_closed_after_twice_the_idle_timeout() {
    let (mut client, _) = Client::open();
    let end = 2 * u64::from(AMQP_IDLE_MS);
    assert_eq!(client.engine.deadline(), Some(end));
    client.engine.tick(end - 1);
    assert_eq!(client.events(), []);
    client.now = 1_000;
    client.write(b"\0\0\0\x08\x02\0\0\0");
    client.events();
    assert_eq!(
        client.engine.deadline(),
        Some(end + 1_000),
        "an empty frame is a sign of life"
    );
    client.engine.tick(end + 1_000);
    assert!(
        matches!(client.event(), EngineEvent::Failed(error) if error.condition.as_str() == condition::RESOURCE_LIMIT_EXCEEDED)
    );
    assert!(matches!(client.frame(), Performative::Close(_)));
}

/// The attack: a frame sent byte by byte.
#[test]
fn a_partial_frame_does_not_reset_the_idle_timeout() {
    let (mut client, _) = Client::open();
    client.now = 1_000;
    client.write(b"\0\0\0");
    client.events();
    assert_eq!(client.engine.deadline(), Some(2 * u64::from(AMQP_IDLE_MS)));
}

#[test]
fn heartbeats_are_sent_at_half_the_idle_timeout_of_the_client() {
    let asking = Open {
        idle_time_out_ms: Some(10_000),
        ..open()
    };
    let (mut client, _) = Client::open_with(&asking, &begin());
    assert_eq!(client.engine.deadline(), Some(5_000));
    client.engine.tick(5_000);
    assert_eq!(&client.take_output()[..], b"\0\0\0\x08\x02\0\0\0");
    client.now = 6_000;
    let echo = oxbus_amqp::performative::Flow {
        echo: true,
        ..session_flow(1, 100)
    };
    client.say(CHANNEL, &echo);
    client.events();
    assert_eq!(client.frames().len(), 1);
    assert_eq!(client.engine.deadline(), Some(11_000), "any frame will do");
}

/// The attack: an idle timeout that would force a flood of empty frames.
#[test]
fn a_too_short_idle_timeout_is_rejected() {
    let mut client = Client::new(EngineSettings {
        is_sasl_required: false,
        ..EngineSettings::default()
    });
    client.write(b"AMQP\x00\x01\x00\x00");
    let hasty = Open {
        idle_time_out_ms: Some(AMQP_IDLE_MS_MIN - 1),
        ..open()
    };
    client.say(0, &hasty);
    assert!(matches!(client.event(), EngineEvent::Failed(_)));
}

#[test]
fn the_wait_for_the_answer_to_a_close_is_limited() {
    let (mut client, _) = Client::open();
    client
        .engine
        .close(Some(AmqpError::new(condition::CONNECTION_FORCED, "shutting down")), 500);
    assert_eq!(client.engine.deadline(), Some(500 + AMQP_CLOSE_MS_MAX));
    client.engine.tick(500 + AMQP_CLOSE_MS_MAX);
    assert!(client.engine.is_finished());
}
