// SPDX-License-Identifier: Apache-2.0
//! Errors that name the messages for which a call did not do what it was to do.

use std::fmt::Write;

use oxbus_model::{Effect, Error, SequenceNumber};

/// Numbers that a text shows; the error has all of them.
const SHOWN_MAX: usize = 10;

/// The same error about these messages.
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
