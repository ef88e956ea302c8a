// SPDX-License-Identifier: Apache-2.0
//! A connection, from its first byte to the handler of its protocol.
//!
//! Each port accepts AMQP, HTTP and AMQP over WebSocket, each with or without TLS around it. A client that sends
//! nothing, or does not finish a TLS handshake, is disconnected.

use std::net::SocketAddr;
use std::time::Duration;

use oxbus_log::event;
use oxbus_model::caps::SERVER_FIRST_BYTES_MS_MAX;
use tokio_rustls::TlsAcceptor;

use super::context::Context;
use super::peer::{PeerInfo, Stream};
use super::prefixed_stream::PrefixedStream;
use super::sniff::{PeekedBytes, Protocol, sniff};
use crate::amqp::serve_amqp;
use crate::http::{MeteredProtocol, serve_http};

const FIRST_BYTES_TIMEOUT: Duration = Duration::from_millis(SERVER_FIRST_BYTES_MS_MAX);

/// Handles a connection until it closes.
pub(super) async fn handle(stream: impl Stream, address: Option<SocketAddr>, tls: TlsAcceptor, context: Context) {
    let mut peer = PeerInfo {
        is_encrypted: false,
        address,
    };
    let Some((protocol, stream)) = detect_protocol(stream).await else {
        return peer.log_failed("nothing_said");
    };
    // The futures are boxed, so that a connection takes only the memory of the future of its protocol.
    if protocol != Protocol::Tls {
        return Box::pin(serve(protocol, stream, context, peer)).await;
    }
    let Ok(Ok(stream)) = Box::pin(tokio::time::timeout(FIRST_BYTES_TIMEOUT, tls.accept(stream))).await else {
        return peer.log_failed("tls_handshake");
    };
    peer.is_encrypted = true;
    match detect_protocol(stream).await {
        // TLS inside TLS is not supported.
        None | Some((Protocol::Tls, _)) => peer.log_failed("nothing_said"),
        Some((protocol, stream)) => Box::pin(serve(protocol, stream, context, peer)).await,
    }
}

/// Detects the protocol. Returns the stream from its first byte on, and `None` if the client sends nothing in time.
async fn detect_protocol<S: Stream>(mut stream: S) -> Option<(Protocol, PrefixedStream<S>)> {
    let found = tokio::time::timeout(FIRST_BYTES_TIMEOUT, sniff(&mut stream)).await;
    let (protocol, first): (Protocol, PeekedBytes) = found.ok()?.ok()??;
    Some((protocol, PrefixedStream::new(first, stream)))
}

async fn serve(protocol: Protocol, stream: impl Stream, context: Context, peer: PeerInfo) {
    let meters = context.clone();
    let _counted = meters.meters().count_connection(if protocol == Protocol::Amqp {
        MeteredProtocol::Amqp
    } else {
        MeteredProtocol::Http
    });
    let name = if protocol == Protocol::Amqp { "amqp" } else { "http" };
    let address = peer.address.map(oxbus_log::display);
    event!(
        CONNECTION_OPENED,
        peer = address,
        protocol = name,
        tls = peer.is_encrypted
    );
    if protocol == Protocol::Amqp && context.is_view() {
        // A view of a directory has only its console: what a client sent would be lost.
        peer.log_failed("view");
    } else if protocol == Protocol::Amqp {
        Box::pin(serve_amqp(stream, context, peer)).await;
    } else {
        Box::pin(serve_http(stream, context, peer)).await;
    }
    event!(
        CONNECTION_CLOSED,
        peer = address,
        protocol = name,
        tls = peer.is_encrypted
    );
}
