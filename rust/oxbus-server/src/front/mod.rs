// SPDX-License-Identifier: Apache-2.0
//! The server that SDKs talk to: AMQP, HTTP, and `WebSocket`s, plain or encrypted, on each of its ports.
//!
//! Read in this order: `server` (its life), `connection` (from the first byte to the right protocol), `context` (what all
//! connections share). What a protocol says is in `amqp` and `http`; who may say it, in `sas`.

mod budget;
mod certificate;
mod connection;
mod context;
mod options;
mod peer;
mod rewound;
mod server;
mod sniff;
mod websocket;

#[cfg(test)]
mod tests;

pub(crate) use budget::Budget;
pub(crate) use context::Context;
pub use options::{BusOptions, BusTls, Ports};
pub(crate) use peer::Peer;
pub use server::BusServer;
pub(crate) use websocket::{is_websocket, switch};
