// SPDX-License-Identifier: Apache-2.0
//! Sending where copies of a message are dropped (B-219): which messages of a call are new, and storing those.

use oxbus_model::message::Fields;
use oxbus_model::options::Durability;
use oxbus_model::{Counter, Error, ErrorKind, Identity, Result, SequenceNumber, Timestamp};

use super::batch::{Batch, Entry};
use super::sender::{Outgoing, Sender};
use crate::entity::Entity;
use crate::entity::topic::Departing;
use crate::routing::{Route, route};
use crate::shard::{Arrival, Refusal};

/// What became of the messages of a call.
pub(super) struct Sent {
    index: usize,
    /// The number of the first new one.
    first: Counter,
    /// Which are new, by their position; `None` when all are.
    fresh: Option<Vec<bool>>,
}

impl Sent {
    /// The numbers of so many messages; that of a copy names no message (B-227).
    pub(super) fn numbers(&self, count: usize) -> Vec<SequenceNumber> {
        let mut next = self.first;
        let mut number = |position: usize| {
            let is_copy = self.fresh.as_ref().is_some_and(|fresh| !fresh[position]);
            let counter = if is_copy { Counter::MAX } else { next };
            if !is_copy {
                next = next.next();
            }
            Entity::sequence_number(self.index, counter)
        };
        (0..count).map(&mut number).collect()
    }
}

impl Sender {
    /// Where a batch goes: in a partitioned entity all its messages have one key (B-080).
    pub(super) fn route_batch(&self, batch: &Batch) -> Result<Route> {
        let partitions = self.queue.partitions();
        if self.queue.requires_session() {
            for entry in &batch.entries {
                self.queue.check_session(Fields::decode(&entry.record)?.session_id)?;
            }
        }
        if !self.queue.is_partitioned() {
            return Ok(route(None, partitions));
        }
        if !self.queue.detects_duplicates() {
            return Ok(route(batch.key()?, partitions));
        }
        let mut all: Option<String> = None;
        for entry in &batch.entries {
            let fields = Fields::decode(&entry.record)?;
            let own = self.queue.key_of(&fields)?.unwrap_or_default();
            if all.get_or_insert_with(|| own.to_owned()) != own {
                // The service's words, both spaces included (B-068, B-082).
                let detail = "Batching brokered messages with distinct SessionId, PartitionKey, or MessageId  is not supported for an \
                              entity with partitioning and duplicate detection enabled. Send one batch per key, or use send_arrow.";
                return Err(Error::new(ErrorKind::InvalidOperation, detail));
            }
        }
        Ok(route(all.as_deref(), partitions))
    }

    /// What copies of these messages would have in common with them; nothing where nobody asks.
    pub(super) fn identities(&self, entries: &[Entry]) -> Result<Vec<Option<Identity>>> {
        if !self.queue.detects_duplicates() {
            return Ok(Vec::new());
        }
        let identity = |entry: &Entry| self.queue.identity_of(&Fields::decode(&entry.record)?);
        entries.iter().map(identity).collect()
    }

    /// Stores those of some messages that are no copies of earlier ones, all or none. Without identities all are new.
    #[inline(never)]
    pub(super) fn store_new(
        &self,
        route: Route,
        bytes: usize,
        mut entries: Vec<Entry>,
        identities: &[Option<Identity>],
        now: Timestamp,
        durability: Option<Durability>,
    ) -> std::result::Result<Sent, Refusal> {
        if identities.iter().all(Option::is_none) {
            let count = entries.len();
            let outgoing = self.outgoing(entries, now);
            let (index, first) = self.store(route, bytes, count, outgoing, now, durability)?;
            let fresh = None;
            return Ok(Sent { index, first, fresh });
        }
        // A message with an identity has one place: that of its key, or the only one there is.
        let index = match route {
            Route::Keyed(partition) => usize::from(partition.0),
            Route::Keyless => 0,
        };
        let cell = self.admit_to(index, bytes, entries.len())?;
        let history = cell.history().expect("a queue with identities remembers them");
        let admission = history.admit(identities, now, self.queue.duplicate_window_ms())?;
        let durability = cell.durability(durability);
        if admission.fresh().contains(&false) {
            cell.wait_for_earlier(durability)?;
            self.reach(durability);
        }
        let mut is_fresh = admission.fresh().iter();
        entries.retain(|_| *is_fresh.next().expect("one for each"));
        let mut first = Counter::MAX;
        if !entries.is_empty() {
            let mut outgoing = self.outgoing(entries, now);
            first = self.append(index, cell, &mut outgoing, now, durability, Some(&admission))?;
        }
        self.queue.touch(now);
        let fresh = Some(admission.fresh().to_vec());
        Ok(Sent { index, first, fresh })
    }
}

impl Outgoing {
    /// The messages, with when those are due that are not active.
    pub(super) fn departing(&self) -> Vec<Departing<'_>> {
        match self {
            Self::Active(messages) => messages
                .iter()
                .map(|message| Departing { message, due: None })
                .collect(),
            Self::Mixed(arrivals) => arrivals
                .iter()
                .map(|Arrival { message, due }| Departing { message, due: *due })
                .collect(),
        }
    }
}
