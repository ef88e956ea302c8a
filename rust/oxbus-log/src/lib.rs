// SPDX-License-Identifier: Apache-2.0
//! Log events for operators, from their source to the line in the log.
//!
//! ```text
//! event!(PARTITION_FAULT, …)       in any crate, on a cold path only; with the level off one load and a branch
//!   └─ tracing ─► LogSubscriber    asks `levels`, puts fields into a `Line`
//!        └─ LineBuffer             counts lines that repeat; bounded; emitting never waits and never calls out
//!             └─ a reader          one thread that may wait: it hands lines to the logging of the program
//! ```
//!
//! Invariants
//! - emitting takes one mutex for one step and calls nothing, so it may be done under any other lock;
//! - an event has one name, one target and one level, and they stand in `events`;
//! - no field holds a body, a property, a session id, a partition key, a key or a token.
//!
//! Source: docs/logging.md.

mod buffer;
pub mod events;
mod levels;
mod limiter;
mod line;
mod subscriber;

pub use buffer::LineBuffer;
pub use events::{LogEvent, TARGETS};
pub use levels::Levels;
pub use line::Line;
pub use subscriber::{LogSubscriber, StartReader};
pub use tracing::field::display;

#[doc(hidden)]
pub use tracing;

/// Emits an event of [`events`] with fields as `tracing` has them: `event!(PARTITION_FAULT, partition = 2, cause =
/// %error)`.
#[macro_export]
macro_rules! event {
    ($event:ident, $($fields:tt)+) => {
        $crate::tracing::event!(
            name: $crate::events::$event.name,
            target: $crate::events::$event.target,
            $crate::events::$event.level,
            $($fields)+
        )
    };
}

/// True when a subscriber takes events: one load. For callers whose event needs work before it is emitted.
#[inline]
pub fn is_on() -> bool {
    tracing::level_filters::LevelFilter::current() != tracing::level_filters::LevelFilter::OFF
}

/// True when an event may be wanted: for a caller that has to work for its fields.
#[macro_export]
macro_rules! enabled {
    ($event:ident) => {
        $crate::tracing::enabled!(
            target: $crate::events::$event.target,
            $crate::events::$event.level
        )
    };
}
