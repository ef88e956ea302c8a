// SPDX-License-Identifier: Apache-2.0
//! What becomes of a message that is to be forwarded: it goes to a cell of the destination, it stays, or it is dead-lettered
//! where it is (B-267, B-268, B-334, B-335).
//!
//! Its key decides the cell, by the rules of the destination, and where those know none by those of the source (B-086).
//! Without one it goes to the cell beside its own, or to the next that takes it.

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

/// What becomes of a message.
pub(super) enum ForwardOutcome {
    /// To this cell of the destination, as these bytes.
    Move(usize, Record),
    /// To the dead-letter queue of its entity: why, and more of it.
    DeadLetter(&'static str, String),
    /// It is put aside.
    Block(Obstacle),
}

/// Why a destination refuses a message for good: a reason as the service names its errors, and more of it.
type ForwardRejection = (&'static str, String);

impl Entity {
    /// What becomes of a message of this entity. `pending_bytes` tells how many bytes go to a cell of
    /// the destination before it; `None` where earlier messages wait for that cell.
    pub(super) fn forward_outcome(
        &self,
        source: ForwardSource<'_>,
        counter: Counter,
        record: &StoredRecord,
        destination: Option<&Arc<Self>>,
        pending_bytes: impl Fn(usize) -> Option<usize>,
        wait: &Wait<'_>,
    ) -> ForwardOutcome {
        // One that cannot be read is told of by the shard's health.
        let unreadable = ForwardOutcome::Block(Obstacle::Rejected("unreadable"));
        let Ok(record) = source.cell.load(record) else {
            return unreadable;
        };
        let Ok(mut fields) = Fields::decode(&record) else {
            return unreadable;
        };
        // Found when a directory is opened whose process ended before it was dead-lettered.
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
            // It is in the dead-letter queue already.
            Err(Err((reason, _))) if source.sub_queue == SubQueue::DeadLetter => {
                ForwardOutcome::Block(Obstacle::Rejected(reason))
            }
            Err(Err((reason, description))) => ForwardOutcome::DeadLetter(reason, description),
        }
    }

    /// The cell of the destination that takes a message; else what is in its way, or why it is refused.
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
            // It came there before the process ended: what took it then is not asked again.
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

    /// The key of a message at the destination (B-086). An id that was its key here is its key there, too.
    fn key_at_destination<'a>(&self, destination: &Self, fields: &Fields<'a>) -> Result<Option<&'a str>> {
        let key = destination.key_of(fields)?;
        let key_here = || match self.topic() {
            Some(topic) => topic.key_of(fields),
            None => self.key_of(fields),
        };
        Ok(key.or_else(|| key_here().ok().flatten()))
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

/// True for an error of a partition that may take the message later.
fn is_transient(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PartitionUnavailable | ErrorKind::ServerBusy | ErrorKind::Timeout
    )
}

/// Bytes of a message without what forwarding notes in it.
fn original_bytes(fields: &Fields<'_>) -> usize {
    let as_sent = Fields {
        hops: None,
        enqueued_number: None,
        dead_letter_source: None,
        ..*fields
    };
    as_sent.encoded_len()
}

/// What becomes of a message without a session where one is needed (B-185, B-272).
fn missing_session() -> ForwardRejection {
    let detail = "Session enabled entity doesn't allow a message whose session identifier is null.";
    ("Session id is null.", detail.to_owned())
}

/// A refusal in the service's words.
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
