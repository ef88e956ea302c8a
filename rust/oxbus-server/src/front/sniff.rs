// SPDX-License-Identifier: Apache-2.0
//! Detects the protocol of a connection from its first bytes.
//!
//! A TLS handshake begins with the record type 22, and AMQP with its name. Anything else is treated as HTTP, whose
//! parser reports errors to the client.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// The first byte of a TLS client: a record of the type "handshake".
const TLS_HANDSHAKE: u8 = 0x16;
const AMQP: &[u8; 4] = b"AMQP";

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Tls,
    Amqp,
    Http,
}

/// The bytes that detection has read, and which of them the protocol has not read yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeekedBytes {
    bytes: [u8; AMQP.len()],
    start: u8,
    end: u8,
}

impl PeekedBytes {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..usize::from(self.end)]
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.start += count as u8;
    }
}

/// Reads as few bytes as necessary. Returns `None` if the connection ends first.
pub(super) async fn sniff(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<(Protocol, PeekedBytes)>> {
    let mut first = PeekedBytes {
        bytes: [0; AMQP.len()],
        start: 0,
        end: 0,
    };
    loop {
        let filled = usize::from(first.end);
        let count = stream.read(&mut first.bytes[filled..]).await?;
        if count == 0 {
            return Ok(None);
        }
        first.end += count as u8;
        let read = first.bytes();
        let protocol = if read[0] == TLS_HANDSHAKE {
            Protocol::Tls
        } else if read == AMQP {
            Protocol::Amqp
        } else if AMQP.starts_with(read) {
            continue;
        } else {
            Protocol::Http
        };
        return Ok(Some((protocol, first)));
    }
}
