// SPDX-License-Identifier: Apache-2.0
//! Deliveries in a durable namespace: records on disk are loaded, and deliveries are journaled before the receive
//! returns (`crate::write`).
//!
//! The delivery of a locked message must be written, so that it counts. The removal of a message in receive-and-delete
//! mode must be as durable as a completion. All cells begin their writes before the call waits for the first one. Until
//! its cell has written the removal, a message is only locked. If the write fails, the cell keeps its messages; the
//! call fails only if it delivers no others ([decision 0026](../../../../docs/decisions/0026-effects-of-errors.md)).

use std::time::Duration;

use oxbus_model::caps::STORE_ANSWER_MS_MAX;
use oxbus_model::options::{Durability, LockPolicy, ReceiveMode};
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Effect, Error, Moment, Result, SequenceNumber, Ticks, Timestamp};
use oxbus_store::Wait;

use super::numbered_error::with_sequence_numbers;
use super::receiver::{Deliveries, Delivery, Receiver};
use super::settlement::SettleKey;
use crate::clock::{Deadline, with_timeout};
use crate::entity::Entity;
use crate::entity::receive_cache::CachedMessage;
use crate::shard::Cell;
use crate::shard::journal::DeliveryRecord;
use crate::write::{DeliveryEffect, Removal, ShardWrite, WriteOperation};

/// A failure to deliver claimed messages.
pub(super) struct DeliveryFailure {
    /// Their cells, one bit each.
    pub(super) cells: u64,
    /// The error of the first cell, or of the first one with an unknown effect.
    error: Error,
    numbers: Vec<SequenceNumber>,
}

impl DeliveryFailure {
    /// Adds the failure of other cells.
    pub(super) fn merge(self, other: Self) -> Self {
        let (mut first, second) = if other.has_unknown_effect() && !self.has_unknown_effect() {
            (other, self)
        } else {
            (self, other)
        };
        first.cells |= second.cells;
        first.numbers.extend(second.numbers);
        first
    }

    fn has_unknown_effect(&self) -> bool {
        self.error.effect() == Some(Effect::Unknown)
    }

    /// The error for the caller, with the numbers of the messages.
    pub(super) fn into_error(self) -> Error {
        let effect = self.error.effect().unwrap_or(Effect::None);
        with_sequence_numbers(&self.error, &self.numbers, Some(effect))
    }
}

impl Receiver {
    /// Loads deliveries into memory, journals them and waits for the journal. Removes and releases those of failed
    /// cells, and returns the failure.
    pub(super) async fn journal_deliveries(
        &self,
        deliveries: &mut Deliveries,
        ticks: Ticks,
        wait: &Wait<'_>,
    ) -> Option<DeliveryFailure> {
        let mut failed: Vec<(usize, Error)> = Vec::new();
        let mut unreadable = 0u64;
        let mut left = 0u64;
        for delivery in deliveries.iter_mut() {
            let bit = 1 << delivery.index;
            left |= bit;
            let cell = self.entity.cell(delivery.index).filter(|_| unreadable & bit == 0);
            if let Some(Err(error)) = cell.map(|cell| cell.load_in_place(&mut delivery.claimed.record)) {
                unreadable |= bit;
                failed.push((delivery.index, error));
            }
        }
        left &= !unreadable;
        let moment = Moment {
            now: Timestamp(0),
            ticks,
        };
        let mut writes = Vec::new();
        // Cells are visited by ascending index, the order in which snapshots of several shards are held off.
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            left &= left - 1;
            if let Some(cell) = self.entity.cell(index) {
                let operation = self.delivery_operation(cell, index, deliveries);
                writes.push((index, cell, ShardWrite::of(operation, moment)));
            }
        }
        for (_, cell, write) in &writes {
            write.until_it_may_begin(cell, wait).await;
        }
        let mut tickets = Vec::with_capacity(writes.len());
        for (index, cell, write) in &mut writes {
            let level = match self.mode {
                // A power loss may forget a delivery.
                ReceiveMode::PeekLock => Durability::Os,
                ReceiveMode::ReceiveAndDelete => cell.durability(None),
            };
            // Bounds how long messages of other partitions wait for an unresponsive store.
            match with_timeout(STORE_ANSWER_MS_MAX, wait, |wait| write.begin(cell, level, wait)) {
                Ok(ticket) => tickets.push((*index, ticket)),
                Err(error) => failed.push((*index, error.into())),
            }
        }
        if self.removes_on_receive() {
            for (_, ticket) in tickets.iter().skip(1) {
                ticket.start_sync();
            }
        }
        let mut failure = None;
        for (index, error) in failed {
            self.undo_deliveries(deliveries, index, error, &mut failure, ticks, wait);
        }
        for (index, mut ticket) in tickets {
            let deadline = Deadline::after(Some(Duration::from_millis(STORE_ANSWER_MS_MAX)));
            let is_past_deadline = || deadline.is_over();
            let store_wait = wait.or_until(&is_past_deadline);
            ticket.until_committed(&store_wait).await;
            if let Err(error) = ticket.finish(&store_wait) {
                self.undo_deliveries(deliveries, index, error.into(), &mut failure, ticks, wait);
            }
        }
        failure
    }

    /// The operation that journals the deliveries of a cell.
    fn delivery_operation<'a>(&self, cell: &'a Cell, index: usize, deliveries: &Deliveries) -> WriteOperation<'a> {
        let sub_queue = self.sub_queue;
        let of_cell = deliveries.iter().filter(|delivery| delivery.index == index);
        let of_cell = of_cell.map(|delivery| &delivery.claimed);
        if self.removes_on_receive() {
            let removal = Removal::Received(of_cell.map(|claimed| claimed.key).collect());
            return WriteOperation::Remove {
                cell,
                sub_queue,
                removal,
            };
        }
        let fetched = of_cell.clone().filter(|claimed| claimed.deferred);
        let fetched = fetched.map(|claimed| (claimed.key, claimed.deadline));
        WriteOperation::HandOut {
            cell,
            sub_queue,
            then: DeliveryEffect::Delivered(fetched.collect()),
            messages: of_cell.map(DeliveryRecord::from).collect(),
        }
    }

    /// Removes the deliveries of a failed cell, and releases them without counting a delivery.
    fn undo_deliveries(
        &self,
        deliveries: &mut Deliveries,
        index: usize,
        error: Error,
        failure: &mut Option<DeliveryFailure>,
        ticks: Ticks,
        wait: &Wait<'_>,
    ) {
        let (undone, others): (Deliveries, Deliveries) = std::mem::take(deliveries)
            .into_iter()
            .partition(|delivery| delivery.index == index);
        *deliveries = others;
        let this = DeliveryFailure {
            cells: 1 << index,
            error,
            numbers: undone
                .iter()
                .map(|it| Entity::sequence_number(index, it.claimed.key.counter))
                .collect(),
        };
        *failure = Some(match failure.take() {
            Some(before) => before.merge(this),
            None => this,
        });
        let Some(cell) = self.entity.cell(index) else { return };
        let mut from_cache = Vec::new();
        for Delivery { claimed, .. } in undone {
            let key = claimed.key;
            match cell.release_lock(self.sub_queue, key, ticks) {
                Ok(ended) => {
                    self.note_settled(&[SettleKey { index, key }]);
                    self.entity.announce(index, ended, wait);
                }
                // The faithful policy removed the message when it was cached.
                Err(_) if self.removes_on_receive() && self.policy == LockPolicy::Faithful => {
                    from_cache.push(CachedMessage { index, claimed });
                }
                Err(_) => {}
            }
        }
        let mut content = self.cache.lock();
        for cached in from_cache.into_iter().rev() {
            content.messages.push_front(cached);
        }
    }

    /// True if the receiver is in receive-and-delete mode.
    pub(super) fn removes_on_receive(&self) -> bool {
        self.mode == ReceiveMode::ReceiveAndDelete
    }

    /// Reports messages that a receive could not deliver. Fails at once if the call delivers nothing else, but not for
    /// partitions out of service, whose messages wait. If messages may have been removed, the next call fails unless
    /// the partition is healed by then.
    pub(super) fn report_failure(&self, failure: Option<DeliveryFailure>, has_deliveries: bool) -> Result<()> {
        let Some(failure) = failure else { return Ok(()) };
        if has_deliveries {
            if self.removes_on_receive() && failure.has_unknown_effect() {
                *ignore_poison(self.unreported.lock()) = Some(failure);
            }
            return Ok(());
        }
        if self.removes_on_receive() || self.session.is_some() || self.any_serves(failure.cells) {
            return Err(failure.into_error());
        }
        Ok(())
    }

    /// Reports a failure that an earlier receive could not report. A healed partition has kept the messages, so there
    /// is nothing to report.
    pub(super) fn report_earlier_failure(&self) -> Result<()> {
        if !self.removes_on_receive() || !self.entity.core().is_durable() {
            return Ok(());
        }
        let unreported = ignore_poison(self.unreported.lock()).take();
        match unreported {
            Some(failure) if !self.all_serve(failure.cells) => Err(failure.into_error()),
            _ => Ok(()),
        }
    }

    fn any_serves(&self, cells: u64) -> bool {
        (0..u64::BITS as usize).any(|index| cells >> index & 1 == 1 && self.entity.shard(index).health().serves())
    }

    fn all_serve(&self, cells: u64) -> bool {
        (0..u64::BITS as usize).all(|index| cells >> index & 1 == 0 || self.entity.shard(index).health().serves())
    }

    /// Journals the removal of messages that went to the cache of a faithful receiver in receive-and-delete mode.
    pub(super) fn journal_removed(&self, cached: &[CachedMessage], wait: &Wait<'_>) {
        for run in cached.chunk_by(|a, b| a.index == b.index) {
            if let Some(cell) = self.entity.cell(run[0].index) {
                let counters = run.iter().map(|it| it.claimed.key.counter);
                let remove = WriteOperation::Remove {
                    cell,
                    sub_queue: self.sub_queue,
                    removal: Removal::AlreadyRemoved(counters.collect()),
                };
                // The receive that delivers them waits for the journal.
                let _ = cell.write_unawaited(remove, wait);
            }
        }
    }
}
