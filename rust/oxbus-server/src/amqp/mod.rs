// SPDX-License-Identifier: Apache-2.0
//! The AMQP 1.0 front end: maps the links of unmodified clients to senders and receivers of the broker.
//!
//! `connection` drives the engine of `oxbus-amqp`. Each kind of event has a module: `attach`, `send` (with
//! `send_groups` and `transfer`), `receive`, `sessions`, `settle`, `requests` (with `cbs` and `management`),
//! `transactions` and `timeouts`. `jobs` runs the calls of the broker. `message` converts between the AMQP and the
//! stored form of a message.
//!
//! Invariants
//! - a client's message is accepted only after it is as durable as its entity requires;
//! - a link never holds locks on more messages than its client gave credit for;
//! - detaching a link releases its unsent messages, and neither settles nor unlocks messages sent to its client.
//!
//! Source: docs/behaviour.md, sections 0.4 and 21.

mod attach;
mod card;
mod cbs;
mod client_names;
mod connection;
mod fault;
mod jobs;
mod links;
mod management;
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
mod spans;
mod state;
mod timeouts;
mod timers;
mod transactions;
mod transfer;

#[cfg(test)]
mod tests;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::front::{Context, PeerInfo};

/// Serves AMQP on a stream, from its protocol header on, until it closes or the server stops.
pub(crate) async fn serve_amqp(stream: impl AsyncRead + AsyncWrite + Unpin + Send, context: Context, peer: PeerInfo) {
    let _counted = context.enter_amqp();
    connection::AmqpConnection::new(context, peer).run(stream).await;
}
