// SPDX-License-Identifier: Apache-2.0
//! What a shard writes to its journal and what it makes of it at the next open.
//!
//! `event` is what happened, as bytes, and `decode` reads them; `image` is the messages that come of it. Neither knows a clock, a setting or a
//! store, so recovery, snapshots and tests share them. `writer` puts events into the log of the shard.

mod changed;
mod chunks;
mod consumer;
mod decode;
mod event;
mod fold;
#[cfg(test)]
mod golden;
mod image;
mod intent;
mod numbered;
mod packed;
mod ranges;
#[cfg(test)]
mod tests;
mod writer;

pub use changed::Changed;
pub use consumer::{ConsumerRecord, ReservationRecord};
pub use decode::{Events, NotAnEvent};
pub use event::{Appended, EntityId, Event, FannedOut, HandedOut, Origin, Rest, SEEN_MAX, push_append};
pub use fold::fold;
pub use image::{Image, Kept, Misfit, Queues};
pub use intent::{Intent, Target, push_intent};
pub use numbered::Numbered;
pub use packed::Packed;
pub use ranges::Ranges;
pub use writer::{Grown, Journal, Order, Pending};
