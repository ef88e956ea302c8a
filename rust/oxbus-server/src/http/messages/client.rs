// SPDX-License-Identifier: Apache-2.0
//! The client of a connection, as its calls on messages see it.

use super::kept::Kept;
use crate::front::{Context, Peer};

/// Where the calls of a client go, and what is kept for it between them.
pub(in crate::http) struct Client {
    pub(in crate::http) context: Context,
    pub(in crate::http) peer: Peer,
    /// Receivers with their caches: what one request locked beyond its message, the next one gets (B-130).
    pub(super) kept: Kept,
}

impl Client {
    pub(in crate::http) fn new(context: Context, peer: Peer) -> Self {
        Self {
            context,
            peer,
            kept: Kept::default(),
        }
    }

    /// Ends what is kept.
    pub(in crate::http) fn close(&self) {
        self.kept.close();
    }
}
