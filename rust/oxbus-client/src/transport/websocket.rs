// SPDX-License-Identifier: Apache-2.0
//! AMQP over WebSocket: the byte stream in binary messages, whose boundaries have no meaning (B-407).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::{Sink, Stream as _};
use oxbus_model::caps::WEBSOCKET_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{BoxStream, invalid};
use crate::error::{ClientError, Result};

/// The path of the upgrade request.
const PATH: &str = "/$servicebus/websocket";
/// The subprotocol.
const PROTOCOL: &str = "AMQPWSB10";

/// Upgrades a connection to a WebSocket.
pub(super) async fn open(stream: BoxStream, host: &str, port: u16, is_tls: bool) -> Result<BoxStream> {
    let scheme = if is_tls { "wss" } else { "ws" };
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let mut request = format!("{scheme}://{host}:{port}{PATH}")
        .into_client_request()
        .map_err(|error| invalid(format!("the endpoint is not an address: {host}:{port}: {error}")))?;
    request
        .headers_mut()
        .insert("Sec-WebSocket-Protocol", HeaderValue::from_static(PROTOCOL));
    let config = WebSocketConfig::default()
        .max_message_size(Some(WEBSOCKET_BYTES_MAX))
        .max_frame_size(Some(WEBSOCKET_BYTES_MAX));
    let opened = tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await;
    let (socket, _) = opened.map_err(|error| {
        let detail = format!("the server refuses the WebSocket; check host and port: {host}:{port}: {error}");
        ClientError::connection(detail).with_source(error)
    })?;
    Ok(Box::new(WebSocketBytes {
        socket,
        unread: Bytes::new(),
    }))
}

/// The bytes of a WebSocket.
struct WebSocketBytes {
    socket: WebSocketStream<BoxStream>,
    /// The rest of the last message.
    unread: Bytes,
}

fn io_error(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

impl AsyncRead for WebSocketBytes {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.unread.is_empty() {
            match ready!(Pin::new(&mut self.socket).poll_next(context)) {
                None | Some(Ok(Message::Close(_)) | Err(Error::ConnectionClosed)) => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(io_error(error))),
                Some(Ok(Message::Binary(bytes))) => self.unread = bytes,
                // The library answers pings; AMQP uses binary messages only.
                Some(Ok(_)) => {}
            }
        }
        let count = self.unread.len().min(buffer.remaining());
        buffer.put_slice(&self.unread[..count]);
        self.unread.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WebSocketBytes {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.socket).poll_ready(context)).map_err(io_error)?;
        let count = bytes.len().min(WEBSOCKET_BYTES_MAX);
        let message = Message::Binary(Bytes::copy_from_slice(&bytes[..count]));
        Pin::new(&mut self.socket).start_send(message).map_err(io_error)?;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context).map_err(io_error)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_close(context).map_err(io_error)
    }
}
