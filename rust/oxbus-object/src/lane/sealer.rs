// SPDX-License-Identifier: Apache-2.0
//! Ending the lane of another node.
//!
//! The sealer creates a fence at the first missing number from the floor on. If the floor was raised meanwhile, objects
//! may have been deleted where the fence is; then the fence says nothing, and the sealer goes on from the new floor.

use super::CreateAnswer;
use super::{Found, ObjectNumber};

/// What the sealer needs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealRequest {
    /// Read the floor of the lane.
    ReadFloor,
    /// Create a fence.
    CreateFence(ObjectNumber),
    /// Read what lies under a number.
    Look(ObjectNumber),
    /// The lane ended: every object below this number counts, and none from it on.
    Sealed(ObjectNumber),
}

/// The state of ending a lane. Several nodes may do so at once; all find the same end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LaneSealer {
    step: Step,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Step {
    /// The floor is to be read; with a fence at this number, if there is one already.
    Floor(Option<ObjectNumber>),
    Fence(ObjectNumber),
    Look(ObjectNumber),
    Sealed(ObjectNumber),
}

impl Default for LaneSealer {
    fn default() -> Self {
        Self {
            step: Step::Floor(None),
        }
    }
}

impl LaneSealer {
    /// The next request. After a failure or a time-out of the store it is the same again.
    pub fn request(&self) -> SealRequest {
        match self.step {
            Step::Floor(_) => SealRequest::ReadFloor,
            Step::Fence(number) => SealRequest::CreateFence(number),
            Step::Look(number) => SealRequest::Look(number),
            Step::Sealed(end) => SealRequest::Sealed(end),
        }
    }

    /// Takes the floor.
    pub fn floor(&mut self, floor: ObjectNumber) {
        if let Step::Floor(fence) = self.step {
            self.step = match fence {
                Some(fence) if fence >= floor => Step::Sealed(fence),
                _ => Step::Fence(floor),
            };
        }
    }

    /// Data lies under every number from the floor to before this one: the sealer need not look there.
    pub fn saw_data_before(&mut self, number: ObjectNumber) {
        if let Step::Fence(first) = self.step {
            self.step = Step::Fence(first.max(number));
        }
    }

    /// Takes the answer to the creation of a fence.
    pub fn fence_created(&mut self, answer: CreateAnswer) {
        if let Step::Fence(number) = self.step {
            self.step = match answer {
                CreateAnswer::Created => Step::Floor(Some(number)),
                CreateAnswer::Exists => Step::Look(number),
                CreateAnswer::Unknown => Step::Fence(number),
            };
        }
    }

    /// Takes what lies under the number.
    pub fn looked(&mut self, found: Found) {
        if let Step::Look(number) = self.step {
            self.step = match found {
                Found::Data => Step::Fence(number.next()),
                // Another sealer's, or this one's from an attempt whose answer was lost.
                Found::Fence => Step::Floor(Some(number)),
                Found::Missing => Step::Fence(number),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_below_a_raised_floor_says_nothing() {
        let mut sealer = LaneSealer::default();
        sealer.floor(ObjectNumber(2));
        assert_eq!(sealer.request(), SealRequest::CreateFence(ObjectNumber(2)));
        sealer.fence_created(CreateAnswer::Exists);
        assert_eq!(sealer.request(), SealRequest::Look(ObjectNumber(2)));
        sealer.looked(Found::Data);
        sealer.fence_created(CreateAnswer::Created);
        assert_eq!(sealer.request(), SealRequest::ReadFloor);
        sealer.floor(ObjectNumber(7));
        assert_eq!(sealer.request(), SealRequest::CreateFence(ObjectNumber(7)));
        sealer.fence_created(CreateAnswer::Unknown);
        sealer.fence_created(CreateAnswer::Exists);
        sealer.looked(Found::Fence);
        sealer.floor(ObjectNumber(7));
        assert_eq!(sealer.request(), SealRequest::Sealed(ObjectNumber(7)));
    }
}
