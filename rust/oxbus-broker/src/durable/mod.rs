// SPDX-License-Identifier: Apache-2.0
//! A namespace in a directory: its owner, its catalog, and the stores of its shards.
//!
//! ```text
//! DIR/catalog       entities and their settings                             `held_catalog`
//! DIR/owner         locked by the process that owns all partitions
//! DIR/shard-00/ …   one journal per partition, with its own owner           `store`
//! ```
//!
//!
//! `inspect` describes a directory, and `open` opens it. While it is open, `upkeep` writes snapshots (`compaction`)
//! and heals shards, and `stall_detector` watches whether disks answer.

mod compaction;
mod held_catalog;
mod inspect;
mod open;
mod stall_detector;
mod store;
mod upkeep;
mod view;

pub(crate) use compaction::compact_opened;
pub(crate) use inspect::{count_partitions, partition_of};
pub use open::{OpenedNamespace, StoreOptions, open};
pub(crate) use open::{ShardReplay, own, shard_dir, storage_error};
pub use store::{ShardStore, Stores};
pub use upkeep::{Upkeep, UpkeepTarget};

/// The result of recovery at open.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recovery {
    /// Frames of the journals that were read.
    pub frames: u64,
    /// Bytes cut from the ends of journals, and of the catalog, because their write never finished.
    pub truncated_bytes: u64,
    /// Partitions that could not be opened because their stores are damaged.
    pub corrupt_partitions: Vec<u16>,
    /// Bulk loads whose rows could not be taken over, with the reason and the path of their file.
    pub waiting_loads: Vec<String>,
    /// Duration of the open, in seconds.
    pub seconds: f64,
}
