// SPDX-License-Identifier: Apache-2.0
//! Lanes: the write-ahead log of one owner in a blob store, and how another one ends it.
//!
//! A lane is a sequence of objects with the numbers 0, 1, 2, …, each created once: the store refuses to create an
//! object that exists. One owner writes a lane, with several objects on their way at once. If it does not answer,
//! another one ends its lane: it creates a fence at the first missing number. From then on the writer cannot add an
//! object that counts, even if it was only paused. Objects that a snapshot covers are deleted below the floor of the
//! lane.
//!
//! Nothing here talks to a store. `writer` and `sealer` say which request comes next and take its answer, so that tests
//! can try every order of requests, late and lost answers included (`tests/protocol.rs`).
//!
//! Four rules keep the promise that no acknowledged object lies beyond the end of a lane, and none is missing before it:
//! - objects are acknowledged in the order of their numbers;
//! - the new floor is stored before an object below it is deleted;
//! - a sealer reads the floor again after it created a fence;
//! - a fence that ended a lane is never deleted.
//!
//! See docs/decisions/0040-lanes.md.

mod sealer;
mod writer;

pub use sealer::{LaneSealer, SealRequest};
pub use writer::{CreateAnswer, LaneWriter, WriteRequest};

/// The number of an object in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectNumber(pub u64);

impl ObjectNumber {
    /// The number after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// What lies under a number of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Found {
    /// Entries of the lane's writer.
    Data,
    /// A fence: the lane ended before it, unless the floor is above it.
    Fence,
    /// Nothing.
    Missing,
}
