// SPDX-License-Identifier: Apache-2.0
//! Log events for operators, passed from any thread to the logging of the program.
//!
//! ```text
//! event!(PARTITION_FAULT, …)       in any crate, on cold paths only; one load and a branch if the level is off
//!   └─ tracing ─► LogSubscriber    checks `levels`, puts fields into a `Line`
//!        └─ LineBuffer             counts repeated lines; bounded; emitting never blocks
//!             └─ reader thread     passes lines to the logging of the program; may block
//! ```
//!
//! Invariants
//! - emitting takes one leaf mutex, so it is allowed under any other lock;
//! - an event has one name, one target and one level, defined in `events`;
//! - no field contains a body, a property, a session id, a partition key, a key or a token.
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

/// Emits an event of [`events`] with fields in the syntax of `tracing`: `event!(PARTITION_FAULT, partition = 2, cause
/// = %error)`.
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

/// True if events are enabled at all. It costs one load. For callers that do work before they know whether there is an
/// event.
#[inline]
pub fn is_on() -> bool {
    tracing::level_filters::LevelFilter::current() != tracing::level_filters::LevelFilter::OFF
}

/// True if an event may be enabled. For callers that do work to compute its fields.
#[macro_export]
macro_rules! enabled {
    ($event:ident) => {
        $crate::tracing::enabled!(
            target: $crate::events::$event.target,
            $crate::events::$event.level
        )
    };
}
