// SPDX-License-Identifier: Apache-2.0
//! When the next object is written, and when a creation that hangs is sent once more.
//!
//! With several objects on their way at once, writing each change at once would make many small objects. The starts
//! are spread over the time that a creation usually takes. A bound on creations per second limits the bill.

use std::collections::VecDeque;
use std::time::Duration;

/// Objects on their way at once.
pub(super) const DEPTH: usize = 4;
/// Changes that nobody waits for are written after this time.
pub(super) const LINGER_MS: u64 = 100;
/// Times of creations that are remembered.
const TIMES: usize = 64;
/// A creation is not sent again before this time.
const HEDGE_AFTER_MIN: Duration = Duration::from_millis(50);
/// The same, while too few times are known.
const HEDGE_AFTER_FIRST: Duration = Duration::from_secs(1);
/// Creations that may follow each other at once under a bound.
const BURST: f64 = 4.0;

/// The times of the last creations, and what the bound still allows.
#[derive(Debug)]
pub(super) struct Pace {
    times: VecDeque<Duration>,
    last_start_ms: Option<u64>,
    per_second_max: Option<f64>,
    allowed: f64,
    counted_at_ms: u64,
}

/// What waits to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// When its first change came.
    pub(super) since_ms: u64,
    /// True if a call waits for it.
    pub(super) is_wanted: bool,
    /// True if it has enough bytes for an object.
    pub(super) is_large: bool,
    /// Objects on their way.
    pub(super) on_the_way: usize,
}

impl Pace {
    /// A pace with a bound on creations per second, if there is one.
    pub(super) fn new(per_second_max: Option<f64>, now_ms: u64) -> Self {
        Self {
            times: VecDeque::new(),
            last_start_ms: None,
            per_second_max,
            allowed: BURST,
            counted_at_ms: now_ms,
        }
    }

    /// A time that this share of the last creations did not exceed.
    fn quantile(&self, share: f64) -> Option<Duration> {
        let mut sorted: Vec<Duration> = self.times.iter().copied().collect();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        Some(sorted[(last as f64 * share) as usize])
    }

    /// A creation took this long.
    pub(super) fn took(&mut self, time: Duration) {
        if self.times.len() == TIMES {
            self.times.pop_front();
        }
        self.times.push_back(time);
    }

    /// After which time a creation is sent once more.
    pub(super) fn hedge_after(&self) -> Duration {
        if self.times.len() < TIMES / 4 {
            return HEDGE_AFTER_FIRST;
        }
        let usual = self.quantile(0.95).unwrap_or(HEDGE_AFTER_FIRST);
        usual.max(HEDGE_AFTER_MIN)
    }

    /// The moment from which on the object that waits may be written.
    pub(super) fn start_at(&mut self, waiting: Waiting, now_ms: u64) -> u64 {
        let due = if waiting.is_large {
            now_ms
        } else if !waiting.is_wanted {
            waiting.since_ms + LINGER_MS
        } else if waiting.on_the_way == 0 {
            now_ms
        } else {
            let spread = self.quantile(0.5).unwrap_or_default() / DEPTH as u32;
            self.last_start_ms.unwrap_or_default() + spread.as_millis() as u64
        };
        due.max(self.allowed_at(now_ms))
    }

    fn allowed_at(&mut self, now_ms: u64) -> u64 {
        let Some(rate) = self.per_second_max else { return now_ms };
        let passed = now_ms.saturating_sub(self.counted_at_ms) as f64 / 1e3;
        self.allowed = (self.allowed + passed * rate).min(BURST);
        self.counted_at_ms = now_ms;
        let missing = (1.0 - self.allowed).max(0.0);
        now_ms + (missing / rate * 1e3).ceil() as u64
    }

    /// The creation of an object starts.
    pub(super) fn started(&mut self, now_ms: u64) {
        self.last_start_ms = Some(now_ms);
        if self.per_second_max.is_some() {
            self.allowed -= 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Waiting = Waiting {
        since_ms: 1_000,
        is_wanted: true,
        is_large: false,
        on_the_way: 0,
    };

    #[test]
    fn starts_are_spread_over_the_time_of_a_creation() {
        let mut pace = Pace::new(None, 1_000);
        assert_eq!(pace.start_at(WANTED, 1_000), 1_000);
        pace.started(1_000);
        pace.took(Duration::from_millis(40));
        let second = Waiting {
            on_the_way: 1,
            ..WANTED
        };
        assert_eq!(pace.start_at(second, 1_002), 1_010);
        let large = Waiting {
            is_large: true,
            ..second
        };
        assert_eq!(pace.start_at(large, 1_002), 1_002);
        let unwanted = Waiting {
            is_wanted: false,
            ..WANTED
        };
        assert_eq!(pace.start_at(unwanted, 1_002), 1_100);
    }

    #[test]
    fn a_bound_limits_the_starts() {
        let mut pace = Pace::new(Some(10.0), 0);
        let mut now = 0;
        let mut starts = 0;
        while now < 10_000 {
            now = pace
                .start_at(
                    Waiting {
                        since_ms: now,
                        ..WANTED
                    },
                    now,
                )
                .max(now);
            pace.started(now);
            starts += 1;
        }
        assert!((100..=106).contains(&starts), "{starts} starts in ten seconds");
    }
}
