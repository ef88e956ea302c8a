// SPDX-License-Identifier: Apache-2.0
//! The other end of a connection.

use tokio::io::{AsyncRead, AsyncWrite};

/// How the other end is connected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    /// TLS is around what it says.
    pub(crate) is_encrypted: bool,
}

/// A stream of a connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}
