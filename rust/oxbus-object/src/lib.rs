// SPDX-License-Identifier: Apache-2.0
//! A disk in a blob store. Its files are kept as objects of a lane, the write-ahead log of one owner, and another
//! process can take it over.
//!
//! Read in this order: `lane` (the protocol, without I/O), then `disk` (files over lanes).
//!
//! See docs/decisions/0040-lanes.md and docs/decisions/0041-disk-in-a-store.md.

pub mod disk;
pub mod lane;

pub use disk::{LaneDisk, LaneDiskOptions, OpenError, Opened, Opening, OwnerInfo, Takeover, has_namespace};
