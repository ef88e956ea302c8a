// SPDX-License-Identifier: Apache-2.0
//! The stored form of a message.

use oxbus_model::Result;
use oxbus_model::message::{Fields, PropertiesBuilder, Value};
use oxbus_store::Record;

/// Application property: the reason of the dead-lettering (B-263).
pub const DEAD_LETTER_REASON: &str = "DeadLetterReason";
/// Application property: the description of the dead-lettering (B-263).
pub const DEAD_LETTER_DESCRIPTION: &str = "DeadLetterErrorDescription";

/// Encodes a message.
pub fn encode(fields: &Fields<'_>) -> Record {
    encode_sized(fields.encoded_len(), fields)
}

/// Encodes a message whose encoded length is `len`.
#[inline]
pub(crate) fn encode_sized(len: usize, fields: &Fields<'_>) -> Record {
    let body = fields.body.bytes();
    Record::with_tail(len - body.len(), |out| fields.encode_head(out), body)
}

/// A copy of the message with application properties added or replaced (B-166).
pub fn with_properties(record: &Record, changes: &[(&str, Value<'_>)]) -> Result<Record> {
    let mut fields = Fields::decode(record)?;
    let merged = PropertiesBuilder::merge(fields.application_properties, changes);
    fields.application_properties = Some(merged.properties());
    Ok(encode(&fields))
}

/// A copy of the message with other changes and, if given, the reason and the description of its dead-lettering.
pub fn with_dead_letter(
    record: &Record,
    reason: Option<&str>,
    description: Option<&str>,
    changes: &[(&str, Value<'_>)],
) -> Result<Record> {
    let mut all = changes.to_vec();
    all.extend(reason.map(|text| (DEAD_LETTER_REASON, Value::Text(text))));
    all.extend(description.map(|text| (DEAD_LETTER_DESCRIPTION, Value::Text(text))));
    if all.is_empty() {
        Ok(record.clone())
    } else {
        with_properties(record, &all)
    }
}
