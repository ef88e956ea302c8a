// SPDX-License-Identifier: Apache-2.0
//! Entities: what has a name, settings and cells in the shards of its namespace.

mod admission;
mod announce;
mod bounds;
pub mod counts;
pub mod drain;
pub(crate) mod forward;
mod idle;
mod keys;
pub mod purge;
pub mod queue;
pub mod receivable;
pub mod receive_cache;
pub(crate) mod reservation;
pub(crate) mod role;
mod sessions;
pub(crate) mod topic;
pub(crate) mod write_batch;

pub use counts::{PartitionCounts, QueueCounts};
pub use drain::{Drained, Waiting};
pub use purge::Choice;
pub use queue::{Entity, QueueDescription};
pub use receivable::Receivable;
