// SPDX-License-Identifier: Apache-2.0
//! A namespace in a directory: who owns it, what is in its catalog, and the stores of its shards.
//!
//! ```text
//! DIR/catalog       entities and their settings, replaced as a whole        `contents`
//! DIR/owner         locked by the process that owns all partitions
//! DIR/shard-00/ …   one journal per partition, with an owner of its own     `store`
//! ```
//!
//! `salvage` copies what is intact out of a damaged one.
//! `found` says what a directory is, and `open` puts it together; `upkeep` writes snapshots and heals shards while it is open, and `watch` sees whether disks answer.

mod compaction;
mod inspect;
mod open;
mod stall_detector;
mod store;
mod upkeep;

pub(crate) use compaction::compact_opened;
pub(crate) use inspect::partition_of;
pub use open::{OpenedNamespace, StoreOptions, open};
pub(crate) use open::{ShardReplay, own, shard_dir, storage_error};
pub use store::{ShardStore, Stores};
pub use upkeep::{Upkeep, UpkeepTarget};

/// What opening a durable namespace found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recovery {
    /// Frames of the journals that were read.
    pub frames: u64,
    /// Bytes that were cut from the ends of journals because their write never finished.
    pub truncated_bytes: u64,
    /// Partitions that could not be opened because their stores are damaged.
    pub corrupt_partitions: Vec<u16>,
    /// Bulk loads whose rows could not be taken over: which, why and where they are.
    pub waiting_loads: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}
