// SPDX-License-Identifier: Apache-2.0
//! Ids of sessions, links and deliveries. Ids are never reused, so a command with an old id does nothing.

/// A session of this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId {
    pub(crate) channel: u16,
    pub(crate) generation: u32,
}

/// A link of this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId {
    pub(crate) session: SessionId,
    pub(crate) handle: u32,
    pub(crate) generation: u32,
}

impl LinkId {
    /// The session of the link.
    pub fn session(self) -> SessionId {
        self.session
    }
}

/// An unsettled message to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId {
    pub(crate) session: SessionId,
    /// The delivery-id on the wire is the lower half.
    pub(crate) number: u64,
}

/// A message from the client without an answer. Not `Clone`, because each message has one answer.
#[must_use = "the client waits for an answer"]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct IncomingId {
    pub(crate) link: LinkId,
    pub(crate) number: u32,
}

impl IncomingId {
    /// The link on which it arrived.
    pub fn link(&self) -> LinkId {
        self.link
    }

    /// Its number on the link.
    pub fn number(&self) -> u32 {
        self.number
    }
}
