// SPDX-License-Identifier: Apache-2.0
//! The log levels of the program, cached.
//!
//! Reading them needs the interpreter lock, for which an emitting thread must not wait. So the levels are cached for
//! `LEVELS_FRESH_MS`. After that, an event that may be enabled goes to the reader, which reads the levels again.

use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_model::Ticks;
use tracing::Level;

use super::events::TARGETS;

/// Milliseconds for which cached levels are valid.
pub(crate) const LEVELS_FRESH_MS: u64 = 100;

/// For each target, the most detailed enabled level in the low byte, and above it the time until which it is valid.
#[derive(Debug)]
pub struct Levels([AtomicU64; TARGETS.len()]);

/// All levels, the most severe first.
const LEVELS: [Level; 5] = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];

fn rank(level: Level) -> u64 {
    let position = LEVELS.iter().position(|its| *its == level);
    1 + position.map_or(0, |position| position as u64)
}

impl Default for Levels {
    /// `WARN` for all targets, already outdated.
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(rank(Level::WARN))))
    }
}

impl Levels {
    /// Sets the level of a target. `None` disables the target.
    pub fn set(&self, target: &str, level: Option<Level>, now: Ticks) {
        if let Some(slot) = self.slot(target) {
            let until = now.plus_ms(LEVELS_FRESH_MS).0;
            slot.store(until << 8 | level.map_or(0, rank), Ordering::Relaxed);
        }
    }

    /// True if all cached levels are still valid.
    pub fn are_fresh(&self, now: Ticks) -> bool {
        self.0.iter().all(|slot| now.0 < slot.load(Ordering::Relaxed) >> 8)
    }

    /// Returns true if the level is enabled, and `None` if it was not and the cache is outdated.
    pub(crate) fn is_enabled(&self, target: &str, level: Level, now: Ticks) -> Option<bool> {
        let slot = self.slot(target)?.load(Ordering::Relaxed);
        if rank(level) <= slot & 0xff {
            Some(true)
        } else if now.0 < slot >> 8 {
            Some(false)
        } else {
            None
        }
    }

    fn slot(&self, target: &str) -> Option<&AtomicU64> {
        let position = TARGETS.iter().position(|its| *its == target)?;
        self.0.get(position)
    }
}

#[cfg(test)]
mod tests {
    use oxbus_model::Ticks;
    use tracing::Level;

    use super::{LEVELS_FRESH_MS, Levels};

    #[test]
    fn warnings_are_enabled_by_default() {
        let levels = Levels::default();
        assert_eq!(levels.is_enabled("oxbus::store", Level::WARN, Ticks(1)), Some(true));
        assert_eq!(levels.is_enabled("oxbus::store", Level::INFO, Ticks(1)), None);
    }

    #[test]
    fn levels_are_valid_for_a_moment() {
        let levels = Levels::default();
        levels.set("oxbus::store", Some(Level::ERROR), Ticks(1_000));
        levels.set("oxbus::broker", None, Ticks(1_000));
        let is_enabled = |target, level, at| levels.is_enabled(target, level, Ticks(at));
        assert_eq!(is_enabled("oxbus::store", Level::ERROR, 1_000), Some(true));
        assert_eq!(is_enabled("oxbus::store", Level::WARN, 1_000), Some(false));
        assert_eq!(is_enabled("oxbus::store", Level::WARN, 1_000 + LEVELS_FRESH_MS), None);
        assert_eq!(is_enabled("oxbus::broker", Level::ERROR, 1_000), Some(false));
        assert!(!levels.are_fresh(Ticks(1_000)), "not all were set");
    }
}
