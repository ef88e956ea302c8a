// SPDX-License-Identifier: Apache-2.0
//! Where the numbers of an entity begin and end.

use oxbus_model::Counter;
use oxbus_model::name::SubQueue;
use oxbus_store::NumberedStore;
use oxbus_store::Wait;

use super::Entity;

impl Entity {
    /// By partition: the counter of the first message there is, and the one that the next message gets. Both are equal where
    /// there is none. The messages of the dead-letter queue keep their numbers, so both streams end at the same ones.
    pub fn number_bounds(&self, sub_queue: SubQueue, wait: &Wait<'_>) -> Vec<(Counter, Counter)> {
        self.tick(self.core().clock().moment(), wait);
        let of_cell = |index: usize| {
            let Some(cell) = self.cell(index) else {
                return (Counter::FIRST, Counter::FIRST);
            };
            let end = cell.main().next();
            let mut found = Vec::new();
            cell.store(sub_queue).peek(Counter::FIRST, 1, &mut found);
            (found.first().map_or(end, |message| message.counter.min(end)), end)
        };
        (0..usize::from(self.partitions())).map(of_cell).collect()
    }

    /// By cell, the number that the next message gets.
    pub(crate) fn next_counters(&self) -> Vec<Counter> {
        let cells = 0..usize::from(self.partitions());
        let end = |index| self.cell(index).map_or(Counter::FIRST, |cell| cell.main().next());
        cells.map(end).collect()
    }
}
