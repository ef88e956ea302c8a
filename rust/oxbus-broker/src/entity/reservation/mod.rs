// SPDX-License-Identifier: Apache-2.0
//! Reservations of an entity: messages that a consumer holds under a number until it completes that number.
//!
//! `consumer` contains the state of a consumer, `claim` selects and locks messages, `reserve` creates and resumes
//! reservations, `complete` and `release` end them, `read` reads and renews them, `sessions` has those of an entity that
//! requires sessions, `plan` has the public types.
//!
//! Two locks protect a consumer. Calls that change its reservations take the exclusive lock and keep it while they
//! wait for the journal. The state is locked only for single steps, so that reading, renewing and expiring do not wait
//! for a disk.
//!
//! The reservations of a consumer are one record in the cell that its name selects, written before a call returns. The
//! locks of its messages are not journaled; opening a directory takes them again from the record.

mod claim;
mod complete;
mod consumer;
mod exclusive;
mod plan;
mod read;
mod release;
mod reserve;
mod sessions;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use oxbus_model::hash::partition_of;
use oxbus_model::name::SubQueue;
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Error, ErrorKind, Moment, Result, Ticks, Timestamp};
use oxbus_store::Wait;
use oxbus_store::shard_log::SpaceClass;

use self::consumer::{Consumer, ConsumerState, Reservation, ReservationPhase};
pub use self::plan::{
    AcquiredConsumer, Completion, PartitionPlan, ReservationInfo, ReservationPlan, ReservationStatus, ReserveOptions,
    StartPosition,
};
pub(crate) use self::release::LockedMessages;
use super::Entity;
use crate::write::ShardWrite;

/// By sub-queue and name.
type ConsumerMap = BTreeMap<(SubQueue, Arc<str>), Arc<Consumer>>;

/// The consumers of an entity.
#[derive(Debug)]
pub(crate) struct Consumers {
    /// Consistent after a panic: each change is one call of the map.
    known: Mutex<ConsumerMap>,
    /// No reservation expires before this tick.
    earliest: AtomicU64,
}

impl Default for Consumers {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            earliest: AtomicU64::new(Ticks::NEVER.0),
        }
    }
}

impl Consumers {
    fn known(&self) -> MutexGuard<'_, ConsumerMap> {
        ignore_poison(self.known.lock())
    }

    fn all(&self) -> Vec<Arc<Consumer>> {
        self.known().values().cloned().collect()
    }

    /// No reservation expires before this tick.
    pub(super) fn earliest(&self) -> Ticks {
        Ticks(self.earliest.load(Ordering::SeqCst))
    }

    fn note_deadline(&self, deadline: Ticks) {
        self.earliest.fetch_min(deadline.0, Ordering::SeqCst);
    }
}

impl Entity {
    /// A consumer that has been acquired before.
    fn consumer(&self, sub_queue: SubQueue, name: &str) -> Result<Arc<Consumer>> {
        let found = self.consumers.known().get(&(sub_queue, Arc::from(name))).cloned();
        found.ok_or_else(|| {
            let detail = format!("the consumer was never acquired; acquire it first: consumer=`{name}`");
            Error::new(ErrorKind::ReservationFenced, detail)
        })
    }

    /// Acquires a consumer: its epoch rises, which fences earlier holders.
    pub(crate) fn acquire(
        &self,
        sub_queue: SubQueue,
        name: &str,
        start: StartPosition,
        wait: &Wait<'_>,
    ) -> Result<AcquiredConsumer> {
        let home = partition_of(name.as_bytes(), self.partitions().into()) as usize;
        self.shard(home).health().check_serves(self.shard(home).id(), wait)?;
        let consumer = {
            let mut known = self.consumers.known();
            let new = || Arc::new(Consumer::new(sub_queue, name.into(), home, self.shard(home)));
            Arc::clone(known.entry((sub_queue, name.into())).or_insert_with(new))
        };
        let guard = consumer.lock_exclusive(wait)?;
        let acquired = {
            let mut state = consumer.state();
            if state.epoch == 0 {
                state.starts = match start {
                    StartPosition::Earliest => Vec::new(),
                    StartPosition::Latest => self.next_counters(),
                };
            }
            state.epoch += 1;
            state.note_change();
            AcquiredConsumer {
                epoch: state.epoch,
                done: state.done,
            }
        };
        self.persist(&consumer, SpaceClass::Adds, wait)?;
        drop(guard);
        Ok(acquired)
    }

    /// Journals the record of a consumer if it changed, and waits for it. The caller holds the exclusive lock.
    fn persist(&self, consumer: &Consumer, space_class: SpaceClass, wait: &Wait<'_>) -> Result<()> {
        let cell = self.cell_for_append(consumer.home);
        let mut write;
        let (ticket, changes) = {
            let state = consumer.state();
            if state.persisted_changes == state.changes {
                return Ok(());
            }
            let record = cell.persists_consumers().then(|| state.to_record());
            write = record.map(|record| {
                ShardWrite::of(
                    consumer.record_operation(cell, record, space_class),
                    self.core().clock().moment(),
                )
            });
            let write = write.as_mut();
            let begun = write.map(|write| write.begin(cell, cell.durability(None), wait));
            (begun.transpose()?, state.changes)
        };
        if let Some(ticket) = ticket {
            ticket.finish(wait)?;
        }
        consumer.state().persisted_changes = changes;
        Ok(())
    }

    /// Expires reservations whose deadline has passed: unlocks their messages and counts a delivery for each. The
    /// reservations keep their number ranges.
    pub(super) fn expire_reservations(&self, moment: Moment, wait: &Wait<'_>) {
        if self.consumers.earliest() > moment.ticks {
            return;
        }
        self.consumers.earliest.swap(Ticks::NEVER.0, Ordering::SeqCst);
        for consumer in self.consumers.all() {
            let (mut ended, mut has_expired) = (Vec::new(), false);
            let mut state = consumer.state();
            for reservation in state.reservations.values_mut() {
                match reservation.phase {
                    ReservationPhase::Live { deadline } if deadline <= moment.ticks => {
                        // It may have no messages any more, so that nothing ends with it.
                        has_expired = true;
                        ended.extend(self.expire(consumer.sub_queue, reservation, moment, wait));
                    }
                    ReservationPhase::Live { deadline } => self.consumers.note_deadline(deadline),
                    ReservationPhase::Expired | ReservationPhase::Completed => {}
                }
            }
            if has_expired {
                state.note_change();
                self.persist_unawaited(&consumer, &state, wait);
            }
            drop(state);
            for (index, ended) in ended {
                self.announce(index, ended, wait);
            }
        }
    }

    /// Journals the record of a consumer without waiting: if the entry is lost, the reservation expires again.
    fn persist_unawaited(&self, consumer: &Consumer, state: &ConsumerState, wait: &Wait<'_>) {
        let Some(cell) = self.cell(consumer.home).filter(|cell| cell.persists_consumers()) else {
            return;
        };
        // `persisted_changes` stays as it is, so the next call that persists also waits for these changes.
        let _ = cell.write_unawaited(
            consumer.record_operation(cell, state.to_record(), SpaceClass::Frees),
            wait,
        );
    }

    /// Creates the consumers of recovered records, and locks the messages of their live reservations before any
    /// receiver can. The lock duration of a reservation starts again.
    pub(crate) fn restore_reservations(&self, wait: &Wait<'_>) {
        let moment = self.core().clock().moment();
        for (home, cell) in self.cells() {
            for ((sub_queue, name), record) in cell.consumers() {
                // After a salvage with another number of partitions, the name selects another cell.
                if partition_of(name.as_bytes(), self.partitions().into()) as usize != home {
                    continue;
                }
                let (consumer, live) = Consumer::restore(sub_queue, Arc::clone(&name), home, self.shard(home), &record);
                for n in live {
                    let mut state = consumer.state();
                    if let Some(reservation) = state.reservations.get_mut(&n) {
                        self.lock_restored(&consumer, reservation, moment.ticks, wait);
                    }
                }
                self.consumers.known().insert((sub_queue, name), Arc::new(consumer));
            }
        }
    }

    /// Locks the messages of a recovered reservation. Parts in partitions out of service stay unlocked and keep their
    /// ranges.
    fn lock_restored(&self, consumer: &Consumer, reservation: &mut Reservation, ticks: Ticks, wait: &Wait<'_>) {
        for part in &mut reservation.parts {
            if part.index < usize::from(self.partitions()) && self.shard(part.index).health().serves() {
                // Messages of a live reservation do not expire.
                if self.lock_part(consumer, part, Timestamp(0), &[], wait).is_some() {
                    part.drop_unlocked();
                }
            }
        }
        let deadline = self.deadline(ticks, reservation.lock_ms);
        reservation.phase = ReservationPhase::Live { deadline };
        self.consumers.note_deadline(deadline);
    }

    /// The reservations of a sub-queue, by consumer and number.
    pub(crate) fn list_reservations(&self, sub_queue: SubQueue, wait: &Wait<'_>) -> Vec<ReservationInfo> {
        let moment = self.core().clock().moment();
        self.tick(moment, wait);
        let consumers = self.consumers.all();
        let selected = consumers.iter().filter(|consumer| consumer.sub_queue == sub_queue);
        selected.flat_map(|consumer| consumer.infos(moment)).collect()
    }
}
