// SPDX-License-Identifier: Apache-2.0
//! Addresses to listen on.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use oxbus_model::{Error, ErrorKind, Result};

/// An address to listen on, resolved but not bound yet.
pub(super) struct ListenAddress<'a> {
    host: &'a str,
    port: u16,
    addresses: Vec<SocketAddr>,
}

impl<'a> ListenAddress<'a> {
    pub(super) fn new(host: &'a str, port: u16) -> Result<Self> {
        let mut listen_address = Self {
            host,
            port,
            addresses: Vec::new(),
        };
        let found = (host, port)
            .to_socket_addrs()
            .map_err(|error| listen_address.bind_error(error))?;
        listen_address.addresses = found.collect();
        Ok(listen_address)
    }

    /// True if only local programs can reach it.
    pub(super) fn is_loopback(&self) -> bool {
        self.addresses.iter().all(|address| address.ip().is_loopback())
    }

    fn describe(&self) -> String {
        format!("host=`{}` port={}", self.host, self.port)
    }

    pub(super) fn bind(&self) -> Result<TcpListener> {
        let listener = TcpListener::bind(&self.addresses[..]).map_err(|error| self.bind_error(error))?;
        listener.set_nonblocking(true).map_err(|error| self.bind_error(error))?;
        Ok(listener)
    }

    fn bind_error(&self, error: std::io::Error) -> Error {
        let detail = format!(
            "the server cannot listen on this address; choose another host or port: {}: {error}",
            self.describe()
        );
        Error::new(ErrorKind::Storage, detail).with_source(error)
    }
}

/// Host and port as in a URL. An IPv6 address gets brackets.
pub(super) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
