// SPDX-License-Identifier: Apache-2.0
//! The journal of a shard: its events, and the state that the next open rebuilds from them.
//!
//! `encode` and `decode` convert `event`s to bytes and back; `shard_state` applies them. They use no clock, setting or
//! store, so recovery, snapshots and tests share them. `writer` appends events to the log of the shard.

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
mod message_state;
mod packed;
mod ranges;
mod record_change;
#[cfg(test)]
mod round_trips;
mod shard_state;
#[cfg(test)]
mod tests;
mod writer;

pub use consumer::{ConsumerRecord, ReservationRecord};
pub use counter_map::CounterMap;
pub use decode::{EventReader, MalformedEntry};
pub use encode::push_append;
pub use event::{
    AppendedMessage, DeliveryRecord, EntityId, FanOutCopy, JournalEvent, KeptRecord, Origin, SEEN_MAX, StoredPhase,
};
pub use fold::fold;
pub use intent::{Intent, IntentTarget, push_intent};
pub use message_state::MessageState;
pub use packed::PackedEvents;
pub use ranges::Ranges;
pub use record_change::RecordChange;
pub use shard_state::{EntityState, InvalidEvent, ShardState};
pub use writer::{AppendGuard, GrowthCallback, Journal, PendingEntry};
