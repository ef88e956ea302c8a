// SPDX-License-Identifier: Apache-2.0
//! Which levels the program wants, as it said when it was last asked.
//!
//! Asking takes the interpreter, which an emitting thread must not wait for. So the answer is kept, for a moment: an
//! event that comes later goes to the reader in any case, and the reader asks again.

use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_model::Ticks;
use tracing::Level;

use super::events::TARGETS;

/// For how long an answer holds.
pub(crate) const LEVELS_FRESH_MS: u64 = 100;

/// For each target the most detailed level that is wanted, in the low byte, and until when that holds, above it.
#[derive(Debug)]
pub struct Levels([AtomicU64; TARGETS.len()]);

/// From the gravest one.
const LEVELS: [Level; 5] = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];

fn rank(level: Level) -> u64 {
    let position = LEVELS.iter().position(|its| *its == level);
    1 + position.map_or(0, |position| position as u64)
}

impl Default for Levels {
    /// The levels until the program is asked for its own.
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(rank(Level::WARN))))
    }
}

impl Levels {
    /// Notes what a target wants; `None` is nothing at all.
    pub fn set(&self, target: &str, level: Option<Level>, now: Ticks) {
        if let Some(slot) = self.slot(target) {
            let until = now.plus_ms(LEVELS_FRESH_MS).0;
            slot.store(until << 8 | level.map_or(0, rank), Ordering::Relaxed);
        }
    }

    /// True when the answers need not be asked for again yet.
    pub fn are_fresh(&self, now: Ticks) -> bool {
        self.0.iter().all(|slot| now.0 < slot.load(Ordering::Relaxed) >> 8)
    }

    /// True when a line is wanted; `None` when it was not, but the answer is old.
    pub(crate) fn wants(&self, target: &str, level: Level, now: Ticks) -> Option<bool> {
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
    fn a_program_that_says_nothing_wants_warnings() {
        let levels = Levels::default();
        assert_eq!(levels.wants("oxbus::store", Level::WARN, Ticks(1)), Some(true));
        assert_eq!(levels.wants("oxbus::store", Level::INFO, Ticks(1)), None);
    }

    #[test]
    fn an_answer_holds_for_a_moment() {
        let levels = Levels::default();
        levels.set("oxbus::store", Some(Level::ERROR), Ticks(1_000));
        levels.set("oxbus::broker", None, Ticks(1_000));
        let wants = |target, level, at| levels.wants(target, level, Ticks(at));
        assert_eq!(wants("oxbus::store", Level::ERROR, 1_000), Some(true));
        assert_eq!(wants("oxbus::store", Level::WARN, 1_000), Some(false));
        assert_eq!(wants("oxbus::store", Level::WARN, 1_000 + LEVELS_FRESH_MS), None);
        assert_eq!(wants("oxbus::broker", Level::ERROR, 1_000), Some(false));
        assert!(!levels.are_fresh(Ticks(1_000)), "not all were asked for");
    }
}
