// SPDX-License-Identifier: Apache-2.0
//! Creates and resumes reservations.
//!
//! A consumer uses the same number again after a crash or for a retry. While the reservation is live, it gets the same
//! messages. If the reservation expired, it gets those that no other receiver took. The others no longer belong to it,
//! even if they become ready again: a batch must not grow, because the consumer may already have processed it.
//!
//! Resuming counts no delivery: messages are not to blame for the restarts of a program. A plan tells how often the
//! consumer was acquired since its reservation was created, so that the program can stop trying.

use std::sync::Arc;
use std::time::Duration;

use oxbus_log::event;
use oxbus_model::caps::RESERVATIONS_MAX;
use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Error, ErrorKind, Moment, Result, SequenceNumber, Ticks, Timestamp};
use oxbus_store::Wait;
use oxbus_store::shard_log::SpaceClass;

use super::claim::Bounds;
use super::consumer::{Consumer, ConsumerState, PartitionReservation, Reservation, ReservationPhase};
use super::plan::{ReservationPlan, ReserveOptions};
use crate::entity::Entity;
use crate::shard::{AcceptedSession, RESERVATION_LOCK, ReadyCounts, ReservedMessage, SessionEnd};

/// Messages that became ready, by cell index.
pub(super) type CellReadyCounts = Vec<(usize, ReadyCounts)>;

/// Whole milliseconds.
pub(super) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Entity {
    /// Reserves messages under a new number, or resumes the reservation with this number. Returns `None` if no message
    /// is ready.
    pub(crate) fn reserve(
        &self,
        sub_queue: SubQueue,
        name: &str,
        (epoch, n): (u64, u64),
        options: &ReserveOptions,
        wait: &Wait<'_>,
    ) -> Result<Option<ReservationPlan>> {
        let consumer = self.consumer(sub_queue, name)?;
        let guard = consumer.lock_exclusive(wait)?;
        self.tick(self.core().clock().moment(), wait);
        self.check_home_serves(&consumer, wait)?;
        let is_known = {
            let state = consumer.state();
            state.check_epoch(name, epoch)?;
            state.check_not_completed(name, n)?;
            let is_known = state.reservations.contains_key(&n);
            if !is_known {
                check_next(&state, name, n)?;
            }
            is_known
        };
        let plan = if is_known {
            self.resume(&consumer, n, options.lock, wait).map(Some)
        } else {
            self.reserve_new(&consumer, n, options, wait)
        };
        drop(guard);
        plan
    }

    /// Resumes the reservation with this number.
    pub(crate) fn plan(
        &self,
        sub_queue: SubQueue,
        name: &str,
        (epoch, n): (u64, u64),
        lock: Duration,
        wait: &Wait<'_>,
    ) -> Result<ReservationPlan> {
        let consumer = self.consumer(sub_queue, name)?;
        let guard = consumer.lock_exclusive(wait)?;
        self.tick(self.core().clock().moment(), wait);
        self.check_home_serves(&consumer, wait)?;
        {
            let state = consumer.state();
            state.check_epoch(name, epoch)?;
            state.check_not_completed(name, n)?;
        }
        let plan = self.resume(&consumer, n, lock, wait);
        drop(guard);
        plan
    }

    fn check_home_serves(&self, consumer: &Consumer, wait: &Wait<'_>) -> Result<()> {
        let shard = self.shard(consumer.home);
        shard.health().check_serves(shard.id(), wait)
    }

    /// Deadline of a reservation that is created, resumed or renewed now.
    pub(super) fn deadline(&self, ticks: Ticks, lock_ms: u64) -> Ticks {
        ticks.plus_ms(lock_ms + self.core().clock().lag_ms())
    }

    fn reserve_new(
        &self,
        consumer: &Consumer,
        n: u64,
        options: &ReserveOptions,
        wait: &Wait<'_>,
    ) -> Result<Option<ReservationPlan>> {
        let starts = consumer.state().starts.clone();
        let ends = options.upto.iter().flatten();
        let ends: Vec<Counter> = ends.map(|end| SequenceNumber(*end).counter()).collect();
        let bounds = Bounds {
            messages: options.messages,
            bytes: options.bytes,
            sessions: options.sessions.unwrap_or(usize::MAX),
            starts: &starts,
            ends: &ends,
        };
        let parts = if self.reserves_sessions(consumer.sub_queue) {
            self.claim_by_session(&consumer.name, &bounds, wait)
        } else {
            self.claim_fairly(consumer.sub_queue, &bounds, wait)
        };
        if parts.is_empty() {
            return Ok(None);
        }
        let lock_ms = ms(options.lock);
        let deadline = self.deadline(self.core().clock().ticks(), lock_ms);
        {
            let mut state = consumer.state();
            let reservation = Reservation {
                stamp: state.stamp,
                epoch: state.epoch.saturating_sub(options.attempts),
                lock_ms,
                reserved: parts.iter().map(|part| part.ranges.len()).sum(),
                phase: ReservationPhase::Live { deadline },
                parts,
            };
            state.stamp += 1;
            state.reservations.insert(n, reservation);
            state.note_change();
        }
        self.consumers.note_deadline(deadline);
        self.persist(consumer, SpaceClass::Adds, wait)?;
        self.current_plan(consumer, n).map(Some)
    }

    fn resume(&self, consumer: &Consumer, n: u64, lock: Duration, wait: &Wait<'_>) -> Result<ReservationPlan> {
        if consumer.has_expired(n) {
            // Cached messages are undelivered, so the reservation may claim them again.
            self.recall_all(consumer.sub_queue, wait);
        }
        let moment = self.core().clock().moment();
        let ended = {
            let mut state = consumer.state();
            let ended = self.make_live(consumer, &mut state, n, (moment, ms(lock)), wait)?;
            state.note_change();
            ended
        };
        for (index, ended) in ended {
            self.announce(index, ended, wait);
        }
        self.persist(consumer, SpaceClass::Frees, wait)?;
        self.current_plan(consumer, n)
    }

    /// Makes a reservation live, or extends a live one.
    fn make_live(
        &self,
        consumer: &Consumer,
        state: &mut ConsumerState,
        n: u64,
        (moment, lock_ms): (Moment, u64),
        wait: &Wait<'_>,
    ) -> Result<CellReadyCounts> {
        let next = state.next_n();
        let Some(reservation) = state.reservations.get_mut(&n) else {
            let detail = format!(
                "the consumer has no reservation with this number: it was cancelled or never created; reserve the next one: \
                 consumer=`{}` n={n} next={next}",
                consumer.name
            );
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        };
        for part in &reservation.parts {
            let shard = self.shard(part.index);
            shard.health().check_serves(shard.id(), wait)?;
        }
        let deadline = self.deadline(moment.ticks, lock_ms);
        let (until, ended) = match reservation.phase {
            ReservationPhase::Completed => {
                let detail = format!(
                    "the number is completed except in a partition that failed; complete it again: consumer=`{}` n={n}",
                    consumer.name
                );
                return Err(Error::new(ErrorKind::CheckpointBehind, detail));
            }
            ReservationPhase::Expired => (deadline, self.relock(consumer, reservation, moment.now, wait)),
            ReservationPhase::Live { deadline: before } => (deadline.max(before), Vec::new()),
        };
        reservation.lock_ms = lock_ms;
        reservation.phase = ReservationPhase::Live { deadline: until };
        self.consumers.note_deadline(until);
        Ok(ended)
    }

    /// Locks the available messages of a reservation, and removes the others from it for good.
    fn relock(
        &self,
        consumer: &Consumer,
        reservation: &mut Reservation,
        now: Timestamp,
        wait: &Wait<'_>,
    ) -> CellReadyCounts {
        let mut ended = Vec::new();
        for part in &mut reservation.parts {
            if let Some(one) = self.lock_part(consumer, part, now, &[], wait) {
                ended.push((part.index, one));
                part.drop_unlocked();
            }
        }
        ended
    }

    /// Locks the available messages of a part, unless they expired before `now`. Sessions in `own` are the caller's
    /// already. Returns what became ready thereby, or
    /// `None` if the partition has failed.
    pub(super) fn lock_part(
        &self,
        consumer: &Consumer,
        part: &mut PartitionReservation,
        now: Timestamp,
        own: &[Arc<AcceptedSession>],
        wait: &Wait<'_>,
    ) -> Option<ReadyCounts> {
        let cell = self.cell(part.index)?;
        let (sub_queue, policy) = (consumer.sub_queue, self.delivery_policy());
        let counters: Vec<Counter> = part.ranges.counters().collect();
        if self.reserves_sessions(sub_queue) {
            let moment = self.core().clock().moment();
            let reserved = cell.reserve_with_sessions((&counters, now), (&consumer.name, own), (moment, policy), wait);
            let reserved = reserved.ok()?;
            (part.locked, part.sessions) = (reserved.messages, reserved.sessions);
            return Some(reserved.ended);
        }
        let mut claims = Vec::with_capacity(counters.len());
        let expire = (now, policy.dead_letter_expired);
        let dead_lettered =
            cell.claim_these_or_expire(sub_queue, &counters, RESERVATION_LOCK, expire, &mut claims, wait);
        part.locked = claims.iter().map(ReservedMessage::from).collect();
        Some(ReadyCounts::of(SubQueue::DeadLetter, dead_lettered))
    }

    /// Expires a reservation: unlocks its messages and sessions.
    pub(super) fn expire(
        &self,
        sub_queue: SubQueue,
        reservation: &mut Reservation,
        moment: Moment,
        wait: &Wait<'_>,
    ) -> CellReadyCounts {
        reservation.phase = ReservationPhase::Expired;
        let mut ended = Vec::new();
        for part in &mut reservation.parts {
            let locked = std::mem::take(&mut part.locked);
            if let Some(cell) = self.cell(part.index) {
                // A partition out of service cannot dead-letter messages.
                let serves = self.shard(part.index).health().serves();
                let max = if serves {
                    self.deliveries_max(sub_queue)
                } else {
                    u32::MAX
                };
                let expired = cell.expire_reservation(sub_queue, &locked, max, moment.ticks, wait);
                let sessions = self.end_sessions(part, SessionEnd::Expired, moment, wait);
                ended.push((part.index, expired.and(sessions)));
            }
        }
        ended
    }

    /// Maximum delivery count of a message, which is unlimited in a dead-letter queue (B-179).
    fn deliveries_max(&self, sub_queue: SubQueue) -> u32 {
        match sub_queue {
            SubQueue::Main => self.settings().max_delivery_count,
            SubQueue::DeadLetter => u32::MAX,
        }
    }

    /// The plan of a live reservation.
    fn current_plan(&self, consumer: &Consumer, n: u64) -> Result<ReservationPlan> {
        let moment = self.core().clock().moment();
        let plan = consumer.plan(&consumer.state(), n, moment);
        plan.ok_or_else(|| self.reservation_lost(n, &consumer.name))
    }

    /// The error of a reservation that is no longer live.
    pub(super) fn reservation_lost(&self, n: u64, name: &str) -> Error {
        event!(
            LOCK_LOST,
            entity = self.name().as_str(),
            consumer = name,
            reservation = n
        );
        let detail = format!(
            "the reservation is not live any more: it expired, was completed or was cancelled; plan it again: entity=`{}` \
             consumer=`{name}` n={n}",
            self.name().as_str()
        );
        Error::new(ErrorKind::MessageLockLost, detail)
    }
}

/// Fails if the number is not the next one, or the consumer has the maximum number of reservations.
fn check_next(state: &ConsumerState, name: &str, n: u64) -> Result<()> {
    let next = state.next_n();
    if n != next {
        let detail = format!(
            "a new reservation must have the number after the last one; reserve that: consumer=`{name}` n={n} next={next}"
        );
        return Err(Error::new(ErrorKind::InvalidOperation, detail));
    }
    if state.reservations.len() >= RESERVATIONS_MAX {
        let detail = format!(
            "the consumer has the maximum number of reservations; complete the first one: consumer=`{name}` n={n} \
             limit={RESERVATIONS_MAX}"
        );
        return Err(Error::new(ErrorKind::InvalidOperation, detail));
    }
    Ok(())
}
