// SPDX-License-Identifier: Apache-2.0
//! The high-water mark of a cell's numbers. The journal has it before numbers become visible (docs/decisions/0010).
//!
//! A new mark is appended long before the numbers below the current one run out, so it is usually synced in time and
//! no call waits. A call waits for the sync only if it is the first, or adds more messages than the reserve.
//!
//! Invariants
//! - `recorded` is in the journal, in the entry `recorded_at`;
//! - numbers below `covered` may become visible once the entry `covered_at` is synced; `covered <= recorded`;
//! - all fields change under the append guard, so they rise with the entries.

use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_model::Counter;
use oxbus_model::caps::{RESERVED_NUMBERS, RESERVED_NUMBERS_LOW};
use oxbus_store::shard_log::Lsn;

/// The journaled limits of the numbers of a cell.
#[derive(Debug, Default)]
pub(crate) struct SequenceHighWaterMark {
    recorded: AtomicU64,
    recorded_at: AtomicU64,
    covered: AtomicU64,
    covered_at: AtomicU64,
}

/// How many numbers a new mark reserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberReserve {
    /// None beyond those in use: this process assigns no more.
    Exact,
    /// The usual reserve.
    Ahead,
}

impl SequenceHighWaterMark {
    /// The mark of a cell as read from its journal, where it is already synced.
    pub(crate) fn restored(recorded: Counter) -> Self {
        Self {
            recorded: recorded.0.into(),
            covered: recorded.0.into(),
            ..Self::default()
        }
    }

    /// The number from which the next open continues after an unclean end.
    pub(crate) fn recorded(&self) -> Counter {
        Counter(self.recorded.load(Ordering::Relaxed))
    }

    /// The mark to put into an entry that uses the numbers before `end`; `None` if none is due. Call under the append
    /// guard.
    pub(crate) fn next_mark(&self, end: u64, reserve: NumberReserve) -> Option<Counter> {
        let recorded = self.recorded.load(Ordering::Relaxed);
        let (low, ahead) = match reserve {
            NumberReserve::Exact => (0, 0),
            NumberReserve::Ahead => (RESERVED_NUMBERS_LOW, RESERVED_NUMBERS),
        };
        (recorded < end + low).then_some(Counter(end + ahead))
    }

    /// Notes that the entry `lsn` uses the numbers before `end` and contains `mark`. Call under the append guard.
    pub(crate) fn advance(&self, end: u64, mark: Option<Counter>, lsn: Lsn) {
        let before = self.recorded.load(Ordering::Relaxed);
        if end > self.covered.load(Ordering::Relaxed) && end <= before {
            // An earlier entry has the mark.
            self.covered.store(before, Ordering::Relaxed);
            self.covered_at
                .store(self.recorded_at.load(Ordering::Relaxed), Ordering::Release);
        }
        let Some(Counter(mark)) = mark else { return };
        self.recorded.store(mark, Ordering::Relaxed);
        self.recorded_at.store(lsn.0, Ordering::Relaxed);
        if end > before {
            self.covered.store(mark, Ordering::Relaxed);
            self.covered_at.store(lsn.0, Ordering::Release);
        }
    }

    /// The entry to be synced before the noted numbers may become visible.
    pub(crate) fn covered_at(&self) -> Lsn {
        Lsn(self.covered_at.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses `count` numbers in the entry `lsn`.
    fn use_numbers(mark: &SequenceHighWaterMark, next: &mut u64, count: u64, lsn: u64) -> bool {
        *next += count;
        let next_mark = mark.next_mark(*next, NumberReserve::Ahead);
        mark.advance(*next, next_mark, Lsn(lsn));
        assert!(mark.recorded().0 >= *next, "the journal knows the numbers of the entry");
        assert!(mark.recorded().0 <= *next + RESERVED_NUMBERS, "but not too many");
        next_mark.is_some()
    }

    #[test]
    fn the_first_entry_waits_for_its_own_mark_and_later_ones_for_an_earlier_mark() {
        let (mark, mut next) = (SequenceHighWaterMark::default(), 0);
        assert!(use_numbers(&mark, &mut next, 10, 1));
        assert_eq!(mark.covered_at(), Lsn(1));
        // The first mark is enough.
        assert!(!use_numbers(&mark, &mut next, 10, 2));
        assert_eq!(mark.covered_at(), Lsn(1));
        // A new mark is written early: the first one still covers the numbers.
        assert!(use_numbers(&mark, &mut next, 10_000, 3));
        assert_eq!(mark.covered_at(), Lsn(1));
        // These numbers exceed the first mark, so the third entry is needed.
        assert!(use_numbers(&mark, &mut next, 10_000, 4));
        assert_eq!(mark.covered_at(), Lsn(3));
        // The entry uses more numbers than the reserve.
        assert!(use_numbers(&mark, &mut next, RESERVED_NUMBERS + 1, 5));
        assert_eq!(mark.covered_at(), Lsn(5));
    }

    #[test]
    fn a_restored_mark_needs_no_wait() {
        let (mark, mut next) = (SequenceHighWaterMark::restored(Counter(100)), 50);
        assert!(use_numbers(&mark, &mut next, 50, 7));
        assert_eq!(mark.covered_at(), Lsn(0));
        assert!(!use_numbers(&mark, &mut next, 1, 8));
        assert_eq!(mark.covered_at(), Lsn(7));
    }

    #[test]
    fn an_exact_mark_reserves_nothing() {
        let mark = SequenceHighWaterMark::restored(Counter(100));
        assert_eq!(mark.next_mark(150, NumberReserve::Exact), Some(Counter(150)));
        mark.advance(150, Some(Counter(150)), Lsn(9));
        assert_eq!((mark.recorded(), mark.covered_at()), (Counter(150), Lsn(9)));
        assert_eq!(mark.next_mark(150, NumberReserve::Exact), None);
    }
}
