// SPDX-License-Identifier: Apache-2.0
//! The broker: namespaces, entities, and the life of a message from send to settlement.
//!
//! Data flows one way: `client` → `entity` → `write` → `shard` → the stores of `oxbus-store`. Read in this order:
//! `namespace` (the front door), `durable` (its directory), `client`, `entity`, `write`, `shard`.
//! This crate has no sockets, no Python and no async runtime. Time and randomness enter through `clock`.

pub mod backup;
mod bulk_load;
mod catalog;
pub mod client;
pub mod clock;
pub mod durable;
pub mod entity;
pub mod filter;
pub mod memory;
pub mod metrics;
pub mod namespace;
mod parallel;
pub mod record;
pub mod routing;
pub mod salvage;
pub mod shard;
pub mod stage;
pub mod verify;
pub mod write;

pub use client::{Receiver, ReceiverOptions, Sender};
pub use clock::{ManualClock, Randomness, SystemClock};
pub use namespace::bulk_load::{BulkLoad, PartitionLoad};
pub use namespace::{Namespace, NamespaceOptions};
pub use stage::{StageInfo, StageState, Stages, Staging};
