// SPDX-License-Identifier: Apache-2.0
//! Dead-lettering by the receiver or by the system.
//!
//! A message moves to the dead-letter queue of its cell under the shard's mutex, which is held during the append of
//! the event. So no reader sees it in both places or in neither, and a snapshot that covers the event finds it.

use std::sync::atomic::Ordering;

use oxbus_log::event;
use oxbus_model::{ErrorKind, Ticks};
use oxbus_store::shard_log::AppendError;
use oxbus_store::{LockKey, MessageStore, Outcome, Record, RemovedMessage, SettleResult, StoredRecord, Wait};

use super::begin::append;
use super::error::WriteError;
use crate::record::with_dead_letter;
use crate::shard::journal::{JournalEvent, PendingEntry, RecordChange};
use crate::shard::spill::UnspilledDeadLetter;
use crate::shard::{CallKind, Cell, CellState, Meter};

/// Why the system dead-letters a message, in the words of Service Bus (B-267).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetterReason {
    /// It was delivered the maximum number of times.
    DeliveriesExhausted,
    /// It expired.
    Expired,
    /// Its entity requires sessions, and it has no session id (B-185).
    SessionIdNull,
}

impl DeadLetterReason {
    fn name(self) -> &'static str {
        match self {
            Self::DeliveriesExhausted => "MaxDeliveryCountExceeded",
            Self::Expired => "TTLExpiredException",
            Self::SessionIdNull => "Session id is null.",
        }
    }

    fn meter(self) -> Meter {
        match self {
            Self::DeliveriesExhausted => Meter::DeliveriesExhausted,
            Self::Expired => Meter::ExpiredToDeadLetters,
            Self::SessionIdNull => Meter::WithoutSession,
        }
    }
}

impl Cell {
    /// Moves a locked message to the dead-letter queue and replaces its record. Returns the entry to wait for.
    pub(super) fn dead_letter_locked(
        &self,
        key: LockKey,
        record: &Record,
        ticks: Ticks,
        wait: &Wait<'_>,
    ) -> Result<Option<PendingEntry>, WriteError> {
        self.shard.with_cell_state(self.state_id, |state| {
            let SettleResult::Removed(message) = self.main.settle(key, Outcome::Remove, ticks)? else {
                unreachable!("`Remove` always returns the message");
            };
            let put = self.put_into_dead_letters(state, &message, record.clone(), wait);
            if put.is_ok() {
                self.meter_settled(Meter::Rejected, [key]);
            }
            put.map_err(|error| self.shard.fail_call(&error, CallKind::Change).into())
        })
    }

    /// Dead-letters messages that were removed from the main store. Returns how many.
    pub(crate) fn dead_letter_removed(
        &self,
        messages: Vec<RemovedMessage>,
        reason: DeadLetterReason,
        wait: &Wait<'_>,
    ) -> usize {
        if messages.is_empty() {
            return 0;
        }
        let with_its_reason = |message: RemovedMessage| {
            // If a message cannot be read back, its shard is out of service, and the journal keeps the message as it
            // was.
            let record = self.load(&message.record).ok()?;
            Some((with_reason(record, message.delivery_count, reason), message))
        };
        let marked: Vec<(Record, RemovedMessage)> = messages.into_iter().filter_map(with_its_reason).collect();
        let count = marked.len();
        self.shard.with_cell_state(self.state_id, |state| {
            for (record, message) in marked {
                // The entry is not awaited: if it is lost, the next open dead-letters the message again. A failure
                // takes the shard out of service.
                if let Err(error) = self.put_into_dead_letters(state, &message, record, wait) {
                    self.shard.report_failure(&error);
                }
            }
        });
        self.meter(reason.meter(), count);
        event!(
            MESSAGE_DEAD_LETTERED,
            entity = &*self.name,
            partition = self.shard.id().0,
            reason = reason.name(),
            count
        );
        count
    }

    /// Inserts a removed message into the dead-letter queue with a new record and appends its event. Returns the entry
    /// to wait for.
    fn put_into_dead_letters(
        &self,
        state: &mut CellState,
        message: &RemovedMessage,
        record: Record,
        wait: &Wait<'_>,
    ) -> Result<Option<PendingEntry>, AppendError> {
        let entry = self.dead_letter_entry(message, &record);
        let (counter, record) = (message.counter, StoredRecord::from(record));
        let message = RemovedMessage {
            record: record.clone(),
            ..*message
        };
        let stored = state.dead_letters.insert(message);
        debug_assert!(stored, "a number is in one place at a time");
        let Some(entry) = entry else { return Ok(None) };
        let pending = append(&self.shard, oxbus_store::shard_log::SpaceClass::Frees, &entry, wait)?;
        let unspilled = pending
            .as_ref()
            .and_then(|pending| UnspilledDeadLetter::of(&self.shard, counter, &record, &entry, pending));
        if let Some(unspilled) = unspilled {
            state.unspilled.push(unspilled);
            self.shard.has_unspilled.store(true, Ordering::Release);
        }
        Ok(pending)
    }

    fn dead_letter_entry(&self, message: &RemovedMessage, record: &Record) -> Option<Vec<u8>> {
        let journal = self.shard.journal()?;
        // Only a message whose entry contains it whole can be spilled. A full disk has no space for such an entry.
        let leaves_memory = self.shard.memory.is_under_pressure() && !journal.is_full();
        let record = if leaves_memory {
            RecordChange::Whole(record)
        } else {
            RecordChange::of(record, message.record.in_memory())
        };
        let mut entry = Vec::new();
        let event = JournalEvent::DeadLetter {
            counter: message.counter,
            enqueued_at: message.enqueued_at,
            expires_at: message.expires_at,
            delivery_count: message.delivery_count,
            record,
        };
        event.encode(self.entity, &mut entry);
        Some(entry)
    }
}

/// The record of a message with the reason added.
fn with_reason(record: Record, delivery_count: u32, reason: DeadLetterReason) -> Record {
    let description = match reason {
        DeadLetterReason::DeliveriesExhausted => {
            format!("Message could not be consumed after {delivery_count} delivery attempts.")
        }
        DeadLetterReason::Expired => "The message expired and was dead lettered.".to_owned(),
        DeadLetterReason::SessionIdNull => {
            "Session enabled entity doesn't allow a message whose session identifier is null.".to_owned()
        }
    };
    let marked = with_dead_letter(&record, Some(reason.name()), Some(&description), &[]);
    // A corrupt message gets no reason.
    debug_assert!(
        !matches!(&marked, Err(error) if error.kind() != ErrorKind::Corrupt),
        "only corrupt bytes fail"
    );
    marked.unwrap_or(record)
}
