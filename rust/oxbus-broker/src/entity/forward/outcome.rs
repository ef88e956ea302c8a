// SPDX-License-Identifier: Apache-2.0
//! The decision on a message to be forwarded: it moves to a cell of the destination, is blocked, or is dead-lettered at
//! its source (B-267, B-268, B-334, B-335).
//!
//! Its key selects the cell: the key by the rules of the destination, else the key by the rules of the source (B-086).
//! A message without a key goes to the partition of the same number, or to the next one that accepts it.

use oxbus_store::Wait;
use std::sync::Arc;

use oxbus_model::caps::HOPS_MAX;
use oxbus_model::hash::partition_of;
use oxbus_model::message::Fields;
use oxbus_model::name::SubQueue;
use oxbus_model::{Counter, Error, ErrorKind, Result};
use oxbus_store::{Record, StoredRecord};

use super::Entity;
use super::blocked::Obstacle;
use super::transfer::ForwardSource;
use crate::record::encode;

/// Outcome of forwarding one message.
pub(super) enum ForwardOutcome {
    /// Move the message to this cell of the destination, as this record.
    Move(usize, Record),
    /// Dead-letter the message at its source, with this reason and description.
    DeadLetter(&'static str, String),
    /// Block the message.
    Block(Obstacle),
}

/// Permanent rejection by the destination: reason (the service's name of the error) and description.
type ForwardRejection = (&'static str, String);

impl Entity {
    /// Decides on a message of this entity. `pending_bytes` returns the bytes that go to a cell of the destination
    /// before the message, or `None` if that cell blocks earlier messages.
    pub(super) fn forward_outcome(
        &self,
        source: ForwardSource<'_>,
        counter: Counter,
        record: &StoredRecord,
        destination: Option<&Arc<Self>>,
        pending_bytes: impl Fn(usize) -> Option<usize>,
        wait: &Wait<'_>,
    ) -> ForwardOutcome {
        // The health of the shard reports the read error.
        let unreadable = ForwardOutcome::Block(Obstacle::Rejected("unreadable"));
        let Ok(record) = source.cell.load(record) else {
            return unreadable;
        };
        let Ok(mut fields) = Fields::decode(&record) else {
            return unreadable;
        };
        // An earlier process may have ended before it dead-lettered the message. The next process finds the message
        // when it opens the directory.
        if source.sub_queue == SubQueue::Main && self.requires_session() && fields.session_id.is_none() {
            let (reason, description) = missing_session();
            return ForwardOutcome::DeadLetter(reason, description);
        }
        let cell = destination
            .ok_or_else(|| {
                let path = self.forwards_to(source.sub_queue).unwrap_or_default();
                let detail = format!("The auto forwarding destination entity doesn't exist: `{path}`.");
                Err(("MessagingEntityNotFoundException", detail))
            })
            .and_then(|destination| self.destination_cell(source, counter, &fields, destination, pending_bytes, wait));
        match cell {
            Ok(to) => {
                fields.hops = Some(fields.hops.unwrap_or(0) + 1);
                let number = Self::sequence_number(source.index, counter);
                fields.enqueued_number = fields.enqueued_number.or(Some(number));
                if source.sub_queue == SubQueue::DeadLetter {
                    fields.dead_letter_source = Some(self.name().as_str());
                }
                ForwardOutcome::Move(to, encode(&fields))
            }
            Err(Ok(obstacle)) => ForwardOutcome::Block(obstacle),
            // The message is already in the dead-letter queue.
            Err(Err((reason, _))) if source.sub_queue == SubQueue::DeadLetter => {
                ForwardOutcome::Block(Obstacle::Rejected(reason))
            }
            Err(Err((reason, description))) => ForwardOutcome::DeadLetter(reason, description),
        }
    }

    /// Returns the cell of the destination that accepts a message, or else the obstacle or the rejection.
    fn destination_cell(
        &self,
        source: ForwardSource<'_>,
        counter: Counter,
        fields: &Fields<'_>,
        destination: &Self,
        pending_bytes: impl Fn(usize) -> Option<usize>,
        wait: &Wait<'_>,
    ) -> std::result::Result<usize, std::result::Result<Obstacle, ForwardRejection>> {
        if fields.hops.unwrap_or(0) >= HOPS_MAX {
            let detail = format!("The message was forwarded {HOPS_MAX} times, which is the most.");
            return Err(Err(("MaxTransferHopCountExceeded", detail)));
        }
        let bytes = original_bytes(fields);
        let key = destination
            .check_sends()
            .and_then(|()| destination.check_fits(bytes))
            .and_then(|()| self.key_at_destination(destination, fields));
        let key = key.map_err(|error| Err(rejection(&error, fields, destination)))?;
        let partitions = usize::from(destination.partitions());
        let same_partition = usize::from(self.shard(source.index).id().0) % partitions;
        let (first, others) = match key {
            _ if !destination.is_partitioned() => (0, 0),
            Some(key) => (partition_of(key.as_bytes(), partitions as u32) as usize, 0),
            None => (same_partition, partitions - 1),
        };
        if others > 0 && destination.is_durable() {
            // A cell may have stored the message before the process ended, so the message must not go to another cell.
            let origin = self.origin(source, counter);
            let mut cells = destination.cells();
            if let Some((index, _)) = cells.find(|(_, cell)| cell.has_arrived(&origin)) {
                return Ok(index);
            }
        }
        let mut full = None;
        let mut any_unavailable = false;
        for to in (0..=others).map(|step| (first + step) % partitions) {
            let shard = destination.shard(to);
            let takes = shard.health().check_send(shard.id(), wait).is_ok();
            let Some(pending) = pending_bytes(to).filter(|_| takes) else {
                any_unavailable = true;
                continue;
            };
            match destination.check_capacity(to, pending + bytes, wait) {
                Ok(_) => return Ok(to),
                Err(error) if is_transient(&error) => any_unavailable = true,
                Err(error) => full = Some(error),
            }
        }
        Err(match full {
            Some(error) if !any_unavailable => Err(rejection(&error, fields, destination)),
            _ if others == 0 => Ok(Obstacle::Cell(first)),
            _ => Ok(Obstacle::AllCells),
        })
    }

    /// The key of a message at the destination (B-086). A message id that was its key at the source is also its key
    /// there.
    fn key_at_destination<'a>(&self, destination: &Self, fields: &Fields<'a>) -> Result<Option<&'a str>> {
        let key = destination.key_of(fields)?;
        let source_key = || match self.topic() {
            Some(topic) => topic.key_of(fields),
            None => self.key_of(fields),
        };
        Ok(key.or_else(|| source_key().ok().flatten()))
    }

    fn check_fits(&self, bytes: usize) -> Result<()> {
        let max = self.settings().message_size_bytes_max;
        if bytes <= max {
            return Ok(());
        }
        let detail = format!(
            "The message is too large for the destination: size={bytes} bytes, limit={max} bytes, destination=`{}`.",
            self.name().as_str()
        );
        Err(Error::new(ErrorKind::MessageSizeExceeded, detail))
    }
}

/// True if the error is of a partition that may accept the message later.
fn is_transient(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PartitionUnavailable | ErrorKind::ServerBusy | ErrorKind::Timeout
    )
}

/// Bytes of a message without the fields that forwarding sets.
fn original_bytes(fields: &Fields<'_>) -> usize {
    let as_sent = Fields {
        hops: None,
        enqueued_number: None,
        dead_letter_source: None,
        ..*fields
    };
    as_sent.encoded_len()
}

/// Rejection of a message without a session where one is required (B-185, B-272).
fn missing_session() -> ForwardRejection {
    let detail = "Session enabled entity doesn't allow a message whose session identifier is null.";
    ("Session id is null.", detail.to_owned())
}

/// The rejection for an error, with the service's reason.
fn rejection(error: &Error, fields: &Fields<'_>, destination: &Entity) -> ForwardRejection {
    if fields.session_id.is_none() && destination.requires_session() && error.kind() == ErrorKind::InvalidOperation {
        return missing_session();
    }
    let reason = match error.kind() {
        ErrorKind::EntityNotFound => "MessagingEntityNotFoundException",
        ErrorKind::EntityDisabled => "MessagingEntityDisabledException",
        ErrorKind::MessageSizeExceeded => "MessageSizeExceededException",
        ErrorKind::QuotaExceeded => "QuotaExceededException",
        _ => "InvalidOperationException",
    };
    (reason, error.detail().to_owned())
}
