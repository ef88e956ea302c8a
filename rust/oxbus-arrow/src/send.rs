// SPDX-License-Identifier: Apache-2.0
//! Rows of a table as messages, and what became of them.

use oxbus_store::Wait;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use oxbus_broker::Sender;
use oxbus_broker::client::{Keyless, Partitioner, SendSummary};
use oxbus_broker::entity::Entity;
use oxbus_broker::write::EncodedMessage;
use oxbus_model::message::NewId;
use oxbus_model::message::{AssignedId, MessageId, PropertiesBuilder};
use oxbus_model::{Effect, Error, ErrorKind, PartitionId, Result};

use crate::rows::Columns;

/// What became of the rows.
#[derive(Debug, Default)]
pub struct Sent {
    /// Partition id → rows that it stored.
    pub stored: BTreeMap<u16, usize>,
    /// Indexes of the rows that were not stored, rising.
    pub refused: Vec<usize>,
    /// Why the first of them was refused, or the first of those of which nobody knows.
    pub refusal: Option<Error>,
}

/// Why not all rows were stored.
#[derive(Debug)]
pub enum NotSent {
    /// None was.
    Nothing(Error),
    /// Some were.
    Part {
        /// What happened and what to do.
        detail: String,
        /// A part, or unknown when some rows may be stored that are not counted.
        effect: Effect,
        /// Indexes of the rows that were not stored, rising.
        rows: Vec<usize>,
        /// Partition id → rows that it stored.
        stored: BTreeMap<u16, usize>,
    },
}

impl Sent {
    /// Partition id → rows that it stored, if all were.
    pub fn outcome(self) -> std::result::Result<BTreeMap<u16, usize>, NotSent> {
        if self.refused.is_empty() {
            return Ok(self.stored);
        }
        let refusal = self
            .refusal
            .unwrap_or_else(|| Error::new(ErrorKind::PartitionUnavailable, "no partition took the rows; try again"));
        if self.stored.is_empty() {
            return Err(NotSent::Nothing(refusal));
        }
        let effect = match refusal.effect() {
            Some(Effect::Unknown) => Effect::Unknown,
            _ => Effect::Partial,
        };
        let detail = format!(
            "{} rows were not stored, send them again; one was refused because: {refusal}",
            self.refused.len()
        );
        Err(NotSent::Part {
            detail,
            effect,
            rows: self.refused,
            stored: self.stored,
        })
    }
}

/// Rows on their way: checked and encoded, in groups for their partitions.
pub struct Outgoing<S> {
    partitioner: Partitioner<S>,
    new_id: NewId,
    properties: PropertiesBuilder,
}

impl<S: Borrow<Sender>> Outgoing<S> {
    /// No rows yet. Those without a key go to the partitions that work now, in turn.
    pub fn new(sender: S, new_id: NewId) -> Result<Self> {
        Ok(Self {
            new_id,
            partitioner: Partitioner::new(sender, Keyless::Spread)?,
            properties: PropertiesBuilder::default(),
        })
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.partitioner.count()
    }

    /// Checks and encodes further rows.
    pub fn push(&mut self, chunk: &Columns) -> Result<()> {
        let entity = Arc::clone(self.partitioner.sender().entity());
        // All at once: a count that threads share is dear.
        let ids = (self.new_id)(chunk.rows() as u64);
        for row in 0..chunk.rows() {
            let id = ids.following(row as u64);
            let (message, asked) = message_of(&entity, chunk, row, &mut self.properties, id)
                .map_err(|error| at_row(self.partitioner.count(), &error))?;
            self.partitioner
                .push(message, asked)
                .map_err(|error| at_row(self.partitioner.count(), &error))?;
        }
        Ok(())
    }

    /// Stores the rows.
    pub fn send(self, wait: &Wait<'_>) -> Sent {
        let SendSummary {
            stored,
            refused,
            reason,
        } = self.partitioner.send(wait);
        Sent {
            stored,
            refused: refused.iter().map(|refused| refused.position).collect(),
            refusal: reason,
        }
    }
}

/// A row as a message, with `id` if it has none, and the partition that it asks for.
#[inline]
pub(crate) fn message_of(
    entity: &Entity,
    chunk: &Columns,
    row: usize,
    properties: &mut PropertiesBuilder,
    id: AssignedId,
) -> Result<(EncodedMessage, Option<PartitionId>)> {
    chunk.with_row(row, properties, |fields| {
        if fields.message_id.is_none() {
            fields.message_id = Some(MessageId::Assigned(id));
        }
        let asked = chunk.partition(row, entity.partitions())?;
        Ok((entity.encode(fields)?, asked))
    })
}

/// An error with the index of its row.
pub(crate) fn at_row(number: usize, error: &Error) -> Error {
    let detail = format!("row {number}: {}", error.detail());
    Error::new(error.kind(), detail).with_shared_source(error.shared_source())
}
