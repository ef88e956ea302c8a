// SPDX-License-Identifier: Apache-2.0
//! Reservations of an entity that requires sessions: whole runs of the sessions that have waited longest.
//!
//! A session belongs to one reservation until that ends, as to a receiver. So the messages of a session are read in
//! order, and those that arrive meanwhile wait for the next reservation. The journal does not have the sessions: they
//! are those of the reserved messages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use oxbus_model::name::SubQueue;
use oxbus_model::{Moment, Result};
use oxbus_store::{ClaimedMessage, Wait};

use super::claim::Bounds;
use super::consumer::{PartitionReservation, parse_id};
use crate::entity::Entity;
use crate::shard::{AcceptedSession, Meter, ReadyCounts, ReservedMessage, SessionEnd, SessionSearch};

/// What a new reservation may still take.
struct Budget {
    messages: usize,
    bytes: u64,
    sessions: usize,
    /// True until it has a message, which may exceed the bytes.
    is_empty: bool,
    /// True once a message did not fit.
    is_full: bool,
}

impl Budget {
    fn is_left(&self) -> bool {
        self.messages > 0 && self.bytes > 0 && self.sessions > 0 && !self.is_full
    }

    /// Takes a message, if it fits.
    fn take(&mut self, message: &ClaimedMessage) -> bool {
        let bytes = message.record.len() as u64;
        if !self.is_left() || (bytes > self.bytes && !self.is_empty) {
            self.is_full = true;
            return false;
        }
        self.messages -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.is_empty = false;
        true
    }
}

impl Entity {
    /// True if reservations lock sessions there.
    pub(super) fn reserves_sessions(&self, sub_queue: SubQueue) -> bool {
        self.requires_session() && sub_queue == SubQueue::Main
    }

    /// Locks sessions and their messages within bounds, from each partition in turn. The result is empty if there are
    /// none.
    pub(super) fn claim_by_session(
        &self,
        owner: &str,
        bounds: &Bounds<'_>,
        wait: &Wait<'_>,
    ) -> Vec<PartitionReservation> {
        let with_policy = (self.core().clock().moment(), self.delivery_policy());
        let mut budget = Budget {
            messages: bounds.messages,
            bytes: bounds.bytes,
            sessions: bounds.sessions,
            is_empty: true,
            is_full: false,
        };
        let partitions = usize::from(self.partitions());
        // The first partition rotates, in case the reservation has fewer sessions than there are partitions.
        let first = self.receivable(SubQueue::Main).next_rotation() as usize % partitions;
        let indexes = (first..partitions).chain(0..first);
        let serving = indexes.filter(|index| self.shard(*index).health().serves());
        let searches = serving.map(|index| (index, SessionSearch::within(bounds.range(index))));
        let mut open: VecDeque<(usize, SessionSearch)> = searches.collect();
        let mut parts: BTreeMap<usize, PartitionReservation> = BTreeMap::new();
        let mut without_messages: Vec<(usize, Vec<Arc<AcceptedSession>>)> = Vec::new();
        while budget.is_left()
            && let Some((index, mut search)) = open.pop_front()
        {
            let Some(cell) = self.cell(index) else { continue };
            let takes = |message: &ClaimedMessage| budget.take(message);
            let (reserved, ended) = cell.reserve_next_session(owner, &mut search, with_policy, takes, wait);
            self.announce(index, ended, wait);
            let Some(reserved) = reserved else { continue };
            open.push_back((index, search));
            if reserved.messages.is_empty() {
                without_messages.push((index, reserved.sessions));
                continue;
            }
            budget.sessions -= 1;
            let part = parts.entry(index).or_default();
            part.index = index;
            cell.meter(Meter::Received, reserved.messages.len());
            part.locked.extend(reserved.messages);
            part.sessions.extend(reserved.sessions);
        }
        for (index, sessions) in without_messages {
            let mut part = PartitionReservation {
                index,
                sessions,
                ..PartitionReservation::default()
            };
            let ended = self.end_sessions(&mut part, SessionEnd::Closed, with_policy.0, wait);
            self.announce(index, ended, wait);
        }
        for part in parts.values_mut() {
            part.locked.sort_unstable_by_key(|it: &ReservedMessage| it.key.counter);
            part.drop_unlocked();
        }
        parts.into_values().collect()
    }

    /// The sessions that a live reservation holds in a cell.
    pub(crate) fn reserved_sessions(
        &self,
        sub_queue: SubQueue,
        (id, epoch): (&str, u64),
        index: usize,
    ) -> Result<Vec<Arc<AcceptedSession>>> {
        let (n, stamp, name) = parse_id(id)?;
        let consumer = self.consumer(sub_queue, name)?;
        let state = consumer.state();
        state.check_epoch(name, epoch)?;
        let reservation = state.live(n, stamp).ok_or_else(|| self.reservation_lost(n, name))?;
        let part = reservation.parts.iter().find(|part| part.index == index);
        Ok(part.map(|part| part.sessions.clone()).unwrap_or_default())
    }

    /// Releases the sessions of a part. Returns what became ready.
    pub(super) fn end_sessions(
        &self,
        part: &mut PartitionReservation,
        end: SessionEnd,
        moment: Moment,
        wait: &Wait<'_>,
    ) -> ReadyCounts {
        let sessions = std::mem::take(&mut part.sessions);
        let Some(cell) = self.cell(part.index) else {
            return ReadyCounts::default();
        };
        let policy = self.delivery_policy();
        let ended = sessions
            .iter()
            .map(|it| cell.end_session(it, end, moment, policy, wait));
        ended.fold(ReadyCounts::default(), ReadyCounts::and)
    }
}
