// SPDX-License-Identifier: Apache-2.0
//! What a shard writes to its journal and what it makes of it at the next open.
//!
//! `event` is what happened, as bytes, and `decode` reads them; `image` is the messages that come of it. Neither knows a clock, a setting or a
//! store, so recovery, snapshots and tests share them. `writer` puts events into the log of the shard.

mod chunks;
mod consumer;
mod counter_map;
mod decode;
mod encode;
mod event;
mod fold;
#[cfg(test)]
mod golden;
mod intent;
mod packed;
mod ranges;
mod record_change;
mod shard_state;
#[cfg(test)]
mod tests;
mod writer;

pub use consumer::{ConsumerRecord, ReservationRecord};
pub use counter_map::CounterMap;
pub use decode::{EventReader, MalformedEntry};
pub use encode::push_append;
pub use event::{AppendedMessage, DeliveryRecord, EntityId, FanOutCopy, JournalEvent, Origin, SEEN_MAX, StoredPhase};
pub use fold::fold;
pub use intent::{Intent, IntentTarget, push_intent};
pub use packed::PackedEvents;
pub use ranges::Ranges;
pub use record_change::RecordChange;
pub use shard_state::{EntityState, InvalidEvent, MessageState, ShardState};
pub use writer::{AppendGuard, GrowthCallback, Journal, PendingEntry};
