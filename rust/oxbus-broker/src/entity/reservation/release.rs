// SPDX-License-Identifier: Apache-2.0
//! Messages that leave a reservation before it is completed: settled one by one, or given back with all the others.

use oxbus_store::Wait;
use std::collections::BTreeMap;

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Error, ErrorKind, Result, SequenceNumber};
use oxbus_store::shard_log::SpaceClass;

use super::consumer::parse_id;
use crate::entity::Entity;
use crate::shard::ReservedMessage;

/// Holds, by their cell.
pub(crate) type LockedMessages = Vec<(usize, ReservedMessage)>;

impl Entity {
    /// Lets `settle` end single holds of a live reservation; it returns the positions of those that it did not settle,
    /// and the error to tell, if there is one. What it settled is not the reservation's any more. How many.
    pub(crate) fn settle_reserved(
        &self,
        sub_queue: SubQueue,
        (id, epoch): (&str, u64),
        numbers: &[u64],
        settle: impl FnOnce(&LockedMessages) -> Result<(Vec<usize>, Option<Error>)>,
        wait: &Wait<'_>,
    ) -> Result<u64> {
        let (n, stamp, name) = parse_id(id)?;
        let consumer = self.consumer(sub_queue, name)?;
        let guard = consumer.lock_exclusive(wait)?;
        self.tick(self.core().clock().moment(), wait);
        let mut numbers: Vec<SequenceNumber> = numbers.iter().copied().map(SequenceNumber).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let locked: LockedMessages = {
            let state = consumer.state();
            state.check_epoch(name, epoch)?;
            let found = state
                .reservations
                .get(&n)
                .filter(|it| it.stamp == stamp && it.is_live());
            let reservation = found.ok_or_else(|| self.reservation_lost(n, name))?;
            let hold_of = |number: &SequenceNumber| {
                let index = usize::from(number.partition().0);
                let part = reservation.parts.iter().find(|part| part.index == index)?;
                let at = part.locked.binary_search_by_key(&number.counter(), |it| it.key.counter);
                Some((index, part.locked[at.ok()?]))
            };
            numbers.iter().filter_map(hold_of).collect()
        };
        if locked.is_empty() {
            return Ok(0);
        }
        let mut settled: BTreeMap<usize, Vec<Counter>> = BTreeMap::new();
        let (left, refused) = settle(&locked)?;
        for (position, (index, reserved)) in locked.iter().enumerate() {
            if left.binary_search(&position).is_err() {
                settled.entry(*index).or_default().push(reserved.key.counter);
            }
        }
        let mut count = 0;
        {
            let mut state = consumer.state();
            if let Some(reservation) = state.reservations.get_mut(&n) {
                for part in &mut reservation.parts {
                    let Some(gone) = settled.get(&part.index) else { continue };
                    part.locked.retain(|it| gone.binary_search(&it.key.counter).is_err());
                    count += part.ranges.without(gone);
                }
                reservation.reserved -= count;
            }
            state.note_change();
        }
        let kept = self.persist(&consumer, SpaceClass::Frees, wait);
        drop(guard);
        refused.map_or(kept.map(|()| count), Err)
    }

    /// Gives back all that a consumer has, nothing charged; how many messages.
    pub(crate) fn cancel_reservations(&self, sub_queue: SubQueue, name: &str, wait: &Wait<'_>) -> Result<u64> {
        let consumer = self.consumer(sub_queue, name).map_err(|_| {
            let detail = format!(
                "the entity has no consumer of that name; list its reservations: entity=`{}` consumer=`{name}`",
                self.name().as_str()
            );
            Error::new(ErrorKind::EntityNotFound, detail)
        })?;
        let guard = consumer.lock_exclusive(wait)?;
        let moment = self.core().clock().moment();
        self.tick(moment, wait);
        let mut ready: BTreeMap<usize, usize> = BTreeMap::new();
        let mut count = 0;
        {
            let mut state = consumer.state();
            for (_, reservation) in std::mem::take(&mut state.reservations) {
                for part in &reservation.parts {
                    if let Some(cell) = self.cell(part.index) {
                        let here = cell.release_all(sub_queue, part.locked.iter(), moment.ticks);
                        *ready.entry(part.index).or_default() += here;
                        count += here as u64;
                    }
                }
            }
            state.note_change();
        }
        for (index, ready) in ready {
            self.announce(index, crate::shard::ReadyCounts::of(sub_queue, ready), wait);
        }
        self.persist(&consumer, SpaceClass::Frees, wait)?;
        drop(guard);
        Ok(count)
    }
}
