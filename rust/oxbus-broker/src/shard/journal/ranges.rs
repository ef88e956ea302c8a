// SPDX-License-Identifier: Apache-2.0
//! Message numbers of one partition as runs without gaps. The numbers of a reservation are usually consecutive.

use oxbus_model::Counter;
use oxbus_model::varint::{self, VarintReader};

/// Rising numbers, as runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(u64, u64)>);

impl FromIterator<Counter> for Ranges {
    /// Collects numbers in any order.
    fn from_iter<I: IntoIterator<Item = Counter>>(counters: I) -> Self {
        let mut counters: Vec<Counter> = counters.into_iter().collect();
        if !counters.is_sorted_by(|a, b| a < b) {
            counters.sort_unstable();
            counters.dedup();
        }
        Self::of(counters.into_iter())
    }
}

impl Ranges {
    /// Collects rising numbers.
    pub fn of(counters: impl Iterator<Item = Counter>) -> Self {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for Counter(counter) in counters {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == counter => *last = counter,
                _ => ranges.push((counter, counter)),
            }
        }
        Self(ranges)
    }

    /// First and last number of each run.
    pub fn runs(&self) -> impl Iterator<Item = (Counter, Counter)> {
        self.0.iter().map(|(first, last)| (Counter(*first), Counter(*last)))
    }

    /// All numbers, in rising order.
    pub fn counters(&self) -> impl Iterator<Item = Counter> {
        self.0.iter().flat_map(|(first, last)| (*first..=*last).map(Counter))
    }

    /// How many numbers it has.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// True if there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes rising `counters` and returns how many of them were present.
    pub fn without(&mut self, counters: &[Counter]) -> u64 {
        let before = self.len();
        let kept = Self::of(
            self.counters()
                .filter(|counter| counters.binary_search(counter).is_err()),
        );
        *self = kept;
        before - self.len()
    }

    /// Writes the number of runs, and for each the gap before it and its length minus 1.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        varint::push(out, self.0.len() as u64);
        let mut from = 0;
        for (first, last) in &self.0 {
            varint::push(out, first - from);
            varint::push(out, last - first);
            from = last + 1;
        }
    }

    /// Reads ranges; `None` if the bytes are invalid.
    pub(super) fn decode(from: &mut VarintReader<'_>) -> Option<Self> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        let mut next = 0u64;
        for _ in 0..from.varint()? {
            let first = next.checked_add(from.varint()?)?;
            let last = first.checked_add(from.varint()?)?;
            let touches = ranges.last().is_some_and(|(_, before)| before + 1 == first);
            if first == 0 || last > Counter::MAX.0 || touches {
                return None;
            }
            ranges.push((first, last));
            next = last + 1;
        }
        Some(Self(ranges))
    }
}
