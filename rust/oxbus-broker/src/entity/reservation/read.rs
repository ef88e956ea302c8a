// SPDX-License-Identifier: Apache-2.0
//! Reads and renews reservations, without waiting for disk writes or for other calls of the consumer.

use oxbus_store::Wait;
use std::time::Duration;

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Result, Timestamp};

use super::consumer::{PartitionReservation, ReservationPhase, parse_id};
use super::reserve::ms;
use crate::entity::Entity;
use crate::shard::ReservedMessage;

/// Maximum number of messages that one call returns.
const PAGE_MESSAGES: usize = 4096;

impl Entity {
    /// The next locked messages of a live reservation in a cell, from `from` to `to` inclusive, and the wall time at
    /// which the reservation expires. Reading renews the reservation.
    pub(crate) fn read_reservation(
        &self,
        sub_queue: SubQueue,
        (id, epoch): (&str, u64),
        index: usize,
        (from, to): (Counter, Counter),
        wait: &Wait<'_>,
    ) -> Result<(Vec<ReservedMessage>, Timestamp)> {
        let moment = self.core().clock().moment();
        self.tick(moment, wait);
        let (n, stamp, name) = parse_id(id)?;
        let consumer = self.consumer(sub_queue, name)?;
        let mut state = consumer.state();
        state.check_epoch(name, epoch)?;
        let lost = || self.reservation_lost(n, name);
        let reservation = state.reservations.get_mut(&n).filter(|it| it.stamp == stamp);
        let reservation = reservation.ok_or_else(lost)?;
        let ReservationPhase::Live { deadline } = reservation.phase else {
            return Err(lost());
        };
        let deadline = deadline.max(self.deadline(moment.ticks, reservation.lock_ms));
        reservation.phase = ReservationPhase::Live { deadline };
        let part = reservation.parts.iter().find(|part| part.index == index);
        let locked = part.map_or(&[][..], |part| within(part, from, to)).iter();
        let until = moment.now.plus_ms(deadline.0.saturating_sub(moment.ticks.0));
        Ok((locked.take(PAGE_MESSAGES).copied().collect(), until))
    }

    /// Renews all live reservations of a consumer: they expire `lock` from now. Fails if all its reservations have
    /// expired.
    pub(crate) fn renew_reservations(
        &self,
        sub_queue: SubQueue,
        name: &str,
        epoch: u64,
        lock: Duration,
        wait: &Wait<'_>,
    ) -> Result<Timestamp> {
        let moment = self.core().clock().moment();
        self.tick(moment, wait);
        let consumer = self.consumer(sub_queue, name)?;
        let mut state = consumer.state();
        state.check_epoch(name, epoch)?;
        let lock_ms = ms(lock);
        let deadline = self.deadline(moment.ticks, lock_ms);
        let mut expired = None;
        let mut is_live = false;
        for (n, reservation) in &mut state.reservations {
            if reservation.is_live() {
                reservation.phase = ReservationPhase::Live { deadline };
                reservation.lock_ms = lock_ms;
                is_live = true;
            } else if reservation.phase == ReservationPhase::Expired {
                expired = expired.or(Some(*n));
            }
        }
        if is_live {
            self.consumers.note_deadline(deadline);
        }
        drop(state);
        self.check_owned(wait)?;
        match expired {
            Some(n) if !is_live => Err(self.reservation_lost(n, name)),
            _ => Ok(moment.now.plus_ms(deadline.0.saturating_sub(moment.ticks.0))),
        }
    }
}

/// The locked messages of a part from `from` to `to` inclusive.
fn within(part: &PartitionReservation, from: Counter, to: Counter) -> &[ReservedMessage] {
    let first = part.locked.partition_point(|it| it.key.counter < from);
    let end = part.locked.partition_point(|it| it.key.counter <= to);
    &part.locked[first..end.max(first)]
}
