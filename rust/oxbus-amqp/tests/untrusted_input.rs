// SPDX-License-Identifier: Apache-2.0
//! Untrusted input from seeds: frames of a common client and of the server, damaged, repeated, split and reordered.

#[path = "support/application.rs"]
pub mod application;
#[path = "support/caller.rs"]
pub mod caller;
#[path = "support/untrusted_input.rs"]
pub mod support;

use proptest::collection::vec;
use proptest::prelude::*;

/// Frames written by azure-servicebus; see `golden.rs`.
fn recorded() -> Vec<Vec<u8>> {
    let bytes = |text: &str| {
        let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
        (0..text.len()).step_by(2).map(byte).collect()
    };
    let lines = include_str!("golden/azure-servicebus.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(' '))
        .map(|(_, text)| bytes(text))
        .collect()
}

fn damaged(mut bytes: Vec<u8>, damage: &[(usize, u8)]) -> Vec<u8> {
    let length = bytes.len();
    for (place, byte) in damage {
        bytes[place % length] = *byte;
    }
    bytes
}

/// An input whose first byte selects the start of a connection and the largest chunks.
fn input(choice: u8, bytes: &[u8]) -> Vec<u8> {
    [&[choice][..], bytes].concat()
}

#[test]
fn recorded_frames_are_read() {
    for bytes in recorded() {
        support::codec(&bytes);
        support::codec(&bytes[8..]);
        support::engine(&input(0xff, &bytes));
        support::client(&input(0xff, &bytes));
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_harmless(bytes in vec(any::<u8>(), 0..300)) {
        support::codec(&bytes);
        support::engine(&bytes);
        support::client(&bytes);
    }

    #[test]
    fn damaged_frames_are_harmless(
        frame in any::<prop::sample::Index>(),
        damage in vec((any::<usize>(), any::<u8>()), 0..5),
        choice in any::<u8>(),
    ) {
        let frames = recorded();
        let bytes = damaged(frames[frame.index(frames.len())].clone(), &damage);
        support::codec(&bytes);
        support::codec(&bytes[8.min(bytes.len())..]);
        support::engine(&input(choice, &bytes));
        support::client(&input(choice, &bytes));
    }

    #[test]
    fn reordered_frames_are_harmless(order in vec(any::<prop::sample::Index>(), 1..30), choice in any::<u8>()) {
        let frames = recorded();
        let bytes: Vec<_> = order.iter().flat_map(|place| frames[place.index(frames.len())].clone()).collect();
        support::engine(&input(choice, &bytes));
        support::client(&input(choice, &bytes));
    }
}
