// SPDX-License-Identifier: Apache-2.0
//! The protocol of bulk requests, and its client.
//!
//! docs/bulk.md describes the routes and bodies. The crate does not depend on the broker, Arrow or Python, and starts
//! no thread.

pub mod client;
mod coalesce;
mod connection_parts;
mod connection_string;
mod server_error;
mod signature;

pub use client::tls::config as tls_config;
pub use coalesce::coalesce;
pub use connection_parts::{ConnectionParts, Credential, Endpoint, ServerEndpoint};
pub use connection_string::ConnectionString;
pub use server_error::{ServerError, ServerErrorKind};
pub use signature::shared_access_signature;

/// The content type of an Arrow stream.
pub const ARROW_STREAM: &str = "application/vnd.apache.arrow.stream";
/// The header with the sequence number at which the next page begins. It is absent on the last page.
pub const NEXT_HEADER: &str = "oxbus-next";
/// The first segment of all bulk routes. No entity can have this name, because names cannot contain `$`.
pub const BULK_ROOT: &str = "/$bulk";
/// The version of the routes, after [`BULK_ROOT`].
pub const BULK_VERSION: &str = "/v1";
