// SPDX-License-Identifier: Apache-2.0
//! How to serve, and what is refused at once.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;

use oxbus_arrow::NewId;
use oxbus_model::{Error, ErrorKind, Result};
use oxbus_wire::Key;

use crate::limits::Limits;

/// The files that a server needs for https, in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Its certificate, then those of its issuers.
    pub certificate: PathBuf,
    /// Its private key.
    pub private_key: PathBuf,
}

/// How to serve.
pub struct ServerOptions {
    /// The name or address to listen on.
    pub host: String,
    /// The port; 0 for one that is free.
    pub port: u16,
    /// What clients have to know; `None` on loopback only.
    pub key: Option<Key>,
    /// Certificate and private key; `None` without encryption.
    pub tls: Option<TlsFiles>,
    /// Makes the ids of messages that come without one.
    pub new_id: NewId,
    /// What clients may cost.
    pub limits: Limits,
}

impl ServerOptions {
    /// A listener, unless everybody on the network could use it.
    pub(crate) fn listen(&self) -> Result<TcpListener> {
        let place = format!("host=`{}` port={}", self.host, self.port);
        let cannot = |error: std::io::Error| {
            let detail = format!("the server cannot listen there; choose another host or port: {place}: {error}");
            Error::new(ErrorKind::Storage, detail)
        };
        let addresses: Vec<SocketAddr> = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(cannot)?
            .collect();
        if self.key.is_none() && !addresses.iter().all(|address| address.ip().is_loopback()) {
            let detail =
                format!("a server that others can reach needs a key; pass key=..., or listen on 127.0.0.1: {place}");
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        let listener = TcpListener::bind(&addresses[..]).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        Ok(listener)
    }
}
