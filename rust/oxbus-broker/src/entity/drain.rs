// SPDX-License-Identifier: Apache-2.0
//! Drains a partition: reads its waiting messages page by page, and settles them by number once they are stored
//! elsewhere.
//!
//! Records on disk are read for the caller without loading the messages into memory. The messages are not locked
//! between reading and settling. Another read therefore returns the same messages until they are settled, and settling
//! them again has no effect. Draining requires exclusive access to the partition: a message that a receiver takes in
//! the meantime stays with the receiver.

use std::sync::Arc;

use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Error, ErrorKind, PartitionId, Result};
use oxbus_store::{ClaimedMessage, CoalescingReader, LockKey, MessagePhase, Outcome, PeekedMessage, Wait};

use super::Entity;
use crate::record::with_dead_letter;
use crate::shard::{Cell, ReadyCounts};
use crate::write::{LockEnd, Removal, ShardWrite, WriteError, WriteOperation};

/// Messages read in one call of a store.
const PAGE_MESSAGES: usize = 256;

/// Settlement of drained messages.
#[derive(Debug, Clone, Copy)]
pub enum DrainOutcome<'a> {
    /// Remove them.
    Complete,
    /// Defer them: only a receive by number returns them.
    Defer,
    /// Move them to the dead-letter queue.
    DeadLetter {
        /// Short reason.
        reason: Option<&'a str>,
        /// Description of the reason.
        description: Option<&'a str>,
    },
}

/// Waiting messages of a partition.
#[derive(Debug)]
pub struct DrainPage {
    /// The messages in order; their records may be on disk.
    pub messages: Vec<PeekedMessage>,
    /// Start of the next page; `None` at the end.
    pub next: Option<Counter>,
}

impl Entity {
    /// Returns the waiting messages of a partition from counter `from` on: up to `bytes_max` bytes in total, but at
    /// least one message.
    pub fn drain_page(
        &self,
        sub_queue: SubQueue,
        partition: PartitionId,
        from: Counter,
        bytes_max: usize,
        wait: &Wait<'_>,
    ) -> Result<DrainPage> {
        let (_, cell) = self.cell_to_drain(sub_queue, partition, wait)?;
        let now = self.now();
        let mut drained = DrainPage {
            messages: Vec::new(),
            next: None,
        };
        let (mut from, mut bytes) = (from, 0);
        loop {
            let mut page: Vec<PeekedMessage> = Vec::new();
            cell.store(sub_queue).peek(from, PAGE_MESSAGES, &mut page);
            let Some(last) = page.last() else { return Ok(drained) };
            from = last.counter.next();
            for message in page.into_iter().filter(|message| is_available(message.phase)) {
                if sub_queue == SubQueue::Main && message.expires_at <= now {
                    continue;
                }
                bytes += message.record.len();
                if bytes > bytes_max && !drained.messages.is_empty() {
                    drained.next = Some(message.counter);
                    return Ok(drained);
                }
                drained.messages.push(message);
            }
        }
    }

    /// Calls `each` for every message with its record, in order. Records that are adjacent on disk are read together.
    pub fn read_records(
        &self,
        partition: PartitionId,
        messages: &[PeekedMessage],
        reader: &mut CoalescingReader,
        mut each: impl FnMut(&PeekedMessage, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let cell = self.cell_for_append(usize::from(partition.0));
        let mut next = messages.iter();
        let records = messages.iter().map(|message| &message.record);
        cell.load_each(records, reader, |bytes| {
            let message = next.next().expect("each record is loaded once");
            each(message, bytes)
        })
    }

    /// Settles waiting messages of a partition. Returns their number. `counters` must be ascending. Skips messages
    /// that no longer exist or that a receiver has.
    pub fn settle_drained(
        self: &Arc<Self>,
        sub_queue: SubQueue,
        partition: PartitionId,
        counters: &[Counter],
        outcome: DrainOutcome<'_>,
        wait: &Wait<'_>,
    ) -> Result<usize> {
        if sub_queue == SubQueue::DeadLetter && matches!(outcome, DrainOutcome::DeadLetter { .. }) {
            let detail = "a message of the dead-letter queue cannot be dead-lettered; complete or defer it";
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        let (index, cell) = self.cell_to_drain(sub_queue, partition, wait)?;
        let mut settled = 0;
        for counters in counters.chunks(PAGE_MESSAGES * 16) {
            let locked = self.lock_drainable((sub_queue, index, cell), counters, wait);
            let keys: Vec<LockKey> = locked.iter().map(|claimed| claimed.key).collect();
            let ended = self.settle_locked((sub_queue, index, cell), &locked, outcome, wait);
            // Releases the messages that could not be settled. This has no effect on settled ones.
            self.release_all((sub_queue, index, cell), keys.into_iter(), wait);
            settled += ended.map_err(|error| error.after_partial(settled > 0))?;
        }
        Ok(settled)
    }

    /// Checks that the messages of a partition may be received. Returns its index and cell.
    fn cell_to_drain(&self, sub_queue: SubQueue, partition: PartitionId, wait: &Wait<'_>) -> Result<(usize, &Cell)> {
        self.check_bulk_access(sub_queue, wait)?;
        let index = usize::from(partition.0);
        if partition.0 >= self.partitions() {
            let detail = format!("no such partition; use 0 to {}: {partition}", self.partitions() - 1);
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        let shard = self.shard(index);
        shard.health().check_serves(shard.id(), wait)?;
        Ok((index, self.cell_for_append(index)))
    }

    fn lock_drainable(
        &self,
        at: (SubQueue, usize, &Cell),
        counters: &[Counter],
        wait: &Wait<'_>,
    ) -> Vec<ClaimedMessage> {
        let (sub_queue, _, cell) = at;
        let mut locked = Vec::with_capacity(counters.len());
        let mut remaining = counters.iter().copied().peekable();
        while let Some(&first) = remaining.peek() {
            let mut page: Vec<PeekedMessage> = Vec::new();
            cell.store(sub_queue).peek(first, PAGE_MESSAGES, &mut page);
            let Some(last) = page.last().map(|message| message.counter) else {
                break;
            };
            page.retain(|message| {
                while remaining.next_if(|counter| *counter < message.counter).is_some() {}
                remaining.next_if_eq(&message.counter).is_some() && is_available(message.phase)
            });
            while remaining.next_if(|counter| *counter <= last).is_some() {}
            self.lock_available(at, page, &mut locked, wait);
        }
        locked
    }

    fn settle_locked(
        &self,
        (sub_queue, index, cell): (SubQueue, usize, &Cell),
        locked: &[ClaimedMessage],
        outcome: DrainOutcome<'_>,
        wait: &Wait<'_>,
    ) -> Result<usize> {
        let moment = self.core().clock().moment();
        let count = locked.len();
        let keys: Vec<LockKey> = locked.iter().map(|claimed| claimed.key).collect();
        let writes: Vec<WriteOperation<'_>> = match outcome {
            DrainOutcome::Complete => vec![WriteOperation::Remove {
                cell,
                sub_queue,
                removal: Removal::Completed(&keys),
            }],
            DrainOutcome::Defer => {
                let defer = || LockEnd::Outcome(Outcome::Defer { replacement: None });
                let deferred = keys
                    .iter()
                    .map(|key| WriteOperation::settle(cell, sub_queue, *key, defer()));
                deferred.collect()
            }
            DrainOutcome::DeadLetter { reason, description } => {
                let moved = locked.iter().map(|claimed| {
                    let record = with_dead_letter(&cell.load(&claimed.record)?, reason, description, &[])?;
                    let dead_letter = LockEnd::DeadLetter(record);
                    Ok(WriteOperation::settle(cell, sub_queue, claimed.key, dead_letter))
                });
                moved.collect::<Result<_>>()?
            }
        };
        let mut writes: Vec<ShardWrite<'_>> = writes.into_iter().map(|it| ShardWrite::of(it, moment)).collect();
        let mut tickets = Vec::with_capacity(writes.len());
        let to_error = |error: WriteError| {
            error.or_lost(|_| {
                let detail = "another call took one of the messages; repeat the call";
                Error::new(ErrorKind::MessageLockLost, detail)
            })
        };
        let mut failed = None;
        for write in &mut writes {
            match write.begin(cell, cell.durability(None), wait) {
                Ok(ticket) => tickets.push(ticket),
                Err(error) => {
                    failed = Some(to_error(error));
                    break;
                }
            }
        }
        let begun = tickets.len();
        // All entries are in one journal, so once the last is durable, all are.
        for ticket in tickets.into_iter().rev() {
            if let Err(error) = ticket.finish(wait) {
                // Its effect is unknown, because the change is in memory.
                failed = Some(to_error(error));
                break;
            }
        }
        let dead_letters = match outcome {
            DrainOutcome::DeadLetter { .. } => begun,
            _ => 0,
        };
        let ended = ReadyCounts {
            dead_letters,
            ..ReadyCounts::default()
        };
        self.announce(index, ended, wait);
        failed.map_or(Ok(count), |error| Err(error.after_partial(begun > 0)))
    }
}

/// True if the message was not delivered to a receiver.
fn is_available(phase: MessagePhase) -> bool {
    matches!(phase, MessagePhase::Ready | MessagePhase::Cached)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use oxbus_model::message::{Body, Fields};
    use oxbus_model::name::SubQueue;
    use oxbus_model::options::{Durability, QueueSettings};
    use oxbus_model::{Counter, Effect, PartitionId};
    use oxbus_store::Wait;
    use oxbus_store::fault::FaultDisk;

    use super::{DrainOutcome, PAGE_MESSAGES};
    use crate::durable::StoreOptions;
    use crate::{Namespace, NamespaceOptions};

    const VICTIM: &[u8] = b"the message whose bytes on disk change";

    fn open(disk: &FaultDisk) -> Namespace {
        let opened = Namespace::open(NamespaceOptions {
            store: Some(StoreOptions {
                path: PathBuf::from("/bus"),
                durability: Durability::Os,
                owned: None,
                disk: Some(Arc::new(disk.clone())),
                segment_bytes: None,
            }),
            partitions: Some(1),
            keep_bodies_on_disk: true,
            ..NamespaceOptions::default()
        });
        opened.expect("the disk is well")
    }

    /// Changes a byte of the victim in each file that has it.
    fn damage(disk: &FaultDisk) {
        let mut found = 0;
        for path in disk.paths() {
            let mut bytes = disk.bytes(&path).expect("it exists");
            if let Some(at) = bytes.windows(VICTIM.len()).position(|window| window == VICTIM) {
                bytes[at] ^= 1;
                disk.set_bytes(&path, bytes);
                found += 1;
            }
        }
        assert!(found > 0, "the message is on disk");
    }

    #[test]
    fn an_error_after_the_first_messages_are_settled_has_a_partial_effect() {
        // Regression: a message that could not be read reported no effect, though thousands before it were settled.
        let disk = FaultDisk::default();
        let namespace = open(&disk);
        namespace
            .create_queue("q", QueueSettings::default(), &Wait::FOREVER)
            .expect("it is new");
        let sender = namespace.sender("q").expect("the queue exists");
        let settled_at_once = PAGE_MESSAGES * 16;
        let mut body = [7; 600];
        for number in 0..=settled_at_once {
            if number == settled_at_once {
                body[..VICTIM.len()].copy_from_slice(VICTIM);
            }
            let fields = Fields {
                body: Body::Data(&body),
                ..Fields::default()
            };
            sender.send(&fields, None, &Wait::FOREVER).expect("the disk is well");
        }
        drop((sender, namespace));
        let namespace = open(&disk);
        damage(&disk);
        let queue = namespace.sender("q").expect("the queue exists");
        let counters: Vec<Counter> = (1..=settled_at_once as u64 + 1).map(Counter).collect();
        let outcome = DrainOutcome::DeadLetter {
            reason: Some("test"),
            description: None,
        };
        let settled = queue
            .entity()
            .settle_drained(SubQueue::Main, PartitionId(0), &counters, outcome, &Wait::FOREVER);
        let error = settled.expect_err("a message cannot be read");
        assert_eq!(error.effect(), Some(Effect::Partial), "{error}");
        let mut dead_letters = Vec::new();
        let cell = queue.entity().cell(0).expect("messages were sent");
        cell.store(SubQueue::DeadLetter)
            .peek(Counter(0), counters.len(), &mut dead_letters);
        assert_eq!(dead_letters.len(), settled_at_once, "{error}");
    }
}
