// SPDX-License-Identifier: Apache-2.0
//! Names of what a connection holds. Never used again: a command with an old one does nothing.

/// A session of this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId {
    pub(super) channel: u16,
    pub(super) generation: u32,
}

/// A link of this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId {
    pub(super) session: SessionId,
    pub(super) handle: u32,
    pub(super) generation: u32,
}

impl LinkId {
    /// The session it belongs to.
    pub fn session(self) -> SessionId {
        self.session
    }
}

/// A message on its way to the client, until it is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId {
    pub(super) session: SessionId,
    /// The number on the wire is the lower half.
    pub(super) number: u64,
}

/// A message from the client that waits for its answer; there is one answer to each.
#[must_use = "the client waits for an answer"]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct IncomingId {
    pub(super) link: LinkId,
    pub(super) number: u32,
}

impl IncomingId {
    /// The link it came over.
    pub fn link(&self) -> LinkId {
        self.link
    }
}
