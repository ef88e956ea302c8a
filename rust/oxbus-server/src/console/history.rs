// SPDX-License-Identifier: Apache-2.0
//! What was sent and received lately, for rates and plots.
//!
//! The counters of the metrics are sampled every five seconds, and kept for fifteen minutes; every sixtieth sample is
//! kept for a day. Only entities whose counters changed have samples, and only so many of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use oxbus_model::Timestamp;
use oxbus_model::sync::ignore_poison;
use serde::Serialize;

/// Samples of fifteen minutes.
const SHORT_MAX: usize = 180;
/// Short steps in a long one: five minutes.
const LONG_EVERY: u64 = 60;
/// Samples of a day.
const LONG_MAX: usize = 288;
/// Entities with samples of their own: 14 MB at most.
const ENTITIES_MAX: usize = 1_000;
/// The name of the sums of all entities. No entity is named so.
pub(super) const ALL: &str = "";

/// The counters at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Sample {
    pub(super) at_ms: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) completed: u64,
    pub(super) depth: u64,
}

impl Sample {
    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.completed += other.completed;
        self.depth += other.depth;
    }

    fn counters(&self) -> (u64, u64, u64) {
        (self.sent, self.received, self.completed)
    }
}

/// Messages per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Rates {
    pub(super) in_per_second: f64,
    pub(super) out_per_second: f64,
}

/// The samples of one entity.
#[derive(Debug, Default, Clone, Serialize)]
pub(super) struct Series {
    pub(super) short: VecDeque<Sample>,
    pub(super) long: VecDeque<Sample>,
}

impl Series {
    fn push(&mut self, sample: Sample, is_long: bool) {
        let keep = |kept: &mut VecDeque<Sample>, max: usize| {
            if kept.len() >= max {
                kept.pop_front();
            }
            kept.push_back(sample);
        };
        keep(&mut self.short, SHORT_MAX);
        if is_long || self.long.is_empty() {
            keep(&mut self.long, LONG_MAX);
        }
    }

    fn rates(&self) -> Rates {
        let Some(last) = self.short.back() else {
            return Rates::default();
        };
        let first = self.short.iter().rev().nth(2).or(self.short.front()).unwrap_or(last);
        let seconds = last.at_ms.saturating_sub(first.at_ms) as f64 / 1e3;
        let per_second = |to: u64, from: u64| {
            if seconds > 0.0 {
                to.saturating_sub(from) as f64 / seconds
            } else {
                0.0
            }
        };
        Rates {
            in_per_second: per_second(last.sent, first.sent),
            out_per_second: per_second(last.received, first.received),
        }
    }

    /// True if nothing happened in the time that its samples cover.
    fn is_idle(&self) -> bool {
        let counters = |it: Option<&Sample>| it.map(Sample::counters);
        counters(self.long.front()) == counters(self.short.back())
    }
}

/// The samples of all entities. A panic leaves them consistent: a sample is added in one step.
#[derive(Default)]
pub(super) struct History(Mutex<Samples>);

#[derive(Default)]
struct Samples {
    taken: u64,
    series: BTreeMap<String, Series>,
}

impl History {
    fn samples(&self) -> MutexGuard<'_, Samples> {
        ignore_poison(self.0.lock())
    }

    /// Adds a sample of each entity.
    pub(super) fn add(&self, now: Timestamp, entities: Vec<(String, Sample)>) {
        let mut samples = self.samples();
        let Samples { taken, series } = &mut *samples;
        let is_long = *taken % LONG_EVERY == 0;
        *taken += 1;
        let mut all = Sample::default();
        let mut is_present = std::collections::BTreeSet::new();
        for (name, sample) in entities {
            all.add(&sample);
            let sample = Sample { at_ms: now.0, ..sample };
            let has_place = series.len() < ENTITIES_MAX && sample.counters() != (0, 0, 0);
            if has_place || series.contains_key(&name) {
                series.entry(name.clone()).or_default().push(sample, is_long);
                is_present.insert(name);
            }
        }
        let all = Sample { at_ms: now.0, ..all };
        series.entry(ALL.to_owned()).or_default().push(all, is_long);
        let is_full = series.len() >= ENTITIES_MAX;
        series.retain(|name, it| name == ALL || is_present.contains(name) && !(is_full && it.is_idle()));
    }

    /// The samples of an entity, or of all.
    pub(super) fn series(&self, name: &str) -> Series {
        self.samples().series.get(name).cloned().unwrap_or_default()
    }

    /// The rates of all entities that have samples.
    pub(super) fn rates(&self) -> BTreeMap<String, Rates> {
        let samples = self.samples();
        let rates = samples
            .series
            .iter()
            .map(|(name, series)| (name.clone(), series.rates()));
        rates.collect()
    }
}

#[cfg(test)]
mod tests {
    use oxbus_model::Timestamp;

    use super::{ALL, ENTITIES_MAX, History, LONG_MAX, SHORT_MAX, Sample};

    fn sent(count: u64) -> Sample {
        Sample {
            sent: count,
            ..Sample::default()
        }
    }

    #[test]
    fn rates_come_from_the_last_samples_and_memory_is_bounded() {
        let history = History::default();
        for at in 0..30_000_u64 {
            history.add(
                Timestamp(at * 5_000),
                vec![("q".to_owned(), sent(10 * at)), ("idle".to_owned(), sent(0))],
            );
        }
        let series = history.series("q");
        assert_eq!((series.short.len(), series.long.len()), (SHORT_MAX, LONG_MAX));
        assert!((history.rates()["q"].in_per_second - 2.0).abs() < 1e-9);
        assert!(history.series("idle").short.is_empty());
        assert_eq!(history.series(ALL).short.back().map(|it| it.sent), Some(299_990));
    }

    #[test]
    fn deleted_entities_and_too_many_have_no_samples() {
        let history = History::default();
        let many = |from: usize| {
            (from..from + 2 * ENTITIES_MAX)
                .map(|at| (format!("q{at}"), sent(1)))
                .collect()
        };
        history.add(Timestamp(0), many(0));
        assert!(history.rates().len() <= ENTITIES_MAX + 1);
        history.add(Timestamp(5_000), vec![("q1".to_owned(), sent(2))]);
        assert!(history.rates().len() <= 2);
    }
}
