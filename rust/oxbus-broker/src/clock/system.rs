// SPDX-License-Identifier: Apache-2.0
//! Real time. The only file that reads it.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the replacement that clippy.toml names"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use oxbus_model::{Clock, Error, ErrorKind, Moment, Result, Ticks, Timestamp};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The machine's clocks.
///
/// A receive needs both, and reading a clock takes as long as taking a message. So the wall time of the first reading
/// within a tick is kept for the others of that tick: it is at most a tick, a millisecond, old.
#[derive(Debug, Default)]
pub struct SystemClock {
    /// Wall time above the low bits of the tick at which it was read.
    wall: AtomicU64,
    /// The tick of `wall`, written after it. Both name a tick, so that a reading between two writes is found out.
    read_at: AtomicU64,
}

/// Ticks are well above zero, so that a deadline in the past needs no negative number.
const TICKS_AT_BOOT: u64 = 1 << 32;
/// Bits of the tick beside the wall time, which has 48 (see [`Timestamp`]).
const TICK_BITS: u32 = 16;

/// Whole milliseconds of a clock; 0 before its beginning. Read directly: `Instant` and `SystemTime` spend as long on
/// durations as the reading takes.
#[inline]
fn whole_ms(clock: ClockId) -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    u64::try_from(tv_sec).map_or(0, |seconds| seconds * 1_000 + tv_nsec as u64 / 1_000_000)
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(whole_ms(ClockId::Realtime))
    }

    fn ticks(&self) -> Ticks {
        Ticks(TICKS_AT_BOOT + whole_ms(ClockId::Monotonic))
    }

    fn moment(&self) -> Moment {
        let ticks = self.ticks();
        let low = ticks.0 & ((1 << TICK_BITS) - 1);
        if self.read_at.load(Ordering::Acquire) == ticks.0 {
            let wall = self.wall.load(Ordering::Relaxed);
            // Another tick's means that somebody is writing.
            if wall & ((1 << TICK_BITS) - 1) == low {
                return Moment {
                    now: Timestamp(wall >> TICK_BITS),
                    ticks,
                };
            }
        }
        let now = self.now();
        self.wall.store(now.0 << TICK_BITS | low, Ordering::Relaxed);
        self.read_at.store(ticks.0, Ordering::Release);
        Moment { now, ticks }
    }
}

/// A moment of real time up to which a caller is willing to wait. Waiting is always in real time:
/// a clock moved by hand moves locks and expiry, not the patience of a caller.
#[derive(Debug, Clone, Copy)]
pub enum Alarm {
    /// Wait for ever.
    Never,
    /// Wait until then.
    At(Instant),
}

impl Alarm {
    /// The moment `wait` from now; `None` waits for ever, zero does not wait.
    pub fn after(wait: Option<Duration>) -> Self {
        wait.and_then(|wait| Instant::now().checked_add(wait))
            .map_or(Self::Never, Self::At)
    }

    /// What is left; `None` for ever.
    pub fn remaining(self) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::At(at) => Some(at.saturating_duration_since(Instant::now())),
        }
    }
}

/// Bytes of the operating system's randomness, for secrets and for prefixes that must differ.
pub fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::new(
            ErrorKind::ServerBusy,
            format!("the system gave no randomness; try again: {error}"),
        )
    })?;
    Ok(bytes)
}
