// SPDX-License-Identifier: Apache-2.0
//! How to serve, and what is refused at once.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;

use oxbus_model::message::NewId;
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
        let listener = Wanted::new(&self.host, self.port)?;
        if self.key.is_none() && !listener.is_loopback() {
            let detail = format!(
                "a server that others can reach needs a key; pass key=..., or listen on 127.0.0.1: {}",
                listener.place()
            );
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        listener.bind()
    }
}

/// A place to listen at, looked up and not yet bound.
pub(crate) struct Wanted<'a> {
    host: &'a str,
    port: u16,
    addresses: Vec<SocketAddr>,
}

impl<'a> Wanted<'a> {
    pub(crate) fn new(host: &'a str, port: u16) -> Result<Self> {
        let mut wanted = Self {
            host,
            port,
            addresses: Vec::new(),
        };
        let found = (host, port).to_socket_addrs().map_err(|error| wanted.cannot(error))?;
        wanted.addresses = found.collect();
        Ok(wanted)
    }

    /// True when only programs of this machine reach it.
    pub(crate) fn is_loopback(&self) -> bool {
        self.addresses.iter().all(|address| address.ip().is_loopback())
    }

    /// How a refusal names it.
    pub(crate) fn place(&self) -> String {
        format!("host=`{}` port={}", self.host, self.port)
    }

    pub(crate) fn bind(&self) -> Result<TcpListener> {
        let listener = TcpListener::bind(&self.addresses[..]).map_err(|error| self.cannot(error))?;
        listener.set_nonblocking(true).map_err(|error| self.cannot(error))?;
        Ok(listener)
    }

    fn cannot(&self, error: std::io::Error) -> Error {
        let detail = format!(
            "the server cannot listen there; choose another host or port: {}: {error}",
            self.place()
        );
        Error::new(ErrorKind::Storage, detail).with_source(error)
    }
}

/// Host and port as they stand in a link.
pub(crate) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
