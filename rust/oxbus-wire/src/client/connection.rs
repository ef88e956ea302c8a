// SPDX-License-Identifier: Apache-2.0
//! One connection: a socket, TLS where it is wanted, and HTTP by hyper, on a runtime of its own.
//!
//! The runtime has no thread. It runs while a caller waits in a call, on that caller's thread; between calls nothing happens.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream as Socket, ToSocketAddrs};
use std::sync::Arc;

use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;

use super::Failure;
use super::body::Outgoing;
use super::patience::Patience;
use crate::connection_string::ConnectionString;

/// A connection to a server.
pub(super) struct Connection {
    pub(super) sender: SendRequest<Outgoing>,
    /// The same socket, to be looked at between calls.
    socket: Socket,
    pub(super) runtime: Runtime,
}

/// Says why a server cannot be reached.
struct Unreachable<'a>(&'a ConnectionString);

impl Unreachable<'_> {
    fn by(&self, error: impl std::error::Error + Send + Sync + 'static) -> Failure {
        let text = format!(
            "the server cannot be reached; start it or correct the Endpoint: {}: {error}",
            self.0.endpoint()
        );
        Failure::connection_by(text, error)
    }
}

impl Connection {
    pub(super) fn open(
        place: &ConnectionString,
        tls: Option<&Arc<ClientConfig>>,
        patience: &Patience<'_>,
    ) -> Result<Self, Failure> {
        let unreachable = Unreachable(place);
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| unreachable.by(error))?;
        let addresses = (place.host.as_str(), place.port)
            .to_socket_addrs()
            .map_err(|error| unreachable.by(error))?;
        let stream = connect(addresses, &runtime, patience)?.map_err(|error| unreachable.by(error))?;
        let socket = duplicate(&stream).map_err(|error| unreachable.by(error))?;
        let sender = match tls {
            None => shake_hands(stream, &runtime, patience),
            Some(config) => {
                let name = ServerName::try_from(place.host.clone()).map_err(|error| unreachable.by(error))?;
                let connecting = TlsConnector::from(Arc::clone(config)).connect(name, stream);
                let stream = patience
                    .wait(&runtime, connecting)?
                    .map_err(|error| unreachable.by(error))?;
                shake_hands(stream, &runtime, patience)
            }
        }?;
        Ok(Self {
            sender: sender.map_err(|error| unreachable.by(error))?,
            socket,
            runtime,
        })
    }

    /// False when the server ended the connection, or says something that nobody asked for.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.socket.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

/// Connects to the first address that answers.
fn connect(
    addresses: impl Iterator<Item = SocketAddr>,
    runtime: &Runtime,
    patience: &Patience<'_>,
) -> Result<io::Result<TcpStream>, Failure> {
    let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in addresses {
        match patience.wait(runtime, TcpStream::connect(address))? {
            Ok(stream) => return Ok(stream.set_nodelay(true).map(|()| stream)),
            Err(error) => last = error,
        }
    }
    Ok(Err(last))
}

/// Another handle of a socket; it does not wait either.
fn duplicate(stream: &TcpStream) -> io::Result<Socket> {
    use std::os::fd::AsFd;
    Ok(Socket::from(stream.as_fd().try_clone_to_owned()?))
}

/// Begins HTTP on a stream.
fn shake_hands(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    runtime: &Runtime,
    patience: &Patience<'_>,
) -> Result<hyper::Result<SendRequest<Outgoing>>, Failure> {
    let stream = TokioIo::new(stream);
    let begun = patience.wait(runtime, begin(stream))?;
    Ok(begun.map(|(sender, driving)| {
        // What goes wrong there is told to whoever waits for the answer.
        drop(runtime.spawn(async { driving.await.unwrap_or_default() }));
        sender
    }))
}

type Driving<S> = http1::Connection<S, Outgoing>;

async fn begin<S>(stream: S) -> hyper::Result<(SendRequest<Outgoing>, Driving<S>)>
where
    S: Read + Write + Unpin + Send + 'static,
{
    http1::Builder::new().handshake(stream).await
}
