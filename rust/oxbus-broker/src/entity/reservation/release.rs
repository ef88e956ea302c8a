// SPDX-License-Identifier: Apache-2.0
//! Ends reservations without completion: settles single messages, or releases all of them.

use oxbus_store::Wait;
use std::collections::BTreeMap;

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Error, ErrorKind, Result, SequenceNumber};
use oxbus_store::shard_log::SpaceClass;

use super::consumer::parse_id;
use crate::entity::Entity;
use crate::shard::{ReadyCounts, ReservedMessage, SessionEnd};

/// Locked messages with their cell index.
pub(crate) type LockedMessages = Vec<(usize, ReservedMessage)>;

impl Entity {
    /// Settles single messages of a live reservation with `settle` and removes them from it. Returns their number.
    /// `settle` returns the ascending positions of messages that it did not settle, and the error to report, if any.
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
            let reservation = state.live(n, stamp).ok_or_else(|| self.reservation_lost(n, name))?;
            let locked_message = |number: &SequenceNumber| {
                let index = usize::from(number.partition().0);
                let part = reservation.parts.iter().find(|part| part.index == index)?;
                let at = part.locked.binary_search_by_key(&number.counter(), |it| it.key.counter);
                Some((index, part.locked[at.ok()?]))
            };
            numbers.iter().filter_map(locked_message).collect()
        };
        if locked.is_empty() {
            return Ok(0);
        }
        let mut settled: BTreeMap<usize, Vec<Counter>> = BTreeMap::new();
        let (unsettled, error) = settle(&locked)?;
        for (position, (index, reserved)) in locked.iter().enumerate() {
            if unsettled.binary_search(&position).is_err() {
                settled.entry(*index).or_default().push(reserved.key.counter);
            }
        }
        let mut count = 0;
        {
            let mut state = consumer.state();
            if let Some(reservation) = state.reservations.get_mut(&n) {
                for part in &mut reservation.parts {
                    let Some(settled) = settled.get(&part.index) else {
                        continue;
                    };
                    part.locked.retain(|it| settled.binary_search(&it.key.counter).is_err());
                    count += part.ranges.without(settled);
                }
                reservation.reserved -= count;
            }
            state.note_change();
        }
        let persisted = self.persist(&consumer, SpaceClass::Frees, wait);
        drop(guard);
        error.map_or(persisted.map(|()| count), Err)
    }

    /// Releases all messages that a consumer has reserved, without counting a delivery. Returns their number.
    pub(crate) fn cancel_reservations(&self, sub_queue: SubQueue, name: &str, wait: &Wait<'_>) -> Result<u64> {
        let consumer = self.consumer(sub_queue, name).map_err(|_| {
            let detail = format!(
                "the entity has no consumer with this name; list its reservations: entity=`{}` consumer=`{name}`",
                self.name().as_str()
            );
            Error::new(ErrorKind::EntityNotFound, detail)
        })?;
        let guard = consumer.lock_exclusive(wait)?;
        let moment = self.core().clock().moment();
        self.tick(moment, wait);
        let mut ready: BTreeMap<usize, ReadyCounts> = BTreeMap::new();
        let mut count = 0;
        {
            let mut state = consumer.state();
            for (_, mut reservation) in std::mem::take(&mut state.reservations) {
                for part in &mut reservation.parts {
                    if let Some(cell) = self.cell(part.index) {
                        let released = cell.release_all(sub_queue, part.locked.iter(), moment.ticks);
                        let sessions = self.end_sessions(part, SessionEnd::Closed, moment, wait);
                        let ready = ready.entry(part.index).or_default();
                        *ready = ready.and(ReadyCounts::of(sub_queue, released)).and(sessions);
                        count += released as u64;
                    }
                }
            }
            state.note_change();
        }
        for (index, ready) in ready {
            self.announce(index, ready, wait);
        }
        self.persist(&consumer, SpaceClass::Frees, wait)?;
        drop(guard);
        Ok(count)
    }
}
