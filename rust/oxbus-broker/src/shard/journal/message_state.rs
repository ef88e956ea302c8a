// SPDX-License-Identifier: Apache-2.0
//! A message of the shard state, and how deliveries and settlements change it.

use oxbus_model::{Counter, Timestamp};
use oxbus_store::{RemovedMessage, StoredRecord};

use super::event::{KeptRecord, StoredPhase};
use super::record_change::RecordChange;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageState {
    /// Its record.
    pub record: StoredRecord,
    /// When it was accepted.
    pub enqueued_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
    /// Its delivery count; a delivery in progress counts as ended.
    pub delivery_count: u32,
    /// The generation of its latest lock.
    pub generation: u32,
    /// Its phase.
    pub phase: StoredPhase,
    /// The generation of the lock that stored `record`.
    pub(super) record_generation: u32,
}

/// Turns the record of an event into a stored one.
pub(super) type ToStored<'a> = &'a mut dyn FnMut(KeptRecord<'_>) -> StoredRecord;

impl MessageState {
    /// Notes a lock or its end, unless a newer one is known.
    pub(super) fn update_delivery(&mut self, generation: u32, delivery_count: u32, phase: StoredPhase) {
        if generation >= self.generation {
            self.generation = generation;
            self.delivery_count = delivery_count;
            self.phase = phase;
        }
    }

    /// The record after a change.
    pub(super) fn apply_change(
        &self,
        changed: RecordChange<'_>,
        to_stored: ToStored<'_>,
    ) -> Result<StoredRecord, &'static str> {
        if let RecordChange::Whole(record) = changed {
            return Ok(to_stored(KeptRecord::Here(record)));
        }
        match changed.apply(&self.record) {
            Ok(Some(record)) => Ok(record.into()),
            Ok(None) => Err("a change refers to more bytes than the message has"),
            Err(_) => Err("the message that a change refers to cannot be read back"),
        }
    }

    /// Replaces the record, unless a newer lock stored one.
    pub(super) fn set_record(&mut self, generation: u32, record: Option<StoredRecord>) {
        if let Some(record) = record
            && generation >= self.record_generation
        {
            self.record = record;
            self.record_generation = generation;
        }
    }

    /// The message in the form that stores take.
    pub fn into_removed(self, counter: Counter) -> RemovedMessage {
        RemovedMessage {
            counter,
            record: self.record,
            delivery_count: self.delivery_count,
            enqueued_at: self.enqueued_at,
            expires_at: self.expires_at,
        }
    }
}

/// A message without deliveries.
pub(super) fn undelivered(
    record: StoredRecord,
    enqueued_at: Timestamp,
    expires_at: Timestamp,
    phase: StoredPhase,
) -> MessageState {
    MessageState {
        record,
        enqueued_at,
        expires_at,
        delivery_count: 0,
        generation: 0,
        phase,
        record_generation: 0,
    }
}
