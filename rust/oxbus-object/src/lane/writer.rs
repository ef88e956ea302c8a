// SPDX-License-Identifier: Apache-2.0
//! Writing a lane: several objects on their way, acknowledged in order.

use std::collections::BTreeMap;

use super::{Found, ObjectNumber};

/// The store's answer to the creation of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateAnswer {
    /// The object was created.
    Created,
    /// There is an object: an earlier attempt, or a fence.
    Exists,
    /// The request failed or timed out, and may or may not have had an effect.
    Unknown,
}

/// What the writer needs next for an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteRequest {
    /// Create the object, with the same bytes as before if it was tried before.
    Create(ObjectNumber),
    /// Read what lies under its number: doubt is resolved by looking, never by guessing.
    Look(ObjectNumber),
}

/// The state of an object that is not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sent {
    OnTheWay,
    Stored,
}

/// The writer of a lane. The caller keeps the bytes of an object until it is acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LaneWriter {
    /// Objects on their way at once, at most.
    depth: usize,
    next: ObjectNumber,
    /// Objects from the first one that is not acknowledged on.
    sent: BTreeMap<ObjectNumber, Sent>,
    ended: bool,
}

impl LaneWriter {
    /// A new lane, with up to `depth` objects on their way at once.
    pub fn new(depth: usize) -> Self {
        Self {
            depth,
            next: ObjectNumber(0),
            sent: BTreeMap::new(),
            ended: false,
        }
    }

    /// True once another node has ended the lane. Whether objects that are not acknowledged count is unknown to this
    /// node.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The number of the next object.
    pub fn next(&self) -> ObjectNumber {
        self.next
    }

    /// All objects below this number are acknowledged.
    pub fn acknowledged(&self) -> ObjectNumber {
        let first = self.sent.keys().next();
        first.copied().unwrap_or(self.next)
    }

    /// The objects on their way, which may be sent again, for example if the store is slow.
    pub fn on_the_way(&self) -> impl Iterator<Item = ObjectNumber> {
        let on_the_way = self.sent.iter().filter(|(_, sent)| **sent == Sent::OnTheWay);
        on_the_way.map(|(number, _)| *number)
    }

    /// Begins the next object, unless the lane has ended or too many objects are on their way.
    pub fn begin(&mut self) -> Option<WriteRequest> {
        if self.ended || self.on_the_way().count() >= self.depth {
            return None;
        }
        let number = self.next;
        self.sent.insert(number, Sent::OnTheWay);
        self.next = number.next();
        Some(WriteRequest::Create(number))
    }

    /// Takes the answer to a `Create`.
    pub fn created(&mut self, number: ObjectNumber, answer: CreateAnswer) -> Option<WriteRequest> {
        if !self.is_open(number) {
            return None;
        }
        match answer {
            CreateAnswer::Created => {
                self.stored(number);
                None
            }
            CreateAnswer::Exists => Some(WriteRequest::Look(number)),
            CreateAnswer::Unknown => Some(WriteRequest::Create(number)),
        }
    }

    /// Takes the answer to a `Look`.
    pub fn looked(&mut self, number: ObjectNumber, found: Found) -> Option<WriteRequest> {
        if !self.is_open(number) {
            return None;
        }
        match found {
            // The name of the lane is random, so nobody else writes data into it.
            Found::Data => self.stored(number),
            Found::Fence => self.ended = true,
            // The store could not decide between two creations at once.
            Found::Missing => return Some(WriteRequest::Create(number)),
        }
        None
    }

    /// True if an answer about the object still matters.
    fn is_open(&self, number: ObjectNumber) -> bool {
        !self.ended && self.sent.get(&number) == Some(&Sent::OnTheWay)
    }

    fn stored(&mut self, number: ObjectNumber) {
        self.sent.insert(number, Sent::Stored);
        while let Some(first) = self.sent.first_entry()
            && *first.get() == Sent::Stored
        {
            first.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_object_is_acknowledged_after_the_earlier_ones() {
        let mut writer = LaneWriter::new(2);
        assert_eq!(writer.begin(), Some(WriteRequest::Create(ObjectNumber(0))));
        assert_eq!(writer.begin(), Some(WriteRequest::Create(ObjectNumber(1))));
        assert_eq!(writer.begin(), None, "two are on their way");
        assert_eq!(writer.created(ObjectNumber(1), CreateAnswer::Created), None);
        assert_eq!(writer.acknowledged(), ObjectNumber(0));
        assert_eq!(writer.begin(), Some(WriteRequest::Create(ObjectNumber(2))));
        assert_eq!(writer.created(ObjectNumber(0), CreateAnswer::Created), None);
        assert_eq!(writer.acknowledged(), ObjectNumber(2));
    }

    #[test]
    fn an_object_that_exists_is_looked_at() {
        let mut writer = LaneWriter::new(1);
        let first = ObjectNumber(0);
        writer.begin();
        assert_eq!(
            writer.created(first, CreateAnswer::Unknown),
            Some(WriteRequest::Create(first))
        );
        assert_eq!(
            writer.created(first, CreateAnswer::Exists),
            Some(WriteRequest::Look(first))
        );
        assert_eq!(writer.looked(first, Found::Missing), Some(WriteRequest::Create(first)));
        assert_eq!(writer.looked(first, Found::Data), None);
        assert_eq!(writer.acknowledged(), ObjectNumber(1));
    }

    #[test]
    fn nothing_is_acknowledged_after_a_fence() {
        let mut writer = LaneWriter::new(2);
        writer.begin();
        writer.begin();
        assert_eq!(writer.looked(ObjectNumber(1), Found::Fence), None);
        assert!(writer.has_ended());
        assert_eq!(writer.created(ObjectNumber(0), CreateAnswer::Created), None);
        assert_eq!(writer.acknowledged(), ObjectNumber(0));
        assert_eq!(writer.begin(), None);
    }
}
