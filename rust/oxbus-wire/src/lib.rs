// SPDX-License-Identifier: Apache-2.0
//! The protocol between a server and its bulk clients, and the client's half of it.
//!
//! The routes and their bodies are in docs/bulk.md. Knows no broker, no Arrow and no Python; starts no thread.

pub mod client;
mod coalesce;
mod connection_string;
mod hex;
mod server_error;
mod signature;

pub use coalesce::coalesce;
pub use connection_string::{ConnectionString, Credential};
pub use hex::{from_hex, to_hex};
pub use server_error::{ServerError, ServerErrorKind};
pub use signature::shared_access_signature;

/// The content type of an Arrow stream.
pub const ARROW_STREAM: &str = "application/vnd.apache.arrow.stream";
/// The header that names the sequence number at which the next page begins; absent after the last page.
pub const NEXT_HEADER: &str = "oxbus-next";
/// The first segment of all bulk routes. No entity has that name, since none begins with `$`.
pub const BULK_ROOT: &str = "/$bulk";
/// The version of the routes, behind [`BULK_ROOT`].
pub const BULK_VERSION: &str = "/v1";
