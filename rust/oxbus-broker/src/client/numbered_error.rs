// SPDX-License-Identifier: Apache-2.0
//! Errors that list the messages for which a call failed.

use std::fmt::Write;

use oxbus_model::{Effect, Error, SequenceNumber};

/// Maximum number of sequence numbers in the text; the error itself has all of them.
const SHOWN_MAX: usize = 10;

/// Returns the error, extended with the sequence numbers of its messages.
pub(super) fn with_sequence_numbers(error: &Error, numbers: &[SequenceNumber], effect: Option<Effect>) -> Error {
    let mut detail = format!("{} sequence_numbers=", error.detail());
    for (position, number) in numbers.iter().take(SHOWN_MAX).enumerate() {
        let comma = if position == 0 { "" } else { ", " };
        write!(detail, "{comma}{number}").expect("writing to a string does not fail");
    }
    if numbers.len() > SHOWN_MAX {
        detail.push_str(", …");
    }
    let named = Error::new(error.kind(), detail)
        .with_numbers(numbers.iter().copied())
        .with_shared_source(error.shared_source());
    match effect {
        Some(effect) => named.with_effect(effect),
        None => named,
    }
}
