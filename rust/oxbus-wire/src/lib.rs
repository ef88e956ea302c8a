// SPDX-License-Identifier: Apache-2.0
//! What travels between a bulk server and its clients, and the client's half of it.
//!
//! The routes and their bodies are in docs/bulk-plane.md. Knows no broker, no Arrow and no Python; starts no thread.

mod address;
pub mod client;
mod fault;
mod hex;
mod token;

pub use address::Address;
pub use fault::{Fault, FaultKind};
pub use hex::{from_hex, to_hex};
pub use token::Key;

/// The content type of an Arrow stream.
pub const ARROW_STREAM: &str = "application/vnd.apache.arrow.stream";
/// The header that names the sequence number at which the next page begins; absent after the last page.
pub const NEXT_HEADER: &str = "oxbus-next";
/// What all routes begin with; another version of the routes begins with another number.
pub const PREFIX: &str = "/v1";
