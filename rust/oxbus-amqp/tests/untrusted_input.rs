// SPDX-License-Identifier: Apache-2.0
//! Bytes of strangers on inputs from a seed: frames of a client in use, damaged, repeated, cut and reassembled.

#[path = "support/application.rs"]
pub mod application;
#[path = "support/untrusted_input.rs"]
pub mod support;

use proptest::collection::vec;
use proptest::prelude::*;

/// Frames that the encoder of azure-servicebus wrote: see `golden.rs`.
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

/// The first byte: behind the start of a connection, in the largest pieces.
fn input(choice: u8, bytes: &[u8]) -> Vec<u8> {
    [&[choice][..], bytes].concat()
}

#[test]
fn recorded_frames_are_read() {
    for bytes in recorded() {
        support::codec(&bytes);
        support::codec(&bytes[8..]);
        support::engine(&input(0xff, &bytes));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(bytes in vec(any::<u8>(), 0..300)) {
        support::codec(&bytes);
        support::engine(&bytes);
    }

    #[test]
    fn damaged_frames_are_read_without_harm(
        frame in any::<prop::sample::Index>(),
        damage in vec((any::<usize>(), any::<u8>()), 0..5),
        choice in any::<u8>(),
    ) {
        let frames = recorded();
        let bytes = damaged(frames[frame.index(frames.len())].clone(), &damage);
        support::codec(&bytes);
        support::codec(&bytes[8.min(bytes.len())..]);
        support::engine(&input(choice, &bytes));
    }

    #[test]
    fn frames_in_any_order_are_taken_without_harm(order in vec(any::<prop::sample::Index>(), 1..30), choice in any::<u8>()) {
        let frames = recorded();
        let bytes: Vec<_> = order.iter().flat_map(|place| frames[place.index(frames.len())].clone()).collect();
        support::engine(&input(choice, &bytes));
    }
}
