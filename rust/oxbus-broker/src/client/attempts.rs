// SPDX-License-Identifier: Apache-2.0
//! In a durable namespace: what a receive hands out is read back if it is on disk, and in the journal first
//! (`shard::attempts`).
//!
//! A message under a lock has to be written, so that its delivery counts; a message that is gone when it is received has to
//! be as safe as a completion. All cells write before the first one is waited for. A cell that fails keeps its messages.

use oxbus_model::Ticks;
use oxbus_model::caps::STORE_ANSWER_MS_MAX;
use oxbus_model::options::ReceiveMode;
use oxbus_store::Outcome;

use super::receiver::{Deliveries, Receiver};
use super::settlement::SettleKey;
use crate::clock::leaving_after;
use crate::entity::receive_cache::Cached;

impl Receiver {
    /// Brings deliveries into memory, journals them and waits for that; those of a cell that failed are taken out again.
    pub(super) fn record(&self, deliveries: &mut Deliveries, ticks: Ticks) {
        let mut cells = deliveries
            .iter()
            .fold(0u64, |cells, delivery| cells | 1 << delivery.index);
        let mut pending = Vec::new();
        let mut failed = 0u64;
        for delivery in deliveries.iter_mut() {
            let cell = self.queue.cell(delivery.index);
            if cell.is_some_and(|cell| cell.load_in_place(&mut delivery.claimed.record).is_err()) {
                failed |= 1 << delivery.index;
            }
        }
        cells &= !failed;
        while cells != 0 {
            let index = cells.trailing_zeros() as usize;
            cells &= cells - 1;
            let Some(cell) = self.queue.cell(index) else { continue };
            let here = deliveries.iter().filter(|delivery| delivery.index == index);
            let noted = leaving_after(STORE_ANSWER_MS_MAX, || match self.mode {
                ReceiveMode::PeekLock => cell.note_handed_out(self.sub_queue, here.map(|delivery| &delivery.claimed)),
                ReceiveMode::ReceiveAndDelete => {
                    cell.note_removed(self.sub_queue, here.map(|delivery| delivery.claimed.key.counter))
                }
            });
            match noted {
                Ok(Some(entry)) => pending.push((index, cell, entry)),
                Ok(None) => {}
                Err(_) => failed |= 1 << index,
            }
        }
        if self.mode == ReceiveMode::ReceiveAndDelete {
            for (_, cell, entry) in pending.iter().skip(1) {
                cell.begin(entry);
            }
        }
        for (index, cell, entry) in pending {
            // Messages of other partitions are not to wait longer for one that does not answer.
            let waited = leaving_after(STORE_ANSWER_MS_MAX, || match self.mode {
                ReceiveMode::PeekLock => cell.wait_written(&entry),
                ReceiveMode::ReceiveAndDelete => cell.finish(Some(&entry)),
            });
            if waited.is_err() {
                failed |= 1 << index;
            }
        }
        if failed != 0 {
            self.take_back(deliveries, failed, ticks);
        }
    }

    /// Notes that messages went to a cache that gives nothing back.
    pub(super) fn note_taken(&self, cached: &[Cached]) {
        for run in cached.chunk_by(|a, b| a.index == b.index) {
            if let Some(cell) = self.queue.cell(run[0].index) {
                // Waited for when they are handed out.
                let _ = cell.note_removed(self.sub_queue, run.iter().map(|it| it.claimed.key.counter));
            }
        }
    }

    /// Takes deliveries of failed cells out and ends their locks, nothing charged. What was received and deleted is
    /// gone: nobody knows whether the journal has it.
    fn take_back(&self, deliveries: &mut Deliveries, failed: u64, ticks: Ticks) {
        deliveries.retain(|delivery| {
            let keep = failed >> delivery.index & 1 == 0;
            if !keep
                && self.mode == ReceiveMode::PeekLock
                && let Some(cell) = self.queue.cell(delivery.index)
            {
                let _ = cell.settle(self.sub_queue, delivery.claimed.key, Outcome::Release, ticks);
                let (index, key) = (delivery.index, delivery.claimed.key);
                self.note_settled(&[SettleKey { index, key }]);
            }
            keep
        });
    }
}
