// SPDX-License-Identifier: Apache-2.0
//! Byte streams to servers: TCP, TLS, WebSocket, and HTTP proxies on the way.

mod proxy;
mod tls;
mod websocket;

use oxbus_model::ErrorKind;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::error::{ClientError, Result};
use crate::options::{ClientOptions, TransportKind};

pub(crate) use tls::{Config as TlsConfig, config as tls_config};

/// A byte stream.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Any byte stream.
pub(crate) type BoxStream = Box<dyn Stream>;

/// Connects to the server.
pub(crate) async fn connect(options: &ClientOptions, tls: Option<&TlsConfig>) -> Result<BoxStream> {
    let (host, port) = options.endpoint();
    let socket = match &options.proxy {
        Some(proxy) => {
            let socket = tcp(&proxy.host, proxy.port, "the proxy", "its address").await?;
            proxy::tunnel(socket, proxy, host, port).await?
        }
        None => tcp(host, port, "the server", "the endpoint").await?,
    };
    let stream: BoxStream = match tls {
        Some(config) => Box::new(tls::handshake(config, host, socket).await?),
        None => Box::new(socket),
    };
    match options.transport {
        TransportKind::Tcp => Ok(stream),
        TransportKind::WebSocket => websocket::open(stream, host, port, tls.is_some()).await,
    }
}

async fn tcp(host: &str, port: u16, what: &str, remedy: &str) -> Result<TcpStream> {
    let socket = TcpStream::connect((host, port)).await.map_err(|error| {
        let detail = format!("{what} cannot be reached; start it or correct {remedy}: {host}:{port}: {error}");
        ClientError::connection(detail).with_source(error)
    })?;
    // Requests are small, and their answers are waited for.
    let _ = socket.set_nodelay(true);
    Ok(socket)
}

fn invalid(detail: impl Into<String>) -> ClientError {
    ClientError::broker(ErrorKind::InvalidArgument, detail)
}
