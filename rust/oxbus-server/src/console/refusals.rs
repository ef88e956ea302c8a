// SPDX-License-Identifier: Apache-2.0
//! The refusals of the last hour with their reasons.

use std::collections::VecDeque;
use std::sync::Mutex;

use oxbus_model::Timestamp;
use oxbus_model::sync::ignore_poison;
use serde::Serialize;

/// Different refusals that are kept.
const REFUSALS_MAX: usize = 200;
/// Characters of a reason that are kept: it may contain a name that a client chose.
const CHARS_MAX: usize = 400;
const KEPT_MS: u64 = 3_600_000;

/// Equal refusals.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Refusal {
    pub(crate) what: &'static str,
    pub(crate) reason: String,
    pub(crate) detail: String,
    pub(crate) count: u64,
    pub(crate) first_ms: u64,
    pub(crate) last_ms: u64,
}

/// The latest refusals. A panic leaves them consistent: each is added or counted in one step.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<VecDeque<Refusal>>);

impl Refusals {
    /// Adds a refusal, or counts an equal one again.
    pub(crate) fn add(&self, what: &'static str, reason: &str, detail: &str, now: Timestamp) {
        let detail: String = detail.chars().take(CHARS_MAX).collect();
        let mut known = ignore_poison(self.0.lock());
        known.retain(|it| it.last_ms + KEPT_MS > now.0);
        let equal = known
            .iter()
            .position(|it| it.what == what && it.reason == reason && it.detail == detail);
        let mut refusal = equal.and_then(|at| known.remove(at)).unwrap_or(Refusal {
            what,
            reason: reason.to_owned(),
            detail,
            count: 0,
            first_ms: now.0,
            last_ms: now.0,
        });
        refusal.count += 1;
        refusal.last_ms = now.0;
        if known.len() >= REFUSALS_MAX {
            known.pop_front();
        }
        known.push_back(refusal);
    }

    /// Those of the last hour, the newest first.
    pub(crate) fn list(&self, now: Timestamp) -> Vec<Refusal> {
        let known = ignore_poison(self.0.lock());
        let recent = known.iter().rev().filter(|it| it.last_ms + KEPT_MS > now.0);
        recent.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use oxbus_model::Timestamp;

    use super::{KEPT_MS, REFUSALS_MAX, Refusals};

    #[test]
    fn equal_refusals_are_counted_and_old_ones_are_forgotten() {
        let refusals = Refusals::default();
        for now in 0..3 {
            refusals.add("http", "401", "a token is missing", Timestamp(now));
        }
        refusals.add("link", "amqp:not-found", &"x".repeat(10_000), Timestamp(3));
        let found = refusals.list(Timestamp(4));
        assert_eq!((found[1].count, found[1].first_ms, found[1].last_ms), (3, 0, 2));
        assert!(found[0].detail.len() < 1_000);
        assert!(refusals.list(Timestamp(KEPT_MS + 4)).is_empty());
        for at in 0..2 * REFUSALS_MAX {
            refusals.add("http", "404", &at.to_string(), Timestamp(5));
        }
        assert_eq!(refusals.list(Timestamp(5)).len(), REFUSALS_MAX);
    }
}
