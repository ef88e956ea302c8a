// SPDX-License-Identifier: Apache-2.0
//! First and next sequence numbers of an entity.

use oxbus_model::Counter;
use oxbus_model::name::SubQueue;
use oxbus_store::NumberedStore;
use oxbus_store::Wait;

use super::Entity;

impl Entity {
    /// By partition: the counter of the first message, and the counter of the next message to be sent. Both are equal
    /// in a partition without messages. Dead-lettered messages keep their numbers, so both sub-queues have the same
    /// end.
    pub fn number_bounds(&self, sub_queue: SubQueue, wait: &Wait<'_>) -> Vec<(Counter, Counter)> {
        self.tick(self.core().clock().moment(), wait);
        let bounds_of = |index: usize| {
            let Some(cell) = self.cell(index) else {
                return (Counter::FIRST, Counter::FIRST);
            };
            let end = cell.main().next();
            let mut first = Vec::new();
            cell.store(sub_queue).peek(Counter::FIRST, 1, &mut first);
            (first.first().map_or(end, |message| message.counter.min(end)), end)
        };
        (0..usize::from(self.partitions())).map(bounds_of).collect()
    }

    /// By cell, the counter of the next message to be sent.
    pub(crate) fn next_counters(&self) -> Vec<Counter> {
        let cells = 0..usize::from(self.partitions());
        let end = |index| self.cell(index).map_or(Counter::FIRST, |cell| cell.main().next());
        cells.map(end).collect()
    }
}
