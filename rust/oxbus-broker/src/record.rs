// SPDX-License-Identifier: Apache-2.0
//! Messages as the bytes that a store keeps.

use oxbus_model::Result;
use oxbus_model::message::{Fields, PropertiesBuilder, Value};
use oxbus_store::Record;

/// Property that says why a message was dead-lettered (B-263).
pub const DEAD_LETTER_REASON: &str = "DeadLetterReason";
/// Property that explains it (B-263).
pub const DEAD_LETTER_DESCRIPTION: &str = "DeadLetterErrorDescription";

/// The stored form of a message.
pub fn encode(fields: &Fields<'_>) -> Record {
    encode_sized(fields.encoded_len(), fields)
}

/// The stored form of a message of `len` encoded bytes.
#[inline]
pub(crate) fn encode_sized(len: usize, fields: &Fields<'_>) -> Record {
    let body = fields.body.bytes();
    Record::with_tail(len - body.len(), |out| fields.encode_head(out), body)
}

/// The same message with some application properties added or replaced (B-166).
pub fn with_properties(record: &Record, changes: &[(&str, Value<'_>)]) -> Result<Record> {
    let mut fields = Fields::decode(record)?;
    let merged = PropertiesBuilder::merge(fields.application_properties, changes);
    fields.application_properties = Some(merged.properties());
    Ok(encode(&fields))
}

/// The same message with the reason and the description of its dead-lettering, where they are given.
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
