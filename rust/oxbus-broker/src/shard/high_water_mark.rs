// SPDX-License-Identifier: Apache-2.0
//! How far the numbers of a cell may go: told to its journal before they are shown (docs/decisions/0010).
//!
//! The journal is told anew long before the numbers that it knows of are used up, so that telling is synced by the time it
//! counts and nobody waits for it. Only who comes with more messages than that, or first of all, waits for a sync.
//!
//! Holds always
//! - `recorded` is in the journal, in the entry `recorded_at`;
//! - numbers below `covered` may be shown once the entry `covered_at` is synced; `covered <= recorded`;
//! - all of it changes under the journal's order, so it rises with the entries.

use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_model::Counter;
use oxbus_model::caps::{NUMBERS_AHEAD, NUMBERS_LOW};
use oxbus_store::shard_log::Lsn;

/// What the journal knows about the numbers of a cell.
#[derive(Debug, Default)]
pub(crate) struct SequenceHighWaterMark {
    recorded: AtomicU64,
    recorded_at: AtomicU64,
    covered: AtomicU64,
    covered_at: AtomicU64,
}

/// How far to tell the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberReserve {
    /// To the numbers that are used now: nobody goes on in this process.
    Exact,
    /// As far as it is usual.
    Ahead,
}

impl SequenceHighWaterMark {
    /// That of a cell whose journal was read: what it knows is synced.
    pub(crate) fn restored(recorded: Counter) -> Self {
        Self {
            recorded: recorded.0.into(),
            covered: recorded.0.into(),
            ..Self::default()
        }
    }

    /// The number to go on from after an unclean end.
    pub(crate) fn recorded(&self) -> Counter {
        Counter(self.recorded.load(Ordering::Relaxed))
    }

    /// What an entry is to tell that uses the numbers before `end`; under the journal's order, as the next one.
    pub(crate) fn next_mark(&self, end: u64, reserve: NumberReserve) -> Option<Counter> {
        let recorded = self.recorded.load(Ordering::Relaxed);
        let (low, ahead) = match reserve {
            NumberReserve::Exact => (0, 0),
            NumberReserve::Ahead => (NUMBERS_LOW, NUMBERS_AHEAD),
        };
        (recorded < end + low).then_some(Counter(end + ahead))
    }

    /// Notes that the entry `lsn` uses the numbers before `end`, and what it tells.
    pub(crate) fn advance(&self, end: u64, mark: Option<Counter>, lsn: Lsn) {
        let before = self.recorded.load(Ordering::Relaxed);
        if end > self.covered.load(Ordering::Relaxed) && end <= before {
            // Told by an entry before this one.
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

    /// The entry that is to be synced before the numbers of an entry that was noted are shown.
    pub(crate) fn covered_at(&self) -> Lsn {
        Lsn(self.covered_at.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses `count` numbers with the entry `lsn`.
    fn use_numbers(mark: &SequenceHighWaterMark, next: &mut u64, count: u64, lsn: u64) -> bool {
        *next += count;
        let next_mark = mark.next_mark(*next, NumberReserve::Ahead);
        mark.advance(*next, next_mark, Lsn(lsn));
        assert!(mark.recorded().0 >= *next, "the journal knows the numbers of the entry");
        assert!(mark.recorded().0 <= *next + NUMBERS_AHEAD, "and not too many");
        next_mark.is_some()
    }

    #[test]
    fn the_first_entry_waits_for_itself_and_later_ones_for_earlier_ones() {
        let (mark, mut next) = (SequenceHighWaterMark::default(), 0);
        assert!(use_numbers(&mark, &mut next, 10, 1));
        assert_eq!(mark.covered_at(), Lsn(1));
        // Enough is told.
        assert!(!use_numbers(&mark, &mut next, 10, 2));
        assert_eq!(mark.covered_at(), Lsn(1));
        // Told again, long before it is needed: the first entry will do.
        assert!(use_numbers(&mark, &mut next, 10_000, 3));
        assert_eq!(mark.covered_at(), Lsn(1));
        // Beyond what the first one told: now the third is needed.
        assert!(use_numbers(&mark, &mut next, 10_000, 4));
        assert_eq!(mark.covered_at(), Lsn(3));
        // More than was told.
        assert!(use_numbers(&mark, &mut next, NUMBERS_AHEAD + 1, 5));
        assert_eq!(mark.covered_at(), Lsn(5));
    }

    #[test]
    fn what_was_read_from_a_journal_is_waited_for_by_nobody() {
        let (mark, mut next) = (SequenceHighWaterMark::restored(Counter(100)), 50);
        assert!(use_numbers(&mark, &mut next, 50, 7));
        assert_eq!(mark.covered_at(), Lsn(0));
        assert!(!use_numbers(&mark, &mut next, 1, 8));
        assert_eq!(mark.covered_at(), Lsn(7));
    }

    #[test]
    fn without_more_to_come_no_number_is_set_aside() {
        let mark = SequenceHighWaterMark::restored(Counter(100));
        assert_eq!(mark.next_mark(150, NumberReserve::Exact), Some(Counter(150)));
        mark.advance(150, Some(Counter(150)), Lsn(9));
        assert_eq!((mark.recorded(), mark.covered_at()), (Counter(150), Lsn(9)));
        assert_eq!(mark.next_mark(150, NumberReserve::Exact), None);
    }
}
