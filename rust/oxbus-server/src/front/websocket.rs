// SPDX-License-Identifier: Apache-2.0
//! AMQP over WebSocket: the AMQP byte stream in binary messages, whose boundaries have no meaning.

use futures_util::{SinkExt, StreamExt};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use oxbus_model::caps::WEBSOCKET_BYTES_MAX;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::context::Context;
use super::peer::{PeerInfo, Stream};
use crate::amqp::serve_amqp;

/// The path of the upgrade request (B-407).
const PATH: &str = "/$servicebus/websocket";
/// The accepted subprotocols. The response repeats the chosen one.
const PROTOCOLS: [&str; 2] = ["AMQPWSB10", "amqp"];
/// The largest chunk relayed at once, and the size of the buffer for each direction.
const CHUNK_BYTES: usize = 64 << 10;

/// True for a request to upgrade to a WebSocket.
pub(crate) fn is_websocket(request: &Request<Incoming>) -> bool {
    request.uri().path().eq_ignore_ascii_case(PATH)
        && request
            .headers()
            .get(UPGRADE)
            .is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// The response to an upgrade request, and the task that continues with AMQP. Returns `None` if the client offers no
/// supported protocol.
pub(crate) fn accept_upgrade(
    mut request: Request<Incoming>,
    context: &Context,
    peer: PeerInfo,
) -> Option<(Response<Full<Bytes>>, JoinHandle<()>)> {
    let offered = request.headers().get(SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
    let protocol = offered
        .split(',')
        .map(str::trim)
        .find(|offered| PROTOCOLS.iter().any(|it| it.eq_ignore_ascii_case(offered)))?;
    let protocol = HeaderValue::from_str(protocol).ok()?;
    let accept = derive_accept_key(request.headers().get(SEC_WEBSOCKET_KEY)?.as_bytes());
    let accept = HeaderValue::from_str(&accept).ok()?;
    let upgrade = hyper::upgrade::on(&mut request);
    let context = context.clone();
    let task = tokio::spawn(async move {
        if let Ok(stream) = upgrade.await {
            relay(TokioIo::new(stream), context, peer).await;
        }
    });
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    Some((response, task))
}

/// Relays bytes both ways until one end closes.
pub(super) async fn relay(stream: impl Stream, context: Context, peer: PeerInfo) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(WEBSOCKET_BYTES_MAX))
        .max_frame_size(Some(WEBSOCKET_BYTES_MAX))
        .max_write_buffer_size(2 * WEBSOCKET_BYTES_MAX);
    let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let (relay_end, amqp_end) = tokio::io::duplex(CHUNK_BYTES);
    let amqp = serve_amqp(amqp_end, context, peer);
    tokio::join!(amqp, pump(socket, relay_end));
}

async fn pump(socket: WebSocketStream<impl Stream>, relay_end: DuplexStream) {
    let (mut sink, mut source) = socket.split();
    let (mut from_amqp, mut to_amqp) = tokio::io::split(relay_end);
    let incoming = async {
        let mut written = Ok(());
        while let Some(Ok(message)) = source.next().await {
            match message {
                Message::Binary(bytes) => written = to_amqp.write_all(&bytes).await,
                // AMQP uses binary messages only.
                Message::Close(_) | Message::Text(_) => break,
                // The library answers pings.
                _ => {}
            }
            if written.is_err() {
                break;
            }
        }
        let _ = to_amqp.shutdown().await;
    };
    let outgoing = async {
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Ok(count @ 1..) = from_amqp.read(&mut chunk).await {
            let bytes = Bytes::copy_from_slice(&chunk[..count]);
            if sink.send(Message::Binary(bytes)).await.is_err() {
                return;
            }
        }
        let _ = sink.close().await;
    };
    tokio::join!(incoming, outgoing);
}
