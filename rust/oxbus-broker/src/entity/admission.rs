// SPDX-License-Identifier: Apache-2.0
//! Checks that a partition of an entity can accept messages: health, entity size, memory limit, sequence numbers.

use oxbus_log::event;
use oxbus_model::{Counter, Error, ErrorKind, Moment, Result};
use oxbus_store::NumberedStore as _;
use oxbus_store::Wait;

use super::Entity;
use crate::shard::Cell;

/// Memory of a stored message in addition to its record, in bytes, for the memory limit.
const SLOT_BYTES: usize = 40;

/// A partition that has assigned this many numbers accepts no more messages. The 2^32 numbers above it are for
/// messages that have already passed the check.
const NUMBERS_END: Counter = Counter(Counter::MAX.0 - (1 << 32));

impl Entity {
    /// Returns the cell for new messages of `bytes` in total. Fails if the partition cannot accept them now.
    pub(crate) fn admit(&self, index: usize, bytes: usize, messages: usize, wait: &Wait<'_>) -> Result<&Cell> {
        let shard = self.shard(index);
        shard.health().check_send(shard.id(), wait)?;
        self.core().check_memory(bytes + messages * SLOT_BYTES)?;
        self.check_capacity(index, bytes, wait)
    }

    /// [`Entity::admit`] for messages whose send is already decided: the entity's status, its size and the memory
    /// limit no longer matter. Fails if the entity was deleted, the store has failed or the wait ends.
    pub(crate) fn admit_decided(&self, index: usize, bytes: usize, wait: &Wait<'_>) -> Result<()> {
        self.check_alive()?;
        let shard = self.shard(index);
        shard.health().check_send(shard.id(), wait)?;
        match self.check_capacity(index, bytes, wait) {
            Err(error) if error.kind() == ErrorKind::Timeout => Err(error),
            // The entity had room when the send was decided.
            _ => Ok(()),
        }
    }

    /// Fails if the partition cannot accept messages of `bytes` in total now. In memory, the namespace already counts
    /// them towards its memory limit.
    pub(crate) fn check_room(&self, index: usize, bytes: usize, messages: usize, wait: &Wait<'_>) -> Result<()> {
        self.check_sends()?;
        if self.core().is_durable() {
            return self.admit(index, bytes, messages, wait).map(|_| ());
        }
        let shard = self.shard(index);
        shard.health().check_send(shard.id(), wait)?;
        self.check_capacity(index, bytes, wait).map(|_| ())
    }

    /// Checks numbers and entity size of a partition, and activates its due messages. The caller has checked its
    /// health and, for messages that are not yet in memory, the memory limit.
    pub(super) fn check_capacity(&self, index: usize, bytes: usize, wait: &Wait<'_>) -> Result<&Cell> {
        let cell = self.cell_for_append(index);
        if cell.main().next() > NUMBERS_END {
            return Err(self.numbers_exhausted_error(index));
        }
        if cell.has_schedule() {
            // Messages that became due before this one precede it. The exact time decides, because it is the enqueued
            // time of this message.
            let clock = self.core().clock();
            let moment = clock.moment();
            let now = moment.now.max(clock.now());
            self.tick(Moment { now, ..moment }, wait);
            // Another thread may be activating them.
            cell.wait_activated(wait)?;
        }
        if let Some(max) = self.settings().size_bytes_max() {
            let bytes = bytes as u64;
            if !cell.has_room(bytes, bytes * self.kind.copies(), max, || self.counted_bytes(index)) {
                return Err(self.full_error(index, max));
            }
        }
        Ok(cell)
    }

    /// Numbers are never reused, so a number always means the same message (B-108).
    #[cold]
    fn numbers_exhausted_error(&self, index: usize) -> Error {
        event!(
            QUOTA_EXCEEDED,
            entity = self.name().as_str(),
            partition = self.shard(index).id().0,
            reason = "sequence_numbers",
            limit = NUMBERS_END.0
        );
        let detail = format!(
            "the partition has assigned all its sequence numbers; move its messages to a new entity: entity=`{}`, partition={}",
            self.name().as_str(),
            self.shard(index).id()
        );
        Error::new(ErrorKind::QuotaExceeded, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Namespace, NamespaceOptions, ReceiverOptions};
    use oxbus_model::message::Fields;
    use oxbus_model::options::QueueSettings;

    #[test]
    fn partition_without_numbers_rejects_messages_b108() {
        let namespace = Namespace::open(NamespaceOptions::default()).expect("in memory");
        namespace
            .create_queue("q", QueueSettings::default(), &Wait::FOREVER)
            .expect("the queue is new");
        let sender = namespace.sender("q").expect("the queue exists");
        sender
            .send(&Fields::default(), None, &Wait::FOREVER)
            .expect("the partition has numbers");
        let receiver = namespace
            .receiver("q", ReceiverOptions::default())
            .expect("the queue exists");
        let received = receiver
            .receive_now(1, &Wait::FOREVER)
            .expect("the receive succeeds")
            .map(|deliveries| deliveries.len());
        assert_eq!(received, Some(1));
        let cell = sender.entity().cell(0).expect("the send created the cell");
        let remaining = NUMBERS_END.0 - cell.main().next().0;
        cell.main().reserve(remaining as usize);
        sender
            .entity()
            .check_capacity(0, 1, &Wait::FOREVER)
            .expect("one number is left");
        cell.main().reserve(1);
        let error = sender
            .send(&Fields::default(), None, &Wait::FOREVER)
            .expect_err("no number is left");
        assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
        assert!(error.detail().contains("sequence numbers"), "{error}");
    }
}
