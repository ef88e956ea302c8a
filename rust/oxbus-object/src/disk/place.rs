// SPDX-License-Identifier: Apache-2.0
//! Where bytes of a file are: in which object, and where in it.

use std::fmt;

use crate::lane::ObjectNumber;

/// The name of a lane: 16 random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LaneId(pub(super) [u8; 16]);

impl LaneId {
    /// A new name. Names of lanes never repeat, whatever seed a test has, so they come from the system.
    #[expect(
        clippy::disallowed_methods,
        reason = "a name that two owners had would let both write"
    )]
    pub(super) fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(Self(bytes))
    }

    /// Reads the text of a name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let value = u128::from_str_radix(text, 16).ok()?;
        (text.len() == 32).then(|| Self(value.to_be_bytes()))
    }

    /// The key of an object of this lane.
    pub(super) fn key(&self, number: ObjectNumber) -> String {
        format!("lanes/{self}/{:012}", number.0)
    }
}

impl fmt::Display for LaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The short number of a lane in a [`super::FileMap`].
pub(super) type LaneIndex = u16;

/// An object, by the short number of its lane and its own number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ObjectKey(u64);

const NUMBER_BITS: u32 = 48;

impl ObjectKey {
    /// The object with this number in a lane.
    pub(super) fn new(lane: LaneIndex, number: ObjectNumber) -> Self {
        assert!(number.0 < 1 << NUMBER_BITS, "a lane has fewer than 2^48 objects");
        Self(u64::from(lane) << NUMBER_BITS | number.0)
    }

    /// The lane.
    pub(super) fn lane(self) -> LaneIndex {
        (self.0 >> NUMBER_BITS) as LaneIndex
    }

    /// The number in the lane.
    pub(super) fn number(self) -> ObjectNumber {
        ObjectNumber(self.0 & ((1 << NUMBER_BITS) - 1))
    }
}

/// Bytes in the payload of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The object.
    pub(super) object: ObjectKey,
    /// Where the bytes begin in its payload.
    pub(super) offset: u32,
}
