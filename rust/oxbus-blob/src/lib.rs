// SPDX-License-Identifier: Apache-2.0
//! Conditional blob stores: named blobs of bytes that are created only if they do not exist, and replaced only if they
//! have not changed.
//!
//! Read in this order: `store` (the interface), `memory` (blobs in memory, with faults for tests), `open` (a store by
//! its URL), `directory`, `object` and `postgres` (the stores), `probe` (whether a store keeps the rules). Each of the
//! three stores is a feature; all are on by default.

#[cfg(feature = "directory")]
mod directory;
mod key;
mod memory;
#[cfg(feature = "cloud")]
mod object;
mod open;
#[cfg(feature = "postgres")]
mod postgres;
mod probe;
mod store;
#[cfg(any(feature = "cloud", feature = "postgres"))]
mod text;
#[cfg(any(feature = "cloud", feature = "postgres"))]
mod tls;

#[cfg(feature = "directory")]
pub use directory::DirectoryStore;
pub use memory::{Fault, MemoryStore};
#[cfg(feature = "cloud")]
pub use object::ObjectStorage;
pub use open::{OpenError, open, shown_url};
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
pub use probe::{ProbeError, probe};
pub use store::{Answer, Blob, BlobError, BlobListing, BlobStore, Version};
