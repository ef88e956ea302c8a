// SPDX-License-Identifier: Apache-2.0
//! The client of a connection, as its calls on messages see it.

use super::receiver_pool::ReceiverPool;
use crate::front::{Context, PeerInfo};

/// Where the calls of a client go, and what is kept for it between them.
pub(in crate::http) struct ConnectionContext {
    pub(in crate::http) server: Context,
    pub(in crate::http) peer: PeerInfo,
    /// Receivers with their caches: what one request locked beyond its message, the next one gets (B-130).
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

    /// Ends what is kept.
    pub(in crate::http) fn close(&self) {
        self.receivers.close();
    }
}
