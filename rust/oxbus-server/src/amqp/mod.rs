// SPDX-License-Identifier: Apache-2.0
//! The AMQP 1.0 front end.
//!
//! It is not in this version: a client is told so by the end of its connection, and the count of refused connections in
//! the metrics says why.

mod message;
mod token;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::front::{Context, Peer};

/// Speaks AMQP on a stream, from its protocol header on, until it ends or the server stops.
pub(crate) async fn serve_amqp(stream: impl AsyncRead + AsyncWrite + Unpin + Send, context: Context, _peer: Peer) {
    drop(stream);
    context.meters().refused_amqp();
}
