// SPDX-License-Identifier: Apache-2.0
//! Faults of a shard, and the faults that tests inject.

use std::time::Duration;

use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::injected::DiskFault;

/// A fault of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionFault {
    /// Its store is unresponsive. Only tests inject this.
    Unavailable,
    /// Its store takes no more operations for now.
    Busy,
    /// Its store is full: sends fail, everything else works.
    Full,
    /// A write or a sync of its store failed.
    Failed,
    /// It is being rewritten after a failure.
    Healing,
    /// Its store is damaged.
    Damaged,
    /// This process does not own it; another process may.
    NotOwned,
    /// Its store hangs, and calls wait for it. Only tests inject this, in a namespace in memory.
    Stalled,
    /// Its store has stalled for so long that calls no longer wait for it.
    Silent,
    /// A call panicked while it changed the shard.
    Panicked,
}

/// A fault that a test injects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedFault {
    /// A fault of the whole shard.
    Shard(PartitionFault),
    /// A fault of its disk.
    Disk(DiskFault),
}

const FAULT_NAMES: &str =
    "`unavailable`, `busy`, `enospc`, `eio-write`, `eio-fsync`, `eio-rename`, `bit-flip`, `stall` or `latency:SECONDS`";

impl InjectedFault {
    /// Its name in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Shard(fault) => fault.name(),
            Self::Disk(DiskFault::Write) => "eio-write",
            Self::Disk(DiskFault::Sync) => "eio-fsync",
            Self::Disk(DiskFault::Rename) => "eio-rename",
            Self::Disk(DiskFault::Full) => "enospc",
            Self::Disk(DiskFault::BitFlip) => "bit-flip",
            Self::Disk(DiskFault::Stall) => "stall",
            Self::Disk(DiskFault::Latency(_)) => "latency",
        }
    }

    /// Parses the name of a fault.
    pub fn parse(name: &str) -> Result<Self> {
        let unknown = || {
            let detail = format!("unknown fault; use {FAULT_NAMES}: `{name}`");
            Error::new(ErrorKind::InvalidArgument, detail)
        };
        Ok(match name {
            "unavailable" => Self::Shard(PartitionFault::Unavailable),
            "busy" => Self::Shard(PartitionFault::Busy),
            "enospc" => Self::Shard(PartitionFault::Full),
            "eio-write" => Self::Disk(DiskFault::Write),
            "eio-fsync" => Self::Disk(DiskFault::Sync),
            "eio-rename" => Self::Disk(DiskFault::Rename),
            "bit-flip" => Self::Disk(DiskFault::BitFlip),
            "stall" => Self::Disk(DiskFault::Stall),
            _ => {
                let seconds = name.strip_prefix("latency:").ok_or_else(unknown)?;
                let seconds: f64 = seconds.parse().map_err(|_| unknown())?;
                let time = Duration::try_from_secs_f64(seconds).map_err(|_| unknown())?;
                Self::Disk(DiskFault::Latency(time))
            }
        })
    }
}

impl PartitionFault {
    pub(super) const ALL: [Self; 10] = [
        Self::Unavailable,
        Self::Busy,
        Self::Full,
        Self::Failed,
        Self::Healing,
        Self::Damaged,
        Self::NotOwned,
        Self::Stalled,
        Self::Silent,
        Self::Panicked,
    ];

    /// Its name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Busy => "busy",
            Self::Full => "full",
            Self::Failed => "failed",
            Self::Healing => "healing",
            Self::Damaged => "damaged",
            Self::NotOwned => "elsewhere",
            Self::Stalled => "stalled",
            Self::Silent => "silent",
            Self::Panicked => "panicked",
        }
    }

    /// The default text of an error with this fault.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Unavailable => "the store does not answer",
            Self::Busy => "the store takes no more operations for now",
            Self::Full => "the store is full",
            Self::Failed => "the store failed",
            Self::Healing => "the store is being rewritten after a failure",
            Self::Damaged => "the store is damaged",
            Self::NotOwned => "the partition is not owned by this process",
            Self::Stalled => "the store hangs",
            Self::Silent => "the store has not answered for some seconds",
            Self::Panicked => "a call panicked while it changed the partition",
        }
    }

    /// The shard's status with this fault.
    pub fn status(self) -> &'static str {
        match self {
            Self::Unavailable | Self::Busy | Self::Full | Self::Failed | Self::Stalled | Self::Silent => "faulted",
            Self::Healing => "healing",
            Self::Damaged | Self::NotOwned | Self::Panicked => "offline",
        }
    }

    /// True if nothing can be received or settled.
    pub(super) fn stops_receives(self) -> bool {
        !matches!(self, Self::Busy | Self::Full)
    }

    /// True if only the next open can end it.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Damaged | Self::NotOwned | Self::Panicked)
    }
}
