// SPDX-License-Identifier: Apache-2.0
//! The message store of one cell and the durable log of one shard. Both treat messages as bytes and know no entities.
//!
//! Read in this order: `message_store` (the interface of every store), `record` (the bytes of a message), `slot_log`
//! (the lock-free store), `ordered` (sparse sequence numbers), `wait_queue` (waiting for messages), `versions` (a
//! value that is replaced as a whole), `prefetch` (memory into the cache); then `shard_log` (the interface of a durable
//! log), `extent` and `coalescing_reader` (messages on disk), `wait` (how long to wait for a disk), `suspended` (calls
//! that hold no thread meanwhile), `file` (the journal in files), `disk` (the file system below it), and `fault` and
//! `late_disk` (file systems for tests).

#[cfg(not(loom))]
mod coalescing_reader;
#[cfg(not(loom))]
pub mod disk;
pub mod entry;
#[cfg(not(loom))]
pub mod extent;
#[cfg(not(loom))]
pub mod fault;
#[cfg(not(loom))]
pub mod file;
#[cfg(not(loom))]
pub mod injected;
#[cfg(not(loom))]
pub mod late_disk;
#[cfg(not(loom))]
pub mod memory_log;
pub mod message_store;
mod ordered;
#[cfg(not(loom))]
pub mod prefetch;
#[cfg(not(loom))]
mod record_memory;
#[cfg(not(loom))]
mod record_places;
#[cfg(not(loom))]
pub mod shard_log;
mod slot_log;
pub mod suspended;
mod sync;
mod versions;
mod wait;
pub mod wait_queue;

#[cfg(not(loom))]
pub use coalescing_reader::CoalescingReader;
pub use message_store::*;
pub use ordered::OrderedStore;
#[cfg(not(loom))]
pub use record_memory::{count_record_memory, record_memory};
#[cfg(not(loom))]
pub use record_places::{PlacedRecord, RecordPlaces};
pub use slot_log::SlotLog;
pub use slot_log::record::{RECORD_BYTES_MAX, Record, StoredRecord};
pub use versions::Versions;
pub use wait::Wait;
pub use wait_queue::WaitQueue;

/// The store of a cell.
pub type CellStore = SlotLog;
