// SPDX-License-Identifier: Apache-2.0
//! Messages to the peer: why one is not sent, and the rest of one that is.

use std::fmt;

use bytes::Bytes;

/// The rest of a message that exceeds the session's window.
#[derive(Debug)]
pub(crate) struct TransferRemainder {
    pub(crate) handle: u32,
    pub(crate) rest: Bytes,
}

/// Why a message was not sent. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// The link does not exist, is not attached yet, or is one from the peer.
    LinkNotFound,
    /// The peer has given no credit. Wait for an event `Credit`.
    NoCredit,
    /// The session window is closed, or too many deliveries are unsettled. Wait for an event `Credit` or for
    /// settlements.
    NoWindow,
    /// The output is full. Write it first.
    BackedUp,
    /// The message is larger than the peer's limit, in bytes.
    TooLarge(u64),
}

impl fmt::Display for SendError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::LinkNotFound => "the link is closed",
            Self::NoCredit => "the link has no credit",
            Self::NoWindow => "the session window is closed",
            Self::BackedUp => "the output buffer is full",
            Self::TooLarge(size_max) => return write!(out, "the message is too large: max_message_size=`{size_max}`"),
        })
    }
}

impl std::error::Error for SendError {}
