// SPDX-License-Identifier: Apache-2.0
//! A consumer and its reservations.
//!
//! Invariants
//! - a message is in at most one live reservation, which holds its lock;
//! - a reservation never grows: its ranges only lose numbers, and only messages in them can be locked for it again;
//! - `locked` contains locked messages while the reservation is live, and is empty otherwise.

use oxbus_store::Wait;
use std::collections::BTreeMap;
use std::sync::Arc;

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Error, ErrorKind, Moment, Result, Ticks};
use oxbus_store::shard_log::SpaceClass;

use super::exclusive::{ExclusiveGuard, ExclusiveLock};
use super::plan::{PartitionPlan, ReservationInfo, ReservationPlan, ReservationStatus};
use crate::entity::Entity;
use crate::shard::guarded::{Guarded, StateGuard};
use crate::shard::journal::{ConsumerRecord, Ranges, ReservationRecord};
use crate::shard::{AcceptedSession, Cell, ReservedMessage, Shard};
use crate::write::WriteOperation;

/// A consumer of an entity, or of its dead-letter queue.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(super) name: Arc<str>,
    pub(super) sub_queue: SubQueue,
    /// The cell that stores the record of the consumer.
    pub(super) home: usize,
    exclusive: ExclusiveLock,
    /// The shard of that cell.
    shard: Arc<Shard>,
    state: Guarded<ConsumerState>,
}

/// Epoch, progress and reservations of a consumer.
#[derive(Debug, Default)]
pub(super) struct ConsumerState {
    pub(super) epoch: u64,
    pub(super) done: u64,
    /// The stamp of the next reservation.
    pub(super) stamp: u64,
    /// By cell, the first number that the consumer may reserve.
    pub(super) starts: Vec<Counter>,
    pub(super) reservations: BTreeMap<u64, Reservation>,
    /// Number of changes so far.
    pub(super) changes: u64,
    /// Number of changes that the journal contains.
    pub(super) persisted_changes: u64,
}

/// Messages that a consumer reserved under one number.
#[derive(Debug)]
pub(super) struct Reservation {
    pub(super) stamp: u64,
    /// Epoch under which it was created, less the attempts that counted already.
    pub(super) epoch: u64,
    pub(super) lock_ms: u64,
    /// Initial number of messages, less those settled one by one.
    pub(super) reserved: u64,
    pub(super) phase: ReservationPhase,
    /// By cell, ascending; only cells with messages.
    pub(super) parts: Vec<PartitionReservation>,
}

/// Phase of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReservationPhase {
    Live {
        deadline: Ticks,
    },
    Expired,
    /// Its messages are completed, but the record of the consumer does not yet show it.
    Completed,
}

/// Messages of a reservation in one cell.
#[derive(Debug, Default)]
pub(super) struct PartitionReservation {
    pub(super) index: usize,
    pub(super) ranges: Ranges,
    /// Locked messages of a live reservation, by ascending number.
    pub(super) locked: Vec<ReservedMessage>,
    /// Locked sessions of a live reservation, if the entity requires sessions.
    pub(super) sessions: Vec<Arc<AcceptedSession>>,
}

impl PartitionReservation {
    /// The part with these locked messages.
    pub(super) fn of(index: usize, locked: Vec<ReservedMessage>) -> Self {
        let mut part = Self {
            index,
            locked,
            ..Self::default()
        };
        part.drop_unlocked();
        part
    }

    /// Removes messages that are not locked from the reservation for good. Returns true if there were any.
    pub(super) fn drop_unlocked(&mut self) -> bool {
        let before = self.ranges.len();
        self.ranges = Ranges::of(self.locked.iter().map(|it| it.key.counter));
        self.ranges.len() != before
    }
}

impl Reservation {
    pub(super) fn messages(&self) -> u64 {
        self.parts.iter().map(|part| part.ranges.len()).sum()
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.phase, ReservationPhase::Live { .. })
    }

    fn of_record(record: &ReservationRecord) -> Self {
        let parts = record.parts.iter().map(|(partition, ranges)| PartitionReservation {
            index: usize::from(*partition),
            ranges: ranges.clone(),
            ..PartitionReservation::default()
        });
        Self {
            stamp: record.stamp,
            epoch: record.epoch,
            lock_ms: record.lock_ms,
            reserved: record.reserved,
            phase: ReservationPhase::Expired,
            parts: parts.collect(),
        }
    }

    fn to_record(&self, n: u64) -> ReservationRecord {
        let parts = self.parts.iter().filter(|part| !part.ranges.is_empty());
        ReservationRecord {
            n,
            stamp: self.stamp,
            epoch: self.epoch,
            lock_ms: self.lock_ms,
            reserved: self.reserved,
            expired: self.phase == ReservationPhase::Expired,
            parts: parts.map(|part| (part.index as u16, part.ranges.clone())).collect(),
        }
    }
}

impl ConsumerState {
    /// Fails unless `epoch` is that of the latest acquisition.
    pub(super) fn check_epoch(&self, name: &str, epoch: u64) -> Result<()> {
        if epoch == self.epoch && epoch > 0 {
            return Ok(());
        }
        let detail = format!(
            "another program acquired the consumer; let it continue, use another consumer, or acquire it again: consumer=`{name}` \
             epoch={epoch} current={}",
            self.epoch
        );
        Err(Error::new(ErrorKind::ReservationFenced, detail))
    }

    /// The live reservation with this number and stamp.
    pub(super) fn live(&self, n: u64, stamp: u64) -> Option<&Reservation> {
        let reservation = self.reservations.get(&n);
        reservation.filter(|it| it.stamp == stamp && it.is_live())
    }

    /// Fails if the number is completed.
    pub(super) fn check_not_completed(&self, name: &str, n: u64) -> Result<()> {
        if n > self.done {
            return Ok(());
        }
        let detail = format!(
            "the number was completed before: a checkpoint was rolled back or belongs to another consumer; continue after the \
             completed number, or use another consumer: consumer=`{name}` n={n} done={}",
            self.done
        );
        Err(Error::new(ErrorKind::CheckpointBehind, detail))
    }

    /// The number of the next new reservation.
    pub(super) fn next_n(&self) -> u64 {
        self.reservations.keys().next_back().map_or(self.done, |last| *last) + 1
    }

    /// Counts a change that must be journaled.
    pub(super) fn note_change(&mut self) {
        self.changes += 1;
    }

    pub(super) fn to_record(&self) -> ConsumerRecord {
        ConsumerRecord {
            epoch: self.epoch,
            done: self.done,
            stamp: self.stamp,
            starts: self.starts.clone(),
            reservations: self.reservations.iter().map(|(n, it)| it.to_record(*n)).collect(),
        }
    }
}

impl Consumer {
    pub(super) fn new(sub_queue: SubQueue, name: Arc<str>, home: usize, shard: &Arc<Shard>) -> Self {
        Self {
            name,
            sub_queue,
            home,
            exclusive: ExclusiveLock::default(),
            shard: Arc::clone(shard),
            state: Guarded::default(),
        }
    }

    /// Returns the consumer of a record, with no messages locked yet, and the numbers of its reservations that were
    /// live.
    pub(super) fn restore(
        sub_queue: SubQueue,
        name: Arc<str>,
        home: usize,
        shard: &Arc<Shard>,
        record: &ConsumerRecord,
    ) -> (Self, Vec<u64>) {
        let consumer = Self::new(sub_queue, name, home, shard);
        *consumer.state() = ConsumerState {
            epoch: record.epoch,
            done: record.done,
            stamp: record.stamp,
            starts: record.starts.clone(),
            reservations: record
                .reservations
                .iter()
                .map(|it| (it.n, Reservation::of_record(it)))
                .collect(),
            ..ConsumerState::default()
        };
        let live = record.reservations.iter().filter(|it| !it.expired);
        (consumer, live.map(|it| it.n).collect())
    }

    /// The operation that writes its record.
    pub(super) fn record_operation<'a>(
        &self,
        cell: &'a Cell,
        record: ConsumerRecord,
        space_class: SpaceClass,
    ) -> WriteOperation<'a> {
        WriteOperation::Consumer {
            cell,
            sub_queue: self.sub_queue,
            name: Arc::clone(&self.name),
            record: Box::new(record),
            space_class,
        }
    }

    pub(super) fn lock_exclusive(&self, wait: &Wait<'_>) -> Result<ExclusiveGuard<'_>> {
        self.exclusive.acquire(wait)
    }

    /// The state, locked. The guard may be held for one step and its journal append, but not for a wait or a wake-up.
    pub(super) fn state(&self) -> StateGuard<'_, ConsumerState> {
        self.state.lock(self.shard.health())
    }

    /// True if a reservation up to this number expired.
    pub(super) fn has_expired(&self, n: u64) -> bool {
        let state = self.state();
        state
            .reservations
            .range(..=n)
            .any(|(_, it)| it.phase == ReservationPhase::Expired)
    }

    /// The id of a reservation: number, stamp and consumer.
    fn id_of(&self, n: u64, stamp: u64) -> String {
        format!("{n}-{stamp}-{}", self.name)
    }

    /// The plan of a live reservation.
    pub(super) fn plan(&self, state: &ConsumerState, n: u64, moment: Moment) -> Option<ReservationPlan> {
        let reservation = state.reservations.get(&n)?;
        let ReservationPhase::Live { deadline } = reservation.phase else {
            return None;
        };
        let parts = reservation.parts.iter().filter(|part| !part.locked.is_empty());
        Some(ReservationPlan {
            id: self.id_of(n, reservation.stamp),
            epoch: state.epoch,
            n,
            partitions: parts.map(plan_of).collect(),
            attempt: (state.epoch + 1).saturating_sub(reservation.epoch).max(1),
            missing: reservation.reserved.saturating_sub(reservation.messages()),
            expires_at: moment.now.plus_ms(deadline.0.saturating_sub(moment.ticks.0)),
        })
    }

    /// The reservations for management.
    pub(super) fn infos(&self, moment: Moment) -> Vec<ReservationInfo> {
        let state = self.state();
        let infos = state.reservations.iter().map(|(n, reservation)| {
            let expires_at = match reservation.phase {
                ReservationPhase::Live { deadline } => {
                    Some(moment.now.plus_ms(deadline.0.saturating_sub(moment.ticks.0)))
                }
                ReservationPhase::Expired | ReservationPhase::Completed => None,
            };
            ReservationInfo {
                consumer: self.name.to_string(),
                epoch: state.epoch,
                done: state.done,
                n: *n,
                messages: reservation.messages(),
                standing: if expires_at.is_some() {
                    ReservationStatus::Live
                } else {
                    ReservationStatus::Expired
                },
                expires_at,
            }
        });
        infos.collect()
    }
}

fn plan_of(part: &PartitionReservation) -> PartitionPlan {
    let number = |counter| Entity::sequence_number(part.index, counter).0;
    PartitionPlan {
        partition: part.index as u16,
        ranges: part
            .ranges
            .runs()
            .map(|(first, last)| (number(first), number(last)))
            .collect(),
        messages: part.locked.len() as u64,
        bytes: part.locked.iter().map(|it| u64::from(it.bytes)).sum(),
    }
}

/// Number, stamp and consumer of a reservation id.
pub(super) fn parse_id(id: &str) -> Result<(u64, u64, &str)> {
    let mut parts = id.splitn(3, '-');
    let mut number = || parts.next()?.parse().ok();
    let (n, stamp) = (number(), number());
    if let (Some(n), Some(stamp), Some(name)) = (n, stamp, parts.next()) {
        return Ok((n, stamp, name));
    }
    let detail = format!("not the id of a reservation; use the id in its plan: `{id}`");
    Err(Error::new(ErrorKind::InvalidArgument, detail))
}
