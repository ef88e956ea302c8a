// SPDX-License-Identifier: Apache-2.0
//! The client side of a connection.

use std::net::SocketAddr;

use oxbus_log::event;
use tokio::io::{AsyncRead, AsyncWrite};

/// How a client is connected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerInfo {
    /// True if the connection uses TLS.
    pub(crate) is_encrypted: bool,
    /// The client's address, if the system knows it.
    pub(crate) address: Option<SocketAddr>,
}

impl PeerInfo {
    /// Logs that the connection ended before it spoke a protocol, or with a protocol error.
    pub(crate) fn log_failed(self, reason: &str) {
        event!(
            CONNECTION_FAILED,
            peer = self.address.map(oxbus_log::display),
            tls = self.is_encrypted,
            reason
        );
    }
}

/// The byte stream of a connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}
