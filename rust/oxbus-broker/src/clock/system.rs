// SPDX-License-Identifier: Apache-2.0
//! The system's clocks. No other file reads real time.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the replacement that clippy.toml names"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use oxbus_model::{Clock, Error, ErrorKind, Moment, Result, SharedError, Ticks, Timestamp};
use oxbus_store::Wait;
use oxbus_system::{clock_lag_ms, tick_ms, tick_wall_ms, wall_ms};

/// The system's clocks.
///
/// Every receive and every settlement reads the clock, and an exact reading costs as much as moving a message. So
/// locks, expiry and schedules use the time of the kernel's last tick, which is up to 4 ms old (10 ms on a kernel with
/// 100 ticks per second). Both clocks of a [`Moment`] come from the same tick, so a lock holds until the time it names.
/// [`Clock::now`], which stamps messages, is exact.
#[derive(Debug)]
pub struct SystemClock {
    lag_ms: u64,
}

impl SystemClock {
    /// Reads the resolution of the ticks.
    pub fn new() -> Self {
        Self { lag_ms: clock_lag_ms() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

/// Ticks start well above zero, so that a deadline in the past is not negative.
const TICKS_AT_BOOT: u64 = 1 << 32;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(wall_ms())
    }

    fn ticks(&self) -> Ticks {
        Ticks(TICKS_AT_BOOT + tick_ms())
    }

    fn moment(&self) -> Moment {
        // Wall time first: if the kernel ticks in between, a lock ends after the time it names, never before.
        let now = Timestamp(tick_wall_ms());
        let ticks = self.ticks();
        Moment { now, ticks }
    }

    fn lag_ms(&self) -> u64 {
        self.lag_ms
    }
}

/// The end of a wait, in real time. A manual clock moves locks and expiry, but not deadlines.
#[derive(Debug, Clone, Copy)]
pub enum Deadline {
    /// Wait without limit.
    Never,
    /// Wait until this instant.
    At(Instant),
}

impl Deadline {
    /// A deadline `wait` from now; `None` has no limit.
    pub fn after(wait: Option<Duration>) -> Self {
        wait.and_then(|wait| Instant::now().checked_add(wait))
            .map_or(Self::Never, Self::At)
    }

    /// Time until the deadline, zero once it has passed; `None` without a limit.
    pub fn remaining(self) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::At(at) => Some(at.saturating_duration_since(Instant::now())),
        }
    }

    /// True once the deadline has passed.
    pub fn is_over(self) -> bool {
        self.remaining() == Some(Duration::ZERO)
    }
}

/// Measures a duration with the resolution of the kernel's ticks.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(u64);

impl Stopwatch {
    /// Starts now.
    #[inline]
    pub fn start() -> Self {
        Self(tick_ms())
    }

    /// Milliseconds since the start.
    #[inline]
    pub fn ms(self) -> u64 {
        tick_ms().saturating_sub(self.0)
    }
}

/// Runs `work` with a wait that ends with `wait`, and after `ms` milliseconds of real time at the latest.
pub fn with_timeout<R>(ms: u64, wait: &Wait<'_>, work: impl FnOnce(&Wait<'_>) -> R) -> R {
    let deadline = Deadline::after(Some(Duration::from_millis(ms)));
    work(&wait.or_until(&|| deadline.is_over()))
}

/// Random bytes of the operating system, for secrets and unique prefixes.
pub fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        let detail = format!("the operating system returned no random bytes; try again: {error}");
        let source = error.raw_os_error().map(std::io::Error::from_raw_os_error);
        Error::new(ErrorKind::ServerBusy, detail).with_shared_source(source.map(|it| Arc::new(it) as SharedError))
    })?;
    Ok(bytes)
}
