// SPDX-License-Identifier: Apache-2.0
//! The record of a message whose properties changed, as the journal keeps it: without the body, which stays as it was.
//!
//! A message that is dead-lettered gets a reason, and one that is abandoned may get other properties; neither changes the
//! body. So the event names how many bytes at the end of the record before it stay, and holds those that come first. What
//! a dead-lettering writes then does not grow with the body, which also lets a full disk be drained.

use oxbus_model::message::Fields;
use oxbus_store::{Record, Stored};

/// Fewer bytes are written again.
const TAIL_MIN: usize = 64;

/// A record that follows from the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed<'a> {
    /// Its first bytes.
    pub head: &'a [u8],
    /// How many bytes follow: the last ones of the record before.
    pub tail: usize,
}

impl<'a> Changed<'a> {
    /// A record that shares nothing with the one before, or has none before it.
    pub fn whole(record: &'a [u8]) -> Self {
        Self { head: record, tail: 0 }
    }

    /// The record `now` of a message that has been `before` in every version: without the body, if they share it.
    pub fn of(now: &'a [u8], before: Option<&Record>) -> Self {
        let body = Fields::decode(now).map_or(0, |fields| fields.body.bytes().len());
        let (head, tail) = now.split_at(now.len() - body);
        match before {
            Some(before) if body >= TAIL_MIN && before.ends_with(tail) => Self { head, tail: body },
            _ => Self::whole(now),
        }
    }

    /// The record, when the one before is this; `None` when no writer wrote that, and an error when it cannot be read.
    pub(super) fn record(&self, before: &Stored) -> std::io::Result<Option<Record>> {
        let before = before.load()?;
        let tail = before.len().checked_sub(self.tail).map(|start| &before[start..]);
        Ok(tail.map(|tail| Record::from_slice(&[self.head, tail].concat())))
    }
}
