// SPDX-License-Identifier: Apache-2.0
//! The other end of a connection.

use std::net::SocketAddr;

use oxbus_log::event;
use tokio::io::{AsyncRead, AsyncWrite};

/// How the other end is connected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerInfo {
    /// TLS is around what it says.
    pub(crate) is_encrypted: bool,
    /// Its address, as far as this machine knows.
    pub(crate) address: Option<SocketAddr>,
}

impl PeerInfo {
    /// Says in the log that the connection ended before it spoke a protocol, or by an error of its protocol.
    pub(crate) fn log_failed(self, reason: &str) {
        event!(
            CONNECTION_FAILED,
            peer = self.address.map(oxbus_log::display),
            tls = self.is_encrypted,
            reason
        );
    }
}

/// A stream of a connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}
