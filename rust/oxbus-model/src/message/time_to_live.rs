// SPDX-License-Identifier: Apache-2.0
//! The time to live that clients see.

use super::Fields;
use crate::Timestamp;

impl Fields<'_> {
    /// Milliseconds from the time at which the message became receivable: the message's own time to live, or that of its
    /// entity if it is shorter (B-247).
    ///
    /// A message that does not expire, such as a dead letter, shows the sender's value.
    pub fn effective_time_to_live_ms(&self, enqueued_at: Timestamp, expires_at: Timestamp) -> Option<u64> {
        if expires_at == Timestamp::NEVER {
            return self.time_to_live_ms;
        }
        let from = self
            .scheduled_enqueue_time
            .map_or(enqueued_at, |due| due.max(enqueued_at));
        Some(expires_at.0.saturating_sub(from.0))
    }
}
