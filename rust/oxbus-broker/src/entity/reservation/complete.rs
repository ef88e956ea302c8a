// SPDX-License-Identifier: Apache-2.0
//! Completing all that a consumer has up to a number.
//!
//! The messages first, by partition, and once they are as safe as a completion is, the record that says so. A crash in
//! between is mended by doing it again: what is gone stays gone, and the rest follows.

use oxbus_model::name::SubQueue;
use oxbus_model::{Result, Ticks, Timestamp};
use oxbus_store::LockKey;
use oxbus_store::shard_log::Room;

use super::consumer::{Consumer, Part, Phase, State};
use super::terms::Completed;
use crate::entity::Entity;
use crate::shard::Cell;
use crate::shard::journal::Pending;

/// What is on its way into the journals.
type OnTheWay<'a> = Vec<(&'a Cell, Pending)>;

impl Entity {
    /// Completes the reservations up to a number. One that was never made here counts as done, too: a checkpoint may know
    /// more than a broker that lost its files.
    pub(crate) fn complete_up_to(&self, sub_queue: SubQueue, name: &str, (epoch, n): (u64, u64)) -> Result<Completed> {
        let consumer = self.consumer(sub_queue, name)?;
        let turn = consumer.take_turn()?;
        self.tick(self.core().clock().moment());
        if consumer.has_lapsed(n) {
            // What stands in a cache is nobody's yet.
            self.recall_all(sub_queue);
        }
        let mut on_the_way = OnTheWay::new();
        let completed = {
            let mut state = consumer.state();
            state.check_epoch(name, epoch)?;
            if n > state.done {
                self.complete_reservations(&consumer, &mut state, n, &mut on_the_way)?
            } else {
                Completed::default()
            }
        };
        for (cell, pending) in on_the_way.iter().skip(1) {
            cell.begin(pending);
        }
        for (cell, pending) in &on_the_way {
            cell.finish(Some(pending))?;
        }
        {
            let mut state = consumer.state();
            if n > state.done {
                state.done = n;
                state.reservations.retain(|number, _| *number > n);
                state.change();
            }
        }
        self.keep(&consumer, Room::Frees)?;
        drop(turn);
        Ok(completed)
    }

    fn complete_reservations<'a>(
        &'a self,
        consumer: &Consumer,
        state: &mut State,
        n: u64,
        on_the_way: &mut OnTheWay<'a>,
    ) -> Result<Completed> {
        let concerned = || {
            state
                .reservations
                .range(..=n)
                .flat_map(|(_, reservation)| &reservation.parts)
        };
        for index in concerned().map(|part| part.index).chain([consumer.home]) {
            let shard = self.shard(index);
            shard.health().check_serves(shard.id())?;
        }
        let ticks = self.core().clock().ticks();
        let mut completed = Completed::default();
        let mut failed = None;
        for (_, reservation) in state.reservations.range_mut(..=n) {
            if reservation.phase == Phase::Completed {
                // By a call that failed at another partition, and did not wait for this one.
                let cells = reservation.parts.iter().filter_map(|part| self.cell(part.index));
                on_the_way.extend(cells.filter_map(|cell| Some((cell, cell.noted_so_far()?))));
                continue;
            }
            let is_lapsed = reservation.phase == Phase::Lapsed;
            reservation.phase = Phase::Completed;
            for part in &mut reservation.parts {
                if is_lapsed {
                    // It was handled, so that its time was over meanwhile does not matter.
                    self.lock_part(consumer.sub_queue, part, Timestamp(0));
                }
                match self.complete_part(consumer.sub_queue, part, ticks, on_the_way) {
                    Ok(gone) => {
                        completed.completed += gone;
                        completed.late += part.ranges.len() - gone;
                    }
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
        }
        failed.map_or(Ok(completed), Err)
    }

    /// Completes what a part holds; how many messages.
    fn complete_part<'a>(
        &'a self,
        sub_queue: SubQueue,
        part: &mut Part,
        ticks: Ticks,
        on_the_way: &mut OnTheWay<'a>,
    ) -> Result<u64> {
        let Some(cell) = self.cell(part.index) else {
            return Ok(0);
        };
        let keys: Vec<LockKey> = std::mem::take(&mut part.held).iter().map(|it| it.key).collect();
        let mut lost = Vec::new();
        let pending = cell.complete(sub_queue, &keys, ticks, &mut lost)?;
        on_the_way.extend(pending.map(|pending| (cell, pending)));
        Ok((keys.len() - lost.len()) as u64)
    }
}
