// SPDX-License-Identifier: Apache-2.0
//! How long a message lives, as clients are told.

use oxbus_model::Timestamp;
use oxbus_model::message::Fields;

/// Milliseconds from when it could first be received: its own, or those of its entity where they are fewer (B-247).
///
/// What does not expire, as in a dead-letter queue, shows what its sender said.
pub(crate) fn effective_ms(fields: &Fields<'_>, enqueued_at: Timestamp, expires_at: Timestamp) -> Option<u64> {
    if expires_at == Timestamp::NEVER {
        return fields.time_to_live_ms;
    }
    let from = fields
        .scheduled_enqueue_time
        .map_or(enqueued_at, |due| due.max(enqueued_at));
    Some(expires_at.0.saturating_sub(from.0))
}
