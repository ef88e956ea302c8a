// SPDX-License-Identifier: Apache-2.0
//! The manifest: who owns the namespace, and where its files are. It is the only object that is replaced.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::place::LaneId;
use crate::lane::ObjectNumber;

/// The key of the manifest.
pub(super) const MANIFEST: &str = "manifest";
/// The version of what the objects hold.
pub(super) const FORMAT: u32 = 1;

/// The process that owns a namespace: what an error shows, and the mark by which others see that it is gone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerInfo {
    /// The name of the machine.
    pub host: String,
    /// The number of the process.
    pub pid: u32,
    /// By which another process on the same machine sees that this one is gone.
    pub mark: Option<String>,
    /// Where its server listens, as `HOST:PORT`.
    pub address: Option<String>,
}

/// The manifest of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The version of the format.
    pub(super) format: u32,
    /// Counts the owners.
    pub(super) epoch: u64,
    /// Counts the changes of one owner: while it rises, the owner lives.
    pub(super) beat: u64,
    /// The lane of the owner, as text.
    pub(super) lane: String,
    /// The checkpoint covers all objects of the lane below this number.
    pub(super) floor: u64,
    /// The key of the checkpoint, if there is one.
    pub(super) checkpoint: Option<String>,
    /// The owner.
    pub(super) owner: OwnerInfo,
    /// Set by an owner that left: its lane ends before this number, without a fence.
    pub(super) released_at: Option<u64>,
}

impl Manifest {
    /// The manifest of a new owner.
    pub(super) fn new(epoch: u64, lane: LaneId, checkpoint: Option<String>, owner: OwnerInfo) -> Self {
        Self {
            format: FORMAT,
            epoch,
            beat: 0,
            lane: lane.to_string(),
            floor: 0,
            checkpoint,
            owner,
            released_at: None,
        }
    }

    /// The lane of the owner.
    pub(super) fn lane(&self) -> LaneId {
        LaneId::parse(&self.lane).expect("the text of the lane was checked when it was read")
    }

    /// The first object of the lane that the checkpoint does not cover.
    pub(super) fn floor(&self) -> ObjectNumber {
        ObjectNumber(self.floor)
    }

    /// True if both are of the same owner.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        (self.epoch, &self.lane) == (other.epoch, &other.lane)
    }

    /// The bytes of the manifest.
    pub(super) fn encode(&self) -> Bytes {
        serde_json::to_vec_pretty(self)
            .expect("a manifest has no key that JSON lacks")
            .into()
    }

    /// Reads a manifest. The text of an error says what to do.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let damaged =
            |error: serde_json::Error| format!("its manifest cannot be read ({error}); restore it from a copy");
        let found: Format = serde_json::from_slice(bytes).map_err(damaged)?;
        if found.format != FORMAT {
            let newer = found.format;
            return Err(format!(
                "it has format version {newer}, and this version of oxbus reads {FORMAT}; use the version of oxbus that wrote it"
            ));
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(damaged)?;
        if LaneId::parse(&manifest.lane).is_none() {
            return Err("its manifest names no lane; restore it from a copy".to_owned());
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let manifest = Manifest::new(
            3,
            LaneId([9; 16]),
            Some("checkpoints/1".to_owned()),
            OwnerInfo::default(),
        );
        assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest.clone()));
        let newer = Manifest {
            format: FORMAT + 1,
            ..manifest
        };
        let error = Manifest::decode(&newer.encode()).expect_err("a newer format");
        assert!(error.contains("format version 2"), "{error}");
        assert!(Manifest::decode(b"{}").is_err());
    }
}
