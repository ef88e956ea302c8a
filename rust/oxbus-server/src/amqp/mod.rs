// SPDX-License-Identifier: Apache-2.0
//! The AMQP 1.0 front end: maps the links of unmodified clients to senders and receivers of the broker.
//!
//! `connection` drives the engine of `oxbus-amqp` and passes its events to one file each: `attach`, `send` (with
//! `send_groups` and `transfer`), `receive`, `sessions`, `settle`, `requests` (with `cbs` and `management`),
//! `transactions` and `timeouts`. `jobs` runs the calls of the broker. `message` converts between the AMQP and the
//! stored form of a message.
//!
//! Invariants:
//! - a client's message is accepted only after it is as durable as its entity requires;
//! - a link never holds locks on more messages than its client gave credit for;
//! - detaching a link settles and unlocks nothing that was sent; unsent messages are released.
//!
//! Source: docs/behaviour.md, section 21 and 0.4.

mod attach;
mod cbs;
mod connection;
mod fault;
mod jobs;
mod links;
mod management;
mod message;
mod node;
mod notified;
mod read_buffer;
mod receive;
mod request;
mod requests;
mod sasl;
mod send;
mod send_groups;
mod sessions;
mod settle;
mod state;
mod timeouts;
mod timers;
mod token;
mod transactions;
mod transfer;

#[cfg(test)]
mod tests;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::front::{Context, PeerInfo};

/// Serves AMQP on a stream, from its protocol header on, until it closes or the server stops.
pub(crate) async fn serve_amqp(stream: impl AsyncRead + AsyncWrite + Unpin + Send, context: Context, peer: PeerInfo) {
    connection::AmqpConnection::new(context, peer).run(stream).await;
}
