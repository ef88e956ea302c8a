// SPDX-License-Identifier: Apache-2.0
//! Message ids, correlation ids and addresses: strings in the broker, of several types in AMQP.

use std::fmt::Write;

use crate::codec::{AmqpValue, Uuid};
use crate::message::AmqpMessageId;

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

/// The broker's text for an address. `None` for a value without a text, such as a list.
pub(super) fn address_text(address: &AmqpValue) -> Option<String> {
    match address {
        AmqpValue::Ulong(number) => Some(number.to_string()),
        AmqpValue::Uuid(uuid) => Some(hyphenated(uuid)),
        other => {
            let text = other.as_text().map(str::to_owned);
            text.or_else(|| other.as_i64().map(|number| number.to_string()))
        }
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
