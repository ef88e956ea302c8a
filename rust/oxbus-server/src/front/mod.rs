// SPDX-License-Identifier: Apache-2.0
//! The one server: AMQP, HTTP, `WebSocket`s and bulk routes, plain or encrypted, on each of its ports.
//!
//! Read in this order: `server` (its life), `connection` (from the first byte to the right protocol), `context` (what all
//! connections share). What a protocol says is in `amqp`, `http` and `bulk`; who may say it, in `sas`.

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
pub(crate) use websocket::{is_websocket, switch};
