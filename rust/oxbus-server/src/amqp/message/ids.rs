// SPDX-License-Identifier: Apache-2.0
//! Message ids and correlation ids: strings in the broker, one of four types in AMQP.

use std::fmt::Write;

use oxbus_amqp::codec::Uuid;
use oxbus_amqp::message::AmqpMessageId;

/// The broker's text for an id.
pub(super) fn text(id: &AmqpMessageId) -> String {
    match id {
        AmqpMessageId::String(text) => text.to_string(),
        AmqpMessageId::Ulong(number) => number.to_string(),
        AmqpMessageId::Uuid(uuid) => hyphenated(uuid),
        AmqpMessageId::Binary(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            }),
        },
    }
}

fn hyphenated(Uuid(bytes): &Uuid) -> String {
    let mut text = String::with_capacity(36);
    for (position, byte) in bytes.iter().enumerate() {
        if matches!(position, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}
