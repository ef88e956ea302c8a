// SPDX-License-Identifier: Apache-2.0
//! Conditional blob stores: named blobs of bytes that are created only if they do not exist, and replaced only if they
//! have not changed.
//!
//! Read in this order: `store` (the interface), `memory` (blobs in memory, with faults for tests).

mod memory;
mod store;

pub use memory::{Fault, MemoryStore};
pub use store::{Answer, Blob, BlobError, BlobListing, BlobStore, Version};
