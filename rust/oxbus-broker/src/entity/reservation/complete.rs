// SPDX-License-Identifier: Apache-2.0
//! Completes all reservations of a consumer up to a number.
//!
//! The messages are completed first, by partition. Once that is durable, the record of the consumer is written. After a
//! crash in between, the caller repeats the completion: completed messages stay completed, and the others follow.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxbus_model::name::SubQueue;
use oxbus_model::{Result, Timestamp};
use oxbus_store::shard_log::SpaceClass;
use oxbus_store::{LockKey, Wait};

use super::consumer::{Consumer, ConsumerState, Reservation, ReservationPhase};
use super::plan::Completion;
use crate::entity::Entity;
use crate::shard::{AcceptedSession, CallKind, Cell, Meter, SessionEnd};
use crate::write::{Removal, ShardWrite, WriteOperation, finish_all};

/// Messages of one cell to be completed.
struct CellCompletion<'a> {
    cell: &'a Cell,
    keys: Vec<LockKey>,
    /// Number of messages that the reservation had there.
    reserved: u64,
}

/// Messages that a call completes.
#[derive(Default)]
struct CompletionBatch<'a> {
    parts: Vec<CellCompletion<'a>>,
    /// Cells where an earlier call completed messages without waiting for durability.
    already_completed: Vec<&'a Cell>,
}

impl Entity {
    /// Completes the reservations up to a number. Numbers without a reservation also count as completed: a checkpoint
    /// may be ahead of a broker that lost its files.
    pub(crate) fn complete_up_to(
        &self,
        sub_queue: SubQueue,
        name: &str,
        (epoch, n): (u64, u64),
        wait: &Wait<'_>,
    ) -> Result<Completion> {
        let consumer = self.consumer(sub_queue, name)?;
        let guard = consumer.lock_exclusive(wait)?;
        self.tick(self.core().clock().moment(), wait);
        if consumer.has_expired(n) {
            // Cached messages are undelivered, so the reservation may claim them again.
            self.recall_all(sub_queue, wait);
        }
        let batch = {
            let mut state = consumer.state();
            state.check_epoch(name, epoch)?;
            if n > state.done {
                self.take_reservations(&consumer, &mut state, n, wait)?
            } else {
                CompletionBatch::default()
            }
        };
        let completed = self.complete_all(sub_queue, &batch, wait);
        self.release_completed(&consumer, n, wait);
        let completed = completed?;
        {
            let mut state = consumer.state();
            if n > state.done {
                state.done = n;
                state.reservations.retain(|number, _| *number > n);
                state.note_change();
            }
        }
        self.persist(&consumer, SpaceClass::Frees, wait)?;
        drop(guard);
        Ok(completed)
    }

    /// Takes the locks of the reservations up to a number, and marks these as completed.
    fn take_reservations(
        &self,
        consumer: &Consumer,
        state: &mut ConsumerState,
        n: u64,
        wait: &Wait<'_>,
    ) -> Result<CompletionBatch<'_>> {
        let parts = || {
            state
                .reservations
                .range(..=n)
                .flat_map(|(_, reservation)| &reservation.parts)
        };
        for index in parts().map(|part| part.index).chain([consumer.home]) {
            let shard = self.shard(index);
            shard.health().check_serves(shard.id(), wait)?;
        }
        let mut batch = CompletionBatch::default();
        let mut ended: Vec<&mut Reservation> = state.reservations.range_mut(..=n).map(|(_, it)| it).collect();
        // Live ones first: those that expired may have further messages of their sessions.
        ended.sort_by_key(|it| it.phase == ReservationPhase::Expired);
        let mut own: BTreeMap<usize, Vec<Arc<AcceptedSession>>> = BTreeMap::new();
        for reservation in ended {
            if reservation.phase == ReservationPhase::Completed {
                // An earlier call completed it, but failed at another partition and did not wait for this one.
                let cells = reservation.parts.iter().filter_map(|part| self.cell(part.index));
                batch.already_completed.extend(cells);
                continue;
            }
            let is_expired = reservation.phase == ReservationPhase::Expired;
            reservation.phase = ReservationPhase::Completed;
            for part in &mut reservation.parts {
                let own = own.entry(part.index).or_default();
                if is_expired {
                    // The consumer processed the message, so its expiry does not matter.
                    self.lock_part(consumer, part, Timestamp(0), own, wait);
                }
                own.extend(part.sessions.iter().cloned());
                let locked = std::mem::take(&mut part.locked);
                if let Some(cell) = self.cell(part.index) {
                    batch.parts.push(CellCompletion {
                        cell,
                        keys: locked.iter().map(|it| it.key).collect(),
                        reserved: part.ranges.len(),
                    });
                }
            }
        }
        Ok(batch)
    }

    /// Releases the sessions of completed reservations.
    fn release_completed(&self, consumer: &Consumer, n: u64, wait: &Wait<'_>) {
        if !self.reserves_sessions(consumer.sub_queue) {
            return;
        }
        let moment = self.core().clock().moment();
        let mut ended = Vec::new();
        for (_, reservation) in consumer.state().reservations.range_mut(..=n) {
            if reservation.phase == ReservationPhase::Completed {
                for part in &mut reservation.parts {
                    ended.push((part.index, self.end_sessions(part, SessionEnd::Closed, moment, wait)));
                }
            }
        }
        for (index, ended) in ended {
            self.announce(index, ended, wait);
        }
    }

    /// Completes the messages of all cells in parallel. Fails with the first error.
    fn complete_all(&self, sub_queue: SubQueue, batch: &CompletionBatch<'_>, wait: &Wait<'_>) -> Result<Completion> {
        let moment = self.core().clock().moment();
        let mut completed = Completion::default();
        let mut failed = None;
        let removals = batch.parts.iter().map(|part| WriteOperation::Remove {
            cell: part.cell,
            sub_queue,
            removal: Removal::Completed(&part.keys),
        });
        let mut writes: Vec<ShardWrite<'_>> = removals.map(|it| ShardWrite::of(it, moment)).collect();
        let mut tickets = Vec::with_capacity(writes.len());
        for (part, write) in batch.parts.iter().zip(&mut writes) {
            match write.begin(part.cell, part.cell.durability(None), wait) {
                Ok(ticket) => {
                    let removed = (part.keys.len() - ticket.done().lost.len()) as u64;
                    completed.completed += removed;
                    part.cell.meter(Meter::Completed, removed as usize);
                    completed.late += part.reserved - removed;
                    tickets.push(ticket);
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        for done in finish_all(tickets, wait) {
            done?;
        }
        for cell in &batch.already_completed {
            let shard = &cell.shard;
            shard.await_all(shard.durability(None), CallKind::Change, wait)?;
        }
        failed.map_or(Ok(completed), |error| Err(error.into()))
    }
}
