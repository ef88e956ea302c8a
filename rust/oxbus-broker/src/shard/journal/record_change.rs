// SPDX-License-Identifier: Apache-2.0
//! The change of a record in a journal event: the new application properties, without the unchanged bytes around them.
//!
//! Dead-lettering adds a reason to the properties, and an abandon may replace them. The event contains the new
//! properties and how many bytes stay before and after them. So it does not grow with the message, and a full disk can
//! be drained.
//!
//! Invariants
//! - the bytes that stay are the same in every version of a record, so a change also applies to an older or newer
//!   version.

use std::io;

use oxbus_model::message::Fields;
use oxbus_model::varint::{self, VarintReader};
use oxbus_store::{Record, StoredRecord};

use super::encode::push_record;

/// Number of first bytes of a record, which name its kind and its fields.
const FRONT: usize = 3;
/// If fewer bytes stay, the whole record is written.
const STAYS_MIN: usize = 16;
const WHOLE: u8 = 0;
const EDITED: u8 = 1;

/// The next version of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordChange<'a> {
    /// The whole record.
    Whole(&'a [u8]),
    /// New bytes, and how many old bytes stay.
    Edited {
        /// New first bytes.
        front: [u8; FRONT],
        /// Number of bytes after `front` that stay.
        keep: usize,
        /// New bytes after the `keep` bytes.
        middle: &'a [u8],
        /// Number of bytes at the end that stay.
        tail: usize,
    },
}

impl<'a> RecordChange<'a> {
    /// The change from `before` to `now`.
    pub fn of(now: &'a [u8], before: Option<&Record>) -> Self {
        before
            .and_then(|before| Self::edited(now, before))
            .unwrap_or(Self::Whole(now))
    }

    fn edited(now: &'a [u8], before: &[u8]) -> Option<Self> {
        let fields = Fields::decode(now).ok()?;
        let properties = fields.application_properties?.as_bytes();
        let end = properties.as_ptr().addr() - now.as_ptr().addr() + properties.len();
        let mut length = Vec::new();
        varint::push(&mut length, properties.len() as u64);
        let start = end - properties.len() - length.len();
        let (front, rest) = now.split_first_chunk::<FRONT>()?;
        let (keep, tail) = (&rest[..start - FRONT], &now[end..]);
        let stays = before.get(FRONT..)?.starts_with(keep) && before.ends_with(tail);
        let fits = before.len() >= FRONT + keep.len() + tail.len() && keep.len() + tail.len() >= STAYS_MIN;
        (stays && fits).then_some(Self::Edited {
            front: *front,
            keep: keep.len(),
            middle: &now[start..end],
            tail: tail.len(),
        })
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        match self {
            Self::Whole(record) => {
                out.push(WHOLE);
                push_record(out, record);
            }
            Self::Edited {
                front,
                keep,
                middle,
                tail,
            } => {
                out.push(EDITED);
                out.extend_from_slice(&front);
                varint::push(out, keep as u64);
                varint::push(out, tail as u64);
                varint::push_bytes(out, middle);
            }
        }
    }

    /// Reads a change; `record` reads a whole record. Returns `None` if the bytes are invalid.
    pub(super) fn decode(
        from: &mut VarintReader<'a>,
        record: impl FnOnce(&mut VarintReader<'a>) -> Option<&'a [u8]>,
    ) -> Option<Self> {
        match from.take(1)?[0] {
            WHOLE => record(from).map(Self::Whole),
            EDITED => Some(Self::Edited {
                front: from.take(FRONT as u64)?.try_into().ok()?,
                keep: usize::try_from(from.varint()?).ok()?,
                tail: usize::try_from(from.varint()?).ok()?,
                middle: from.bytes()?,
            }),
            _ => None,
        }
    }

    /// Applies the change to `before`. Returns `None` if that is too short.
    pub(super) fn apply(self, before: &StoredRecord) -> io::Result<Option<Record>> {
        let (front, keep, middle, tail) = match self {
            Self::Whole(record) => return Ok(Some(Record::from_slice(record))),
            Self::Edited {
                front,
                keep,
                middle,
                tail,
            } => (front, keep, middle, tail),
        };
        let before = before.load()?;
        let stays = keep.checked_add(tail).and_then(|stays| stays.checked_add(FRONT));
        if stays.is_none_or(|stays| before.len() < stays) {
            return Ok(None);
        }
        let kept = &before[FRONT..FRONT + keep];
        let tail = &before[before.len() - tail..];
        Ok(Some(Record::from_slice(&[&front, kept, middle, tail].concat())))
    }
}

#[cfg(test)]
mod tests {
    use oxbus_model::message::{Body, MessageId, PropertiesBuilder, Value};
    use proptest::prelude::*;

    use super::*;
    use crate::record::{encode, with_dead_letter};

    fn message(subject: Option<&str>, property: Option<&str>, body: &[u8]) -> Record {
        let properties = property.map(|text| PropertiesBuilder::merge(None, &[("k", Value::Text(text))]));
        encode(&Fields {
            message_id: Some(MessageId::Given("an id")),
            subject,
            application_properties: properties.as_ref().map(PropertiesBuilder::properties),
            body: Body::Data(body),
            ..Fields::default()
        })
    }

    proptest! {
        #[test]
        fn a_dead_letter_follows_from_any_version_of_its_message(
            subject in prop::option::of(".{0,20}"), first in prop::option::of(".{0,20}"), second in ".{0,20}",
            body in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let before = message(subject.as_deref(), first.as_deref(), &body);
            let between = message(subject.as_deref(), Some(&second), &body);
            let now = with_dead_letter(&between, Some("why"), None, &[]).expect("a message");
            let changed = RecordChange::of(&now, Some(&between));
            let mut entry = Vec::new();
            changed.encode(&mut entry);
            prop_assert_eq!(RecordChange::decode(&mut VarintReader(&entry), |_| None).or(Some(changed)), Some(changed));
            for before in [before, between] {
                let found = changed.apply(&before.into()).expect("in memory").expect("long enough");
                prop_assert_eq!(&found[..], &now[..]);
            }
            let grows_with_the_body = matches!(changed, RecordChange::Whole(_)) && body.len() > STAYS_MIN;
            prop_assert!(!grows_with_the_body);
        }
    }
}
