// SPDX-License-Identifier: Apache-2.0
//! The server: AMQP, HTTP, `WebSocket`s and bulk routes, with or without TLS, on each of its ports.
//!
//! Read in this order: `server` (start and stop), `connection` (from the first byte to the right protocol), `context`
//! (the state that all connections share). The protocols are in `amqp`, `http` and `bulk`. Access control is in `sas`.

mod budget;
mod certificate;
mod connection;
mod context;
mod listen;
mod options;
mod peer;
mod prefixed_stream;
mod runtime;
mod server;
mod sniff;
mod tls;
mod websocket;

#[cfg(test)]
mod tests;

pub(crate) use budget::Budget;
pub(crate) use context::Context;
pub use options::{BusOptions, BusTls, Ports};
pub(crate) use peer::PeerInfo;
pub use server::BusServer;
pub use tls::TlsFiles;
pub(crate) use websocket::{accept_upgrade, is_websocket};
