// SPDX-License-Identifier: Apache-2.0
//! Looking at what a reservation has, and keeping it: neither waits for a disk's writes nor for other calls of the consumer.

use oxbus_store::Wait;
use std::time::Duration;

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Result, Timestamp};

use super::consumer::{PartitionReservation, ReservationPhase, parse_id};
use super::reserve::ms;
use crate::entity::Entity;
use crate::shard::ReservedMessage;

/// Messages that a reader gets the holds of at once.
const PAGE_MESSAGES: usize = 4096;

impl Entity {
    /// The next messages that a live reservation holds of a cell, within bounds that both count; and until when, in wall time.
    /// Reading is use: the reservation lasts as long from now on as if it were renewed.
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
        let found = state.reservations.get_mut(&n).filter(|it| it.stamp == stamp);
        let reservation = found.ok_or_else(lost)?;
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

    /// Moves the end of all that a consumer has to `lock` from now. Refuses when it has nothing but what lapsed.
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
        let mut lapsed = None;
        let mut is_live = false;
        for (n, reservation) in &mut state.reservations {
            if reservation.is_live() {
                reservation.phase = ReservationPhase::Live { deadline };
                reservation.lock_ms = lock_ms;
                is_live = true;
            } else if reservation.phase == ReservationPhase::Expired {
                lapsed = lapsed.or(Some(*n));
            }
        }
        if is_live {
            self.consumers.note_deadline(deadline);
        }
        match lapsed {
            Some(n) if !is_live => Err(self.reservation_lost(n, name)),
            _ => Ok(moment.now.plus_ms(deadline.0.saturating_sub(moment.ticks.0))),
        }
    }
}

/// The holds of a part between two numbers.
fn within(part: &PartitionReservation, from: Counter, to: Counter) -> &[ReservedMessage] {
    let first = part.locked.partition_point(|it| it.key.counter < from);
    let end = part.locked.partition_point(|it| it.key.counter <= to);
    &part.locked[first..end.max(first)]
}
