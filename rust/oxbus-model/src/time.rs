// SPDX-License-Identifier: Apache-2.0
//! Two clocks, both in milliseconds, both brought by the caller.
//!
//! Wall time stamps messages (enqueued, expiry, schedule); ticks measure locks, so that a wall clock
//! that jumps neither doubles a lock nor resurrects one.

/// Wall time: milliseconds since 1970-01-01T00:00:00Z. Fits 48 bits until the year 10889.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

/// Monotonic time: milliseconds since an origin that only the clock knows. Never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticks(pub u64);

impl Timestamp {
    /// Later than every message: "never expires", "nothing due".
    pub const NEVER: Self = Self((1 << 48) - 1);

    /// This time plus `ms` milliseconds, held at [`Timestamp::NEVER`].
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms).min(Self::NEVER.0))
    }
}

impl Ticks {
    /// Later than every lock. A lock until then is no delivery: its holder moves or removes the message.
    pub const NEVER: Self = Self(u64::MAX);
    /// The deadline of a delivery under another lock, that of a session or a reservation.
    pub const OPEN_END: Self = Self(u64::MAX - 1);

    /// This time plus `ms` milliseconds.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

/// One reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Wall time.
    pub now: Timestamp,
    /// Monotonic time.
    pub ticks: Ticks,
}

/// Where time comes from. The broker never reads another clock.
pub trait Clock: Send + Sync {
    /// Wall time now.
    fn now(&self) -> Timestamp;
    /// Monotonic time now.
    fn ticks(&self) -> Ticks;
    /// Both of the same moment.
    fn moment(&self) -> Moment;
    /// How far [`Clock::moment`] and [`Clock::ticks`] may be behind [`Clock::now`], in milliseconds. A lock is given so
    /// much longer, so that it ends a whole duration after it was taken, or later.
    fn lag_ms(&self) -> u64 {
        0
    }
    /// True when real time and this clock's time pass at the same rate, so that a sleep may be
    /// bounded by the time of the next deadline. False for a clock that is moved by hand.
    fn is_real_time(&self) -> bool {
        true
    }
}
