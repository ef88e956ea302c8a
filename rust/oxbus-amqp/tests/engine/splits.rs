// SPDX-License-Identifier: Apache-2.0
//! The engine behaves the same however its input is split, and no input makes it panic.

use bytes::{Bytes, BytesMut};
use oxbus_amqp::engine::EngineSettings;
use oxbus_amqp::performative::{Close, Disposition, End, Flow, Role, Transfer, put_sasl_frame};
use proptest::prelude::*;

use super::client::{
    AMQP_HEADER, CHANNEL, SASL_HEADER, attach, begin, detach, disposition, frame, link_flow, open, sasl_init, transfer,
};
use crate::application::run;

/// A conversation that uses every frame.
fn conversation() -> Bytes {
    let mut bytes = BytesMut::from(SASL_HEADER);
    put_sasl_frame(&mut bytes, &sasl_init("ANONYMOUS", None));
    bytes.extend_from_slice(AMQP_HEADER);
    let part = |more, number| Transfer {
        more,
        ..transfer(0, number)
    };
    let drain = Flow {
        drain: true,
        ..link_flow(1, 0, 20)
    };
    let settled = Disposition {
        settled: true,
        ..disposition((1 << 20) + 1, (1 << 20) + 3)
    };
    let frames = [
        frame(0, &open(), b""),
        frame(CHANNEL, &begin(), b""),
        frame(CHANNEL, &attach(0, Role::Sender), b""),
        frame(CHANNEL, &transfer(0, 0), b"first"),
        frame(CHANNEL, &part(true, 1), &[7; 3_000]),
        frame(CHANNEL, &part(false, 1), &[8; 500]),
        frame(CHANNEL, &attach(1, Role::Receiver), b""),
        frame(CHANNEL, &link_flow(1, 0, 10), b""),
        Bytes::from_static(b"\0\0\0\x08\x02\0\0\0"),
        frame(CHANNEL, &disposition(1 << 20, 1 << 20), b""),
        frame(CHANNEL, &settled, b""),
        frame(CHANNEL, &drain, b""),
        frame(CHANNEL, &detach(1), b""),
        frame(CHANNEL, &attach(1, Role::Sender), b""),
        frame(CHANNEL, &End { error: None }, b""),
        frame(CHANNEL, &begin(), b""),
        frame(0, &Close { error: None }, b""),
    ];
    for frame in frames {
        bytes.extend_from_slice(&frame);
    }
    bytes.freeze()
}

#[test]
fn a_conversation_ends_without_an_error() {
    let (events, output, is_finished) = run([conversation()], EngineSettings::default());
    assert!(is_finished);
    let reported = events.join("\n");
    for expected in [
        "SaslInit",
        "Open",
        "Begin",
        "Attach",
        "IncomingDelivery",
        "Credit",
        "Disposition",
        "Detach",
        "End",
        "Close",
    ] {
        assert!(reported.contains(expected), "{expected}: {reported}");
    }
    assert!(!reported.contains("Failed"), "{reported}");
    assert!(output.starts_with(SASL_HEADER));
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
        prop_assert_eq!(run(pieces(&whole, &cuts), EngineSettings::default()), run([whole], EngineSettings::default()));
    }

    /// Compares the splits of damaged conversations.
    #[test]
    fn damaged_input_gives_the_same_events_however_it_is_split(
        damage in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6),
        cuts in prop::collection::vec(any::<usize>(), 0..20),
    ) {
        let whole = conversation();
        let mut damaged = BytesMut::from(&whole[..]);
        for (place, byte) in damage {
            let place = 40 + place % (whole.len() - 40);
            damaged[place] = byte;
        }
        let damaged = damaged.freeze();
        prop_assert_eq!(run(pieces(&damaged, &cuts), EngineSettings::default()), run([damaged], EngineSettings::default()));
    }
}
