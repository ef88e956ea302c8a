// SPDX-License-Identifier: Apache-2.0
//! The client behaves the same however its input is cut, and every early end of it is an error, never a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::{Bytes, BytesMut};
use oxbus_amqp::client::ClientSettings;
use oxbus_amqp::performative::{AmqpError, Close, Disposition, End, Flow, Role, Transfer, condition};
use proptest::prelude::*;

use super::frames::{begin, detach, disposition, frame, link_flow, open, transfer};
use super::script::{SERVER_CHANNEL, accept, handshake};
use crate::caller::{self, run};

/// What a server says to the calls of `caller`: every frame, in every form.
fn conversation() -> Bytes {
    let mut bytes = BytesMut::from(&handshake()[..]);
    let begun = oxbus_amqp::performative::Begin {
        remote_channel: Some(0),
        ..begin()
    };
    let part = |more, number| Transfer {
        more,
        ..transfer(1, number)
    };
    let settled = |role, first, last| Disposition {
        role,
        settled: true,
        ..disposition(first, last)
    };
    let echo = Flow {
        echo: true,
        ..link_flow(0, 0, 20)
    };
    let frames = [
        frame(0, &open(), b""),
        frame(SERVER_CHANNEL, &begun, b""),
        frame(SERVER_CHANNEL, &accept(&caller::sender(), 0), b""),
        frame(SERVER_CHANNEL, &echo, b""),
        frame(SERVER_CHANNEL, &accept(&caller::receiver(), 1), b""),
        frame(SERVER_CHANNEL, &transfer(1, 0), b"first"),
        Bytes::from_static(b"\0\0\0\x08\x02\0\0\0"),
        frame(SERVER_CHANNEL, &part(true, 1), &[7; 3_000]),
        frame(SERVER_CHANNEL, &part(false, 1), &[8; 500]),
        frame(SERVER_CHANNEL, &disposition(0, 1), b""),
        frame(SERVER_CHANNEL, &settled(Role::Receiver, 2, 3), b""),
        frame(SERVER_CHANNEL, &settled(Role::Sender, 0, 1), b""),
        frame(SERVER_CHANNEL, &detach(1), b""),
        frame(SERVER_CHANNEL, &End { error: None }, b""),
        frame(
            0,
            &Close {
                error: Some(AmqpError::new(condition::CONNECTION_FORCED, "restart")),
            },
            b"",
        ),
    ];
    for frame in frames {
        bytes.extend_from_slice(&frame);
    }
    bytes.freeze()
}

#[test]
fn a_conversation_ends_without_a_failure() {
    let (events, output, is_finished) = run([conversation()], ClientSettings::default());
    assert!(is_finished);
    let reported = events.join("\n");
    for expected in [
        "Open", "Begun", "Attached", "Credit", "Received", "Outcome", "Settled", "Detached", "Ended", "Closed",
    ] {
        assert!(reported.contains(expected), "{expected}: {reported}");
    }
    assert!(!reported.contains("Failed"), "{reported}");
    assert!(output.starts_with(super::frames::SASL_HEADER));
}

#[test]
fn every_early_end_is_reported() {
    let whole = conversation();
    for end in 0..whole.len() {
        let result = catch_unwind(AssertUnwindSafe(|| {
            run([whole.slice(..end)], ClientSettings::default())
        }));
        let (events, _, is_finished) = result.unwrap_or_else(|_| panic!("a panic at {end}"));
        assert!(is_finished, "{end}");
        assert_eq!(events.last().map(String::as_str), Some("Disconnected"), "{end}");
    }
}

fn pieces(bytes: &Bytes, cuts: &[usize]) -> Vec<Bytes> {
    let mut places: Vec<_> = cuts.iter().map(|cut| cut % bytes.len()).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| bytes.slice(pair[0]..pair[1])).collect()
}

proptest! {
    #[test]
    fn any_split_of_the_input_gives_the_same_events(cuts in prop::collection::vec(any::<usize>(), 0..40)) {
        let whole = conversation();
        prop_assert_eq!(run(pieces(&whole, &cuts), ClientSettings::default()), run([whole], ClientSettings::default()));
    }

    #[test]
    fn damaged_input_gives_the_same_events_however_it_is_split(
        damage in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6),
        cuts in prop::collection::vec(any::<usize>(), 0..20),
    ) {
        let whole = conversation();
        let mut damaged = BytesMut::from(&whole[..]);
        for (place, byte) in damage {
            let place = 8 + place % (whole.len() - 8);
            damaged[place] = byte;
        }
        let damaged = damaged.freeze();
        prop_assert_eq!(run(pieces(&damaged, &cuts), ClientSettings::default()), run([damaged], ClientSettings::default()));
    }
}
