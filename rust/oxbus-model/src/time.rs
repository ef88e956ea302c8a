// SPDX-License-Identifier: Apache-2.0
//! Two clocks, both in milliseconds, passed in by the caller.
//!
//! Wall-clock time stamps messages (enqueue, expiry, schedule). Monotonic ticks measure locks, so that a jump of the
//! wall clock neither extends nor revives a lock.

/// Wall-clock time: milliseconds since 1970-01-01T00:00:00Z. Fits 48 bits until the year 10889.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

/// Monotonic time: milliseconds since an origin that only the clock knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticks(pub u64);

impl Timestamp {
    /// Later than any other time: "never expires", "nothing due".
    pub const NEVER: Self = Self((1 << 48) - 1);

    /// This time plus `ms` milliseconds, at most [`Timestamp::NEVER`].
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms).min(Self::NEVER.0))
    }
}

impl Ticks {
    /// Later than the end of any lock. A lock until then is internal: its owner moves or removes the message.
    pub const NEVER: Self = Self(u64::MAX);
    /// The end of a lock that does not expire by itself, because another lock covers it: of a session or a write.
    pub const OPEN_END: Self = Self(u64::MAX - 1);

    /// This time plus `ms` milliseconds.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

/// A simultaneous reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Wall-clock time.
    pub now: Timestamp,
    /// Monotonic time.
    pub ticks: Ticks,
}

/// The source of time. The broker reads no other clock.
pub trait Clock: Send + Sync {
    /// Current wall-clock time.
    fn now(&self) -> Timestamp;
    /// Current monotonic time.
    fn ticks(&self) -> Ticks;
    /// Both times at once.
    fn moment(&self) -> Moment;
    /// How far [`Clock::moment`] and [`Clock::ticks`] may be behind [`Clock::now`], in milliseconds. Locks last that
    /// much longer, so that none ends before its duration.
    fn lag_ms(&self) -> u64 {
        0
    }
    /// True if this clock advances with real time, so that a thread may sleep until the next deadline. False for a
    /// manual clock.
    fn is_real_time(&self) -> bool {
        true
    }
}
