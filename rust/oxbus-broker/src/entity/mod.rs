// SPDX-License-Identifier: Apache-2.0
//! Entities: what has a name, settings and cells in the shards of its namespace.

pub mod counts;
mod keys;
pub mod queue;
pub mod receivable;
pub mod receive_cache;
mod sessions;

pub use counts::{PartitionCounts, QueueCounts};
pub use queue::{Queue, QueueDescription};
pub use receivable::Receivable;
