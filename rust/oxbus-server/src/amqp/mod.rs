// SPDX-License-Identifier: Apache-2.0
//! The AMQP 1.0 front end: links of unmodified clients on one side, senders and receivers of the broker on the other.
//!
//! `connection` drives the engine of `oxbus-amqp` and hands its events to one file each: `attach`, `send_link` (with `runs` and `stores`), `receive_link`,
//! `sessions`, `settles`, `exchange` with `cbs` and `management`, `transactions`, `idle`. Calls of the broker are `jobs`.
//! `message` knows both forms of a message.
//!
//! Holds always
//! - a message of a client is answered when it is as durable as its entity wants it, and not before;
//! - a link never has more messages than its client gave credit for, but those that are gone when they are received;
//! - a link that ends settles and unlocks nothing; what was not sent yet goes back.
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

/// Speaks AMQP on a stream, from its protocol header on, until it ends or the server stops.
pub(crate) async fn serve_amqp(stream: impl AsyncRead + AsyncWrite + Unpin + Send, context: Context, peer: PeerInfo) {
    connection::AmqpConnection::new(context, peer).run(stream).await;
}
