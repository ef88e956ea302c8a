// SPDX-License-Identifier: Apache-2.0
//! Whether a partition of an entity takes messages now: its health, its room, the memory limit.

use oxbus_log::event;
use oxbus_model::{Counter, Error, ErrorKind, Moment, Result};
use oxbus_store::NumberedStore as _;
use oxbus_store::Wait;

use super::Entity;
use crate::shard::Cell;

/// Bytes a stored message takes beyond its record, for the memory limit.
const SLOT_BYTES: usize = 40;

/// A partition that has given out so many numbers takes no messages any more: each in flight finds one below the end.
const NUMBERS_END: Counter = Counter(Counter::MAX.0 - (1 << 32));

impl Entity {
    /// The cell that takes messages of so many bytes; refuses when it cannot now.
    pub(crate) fn admit(&self, index: usize, bytes: usize, messages: usize, wait: &Wait<'_>) -> Result<&Cell> {
        let shard = self.shard(index);
        shard.health().check_send(shard.id(), wait)?;
        self.core().check_memory(bytes + messages * SLOT_BYTES)?;
        self.check_capacity(index, bytes, wait)
    }

    /// The same for messages that are to come in whatever their entity says meanwhile: only a store that does not work refuses.
    pub(crate) fn admit_decided(&self, index: usize, bytes: usize, wait: &Wait<'_>) -> Result<()> {
        self.check_alive()?;
        let shard = self.shard(index);
        shard.health().check_send(shard.id(), wait)?;
        match self.check_capacity(index, bytes, wait) {
            Err(error) if error.kind() == ErrorKind::Timeout => Err(error),
            // There was room when it was decided.
            _ => Ok(()),
        }
    }

    /// Refuses messages of so many bytes that could not come in now. Those in memory count towards its limit already.
    pub(crate) fn check_room(&self, index: usize, bytes: usize, messages: usize, wait: &Wait<'_>) -> Result<()> {
        self.check_sends()?;
        if self.core().is_durable() {
            return self.admit(index, bytes, messages, wait).map(|_| ());
        }
        let shard = self.shard(index);
        shard.health().check_send(shard.id(), wait)?;
        self.check_capacity(index, bytes, wait).map(|_| ())
    }

    /// The same for a message that is moved here by the entity that has it, and so is in memory already; whether the
    /// partition takes any is known.
    pub(super) fn check_capacity(&self, index: usize, bytes: usize, wait: &Wait<'_>) -> Result<&Cell> {
        let cell = self.cell_for_append(index);
        if cell.main().next() > NUMBERS_END {
            return Err(self.numbers_exhausted_error(index));
        }
        if cell.has_schedule() {
            // What became active before this message comes before it: by the exact time, which stamps this one.
            let clock = self.core().clock();
            let moment = clock.moment();
            let now = moment.now.max(clock.now());
            self.tick(Moment { now, ..moment }, wait);
            // Also when somebody else activates it.
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

    /// Numbers are never used again, so what they name stays what it is (B-108).
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
            "the partition has given out all its sequence numbers; move its messages to a new entity: entity=`{}`, partition={}",
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
    fn a_partition_without_numbers_refuses_messages_b108() {
        let namespace = Namespace::open(NamespaceOptions::default()).expect("in memory");
        namespace
            .create_queue("q", QueueSettings::default(), &Wait::FOREVER)
            .expect("it is new");
        let sender = namespace.sender("q").expect("it is there");
        sender
            .send(&Fields::default(), None, &Wait::FOREVER)
            .expect("there are numbers");
        let receiver = namespace
            .receiver("q", ReceiverOptions::default())
            .expect("it is there");
        let received = receiver
            .receive_now(1, &Wait::FOREVER)
            .expect("it works")
            .map(|deliveries| deliveries.len());
        assert_eq!(received, Some(1));
        let cell = sender.entity().cell(0).expect("it was used");
        let given_out = NUMBERS_END.0 - cell.main().next().0;
        cell.main().reserve(given_out as usize);
        sender
            .entity()
            .check_capacity(0, 1, &Wait::FOREVER)
            .expect("the last number");
        cell.main().reserve(1);
        let refusal = sender
            .send(&Fields::default(), None, &Wait::FOREVER)
            .expect_err("there is none");
        assert_eq!(refusal.kind(), ErrorKind::QuotaExceeded);
        assert!(refusal.detail().contains("sequence numbers"), "{refusal}");
    }
}
