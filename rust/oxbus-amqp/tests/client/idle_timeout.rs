// SPDX-License-Identifier: Apache-2.0
//! Idle timeouts of both sides.

use oxbus_amqp::client::ClientSettings;
use oxbus_amqp::performative::{Open, condition};
use oxbus_amqp::{ClientEngine, ClientEvent};
use oxbus_model::caps::AMQP_CLIENT_IDLE_MS;

use super::frames::{begin, open};
use super::script::{Script, handshake};

const EMPTY_FRAME: &[u8] = b"\0\0\0\x08\x02\0\0\0";

#[test]
fn an_empty_frame_follows_half_of_the_servers_timeout() {
    let demanding = Open {
        idle_time_out_ms: Some(1_000),
        ..open()
    };
    let (mut script, _) = Script::open_with(&demanding, begin());
    assert_eq!(script.client.deadline(), Some(500));
    script.client.tick(499);
    assert!(script.take_output().is_empty());
    script.client.tick(500);
    assert_eq!(&script.client.output().split()[..], EMPTY_FRAME);
    assert_eq!(script.client.deadline(), Some(1_000));
}

#[test]
fn output_counts_as_sign_of_life() {
    let demanding = Open {
        idle_time_out_ms: Some(1_000),
        ..open()
    };
    let (mut script, _) = Script::open_with(&demanding, begin());
    script.client.begin().expect("an open connection");
    script.client.flush(300);
    script.client.output().clear();
    assert_eq!(script.client.deadline(), Some(800));
}

#[test]
fn a_silent_server_counts_as_lost() {
    let (mut script, _) = Script::open();
    assert_eq!(
        script.client.deadline(),
        Some(2 * u64::from(AMQP_CLIENT_IDLE_MS)),
        "twice the announced timeout"
    );
    script.now = 70_000;
    script.write(EMPTY_FRAME);
    assert_eq!(script.events(), []);
    assert_eq!(
        script.client.deadline(),
        Some(70_000 + 2 * u64::from(AMQP_CLIENT_IDLE_MS))
    );
    script.client.tick(190_000);
    let event = script.event();
    let ClientEvent::Failed(error) = &event else {
        panic!("{event:?}");
    };
    assert_eq!(error.condition.as_str(), condition::RESOURCE_LIMIT_EXCEEDED);
    assert!(script.client.is_finished());
}

#[test]
fn without_timeouts_there_is_no_deadline() {
    let mut script = Script::new(ClientSettings {
        idle_ms: 0,
        ..ClientSettings::default()
    });
    script.write(&handshake());
    script.say(0, &open());
    assert!(matches!(script.event(), ClientEvent::Open(_)));
    assert_eq!(script.client.deadline(), None);
    script.client.tick(u64::MAX);
    assert!(script.client.is_open());
}

#[test]
fn a_tick_too_early_does_nothing() {
    let mut client = ClientEngine::new(ClientSettings::default(), 1_000);
    client.tick(20_999);
    assert_eq!(client.next_event(20_999), None);
}
