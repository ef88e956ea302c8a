// SPDX-License-Identifier: Apache-2.0
//! The state of a connection that its message operations share.

use super::receiver_pool::ReceiverPool;
use crate::front::{Context, PeerInfo};

/// The server, the client, and the client's receivers.
pub(in crate::http) struct ConnectionContext {
    pub(in crate::http) server: Context,
    pub(in crate::http) peer: PeerInfo,
    /// Receivers with their caches: a later request gets messages that an earlier one locked in advance (B-130).
    pub(super) receivers: ReceiverPool,
}

impl ConnectionContext {
    pub(in crate::http) fn new(server: Context, peer: PeerInfo) -> Self {
        Self {
            server,
            peer,
            receivers: ReceiverPool::default(),
        }
    }

    /// Drops the receivers.
    pub(in crate::http) fn close(&self) {
        self.receivers.close();
    }
}
