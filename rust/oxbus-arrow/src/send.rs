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

use crate::rows::InputColumns;

/// The result of a send of rows.
#[derive(Debug, Default)]
pub struct SendReport {
    /// Partition id → rows that it stored.
    pub stored: BTreeMap<u16, usize>,
    /// Indexes of the rows that were not stored, rising.
    pub refused: Vec<usize>,
    /// The error of the first refused row, or of the first row with an unknown outcome.
    pub refusal: Option<Error>,
}

/// Why not all rows were stored.
#[derive(Debug)]
pub enum RowSendError {
    /// None was.
    NothingStored(Error),
    /// Some were.
    PartlyStored {
        /// The cause and the remedy.
        detail: String,
        /// Partial, or unknown when rows that are not counted may have been stored.
        effect: Effect,
        /// Indexes of the rows that were not stored, rising.
        rows: Vec<usize>,
        /// Partition id → rows that it stored.
        stored: BTreeMap<u16, usize>,
    },
}

impl SendReport {
    /// Partition id → rows that it stored, if all were.
    pub fn outcome(self) -> std::result::Result<BTreeMap<u16, usize>, RowSendError> {
        if self.refused.is_empty() {
            return Ok(self.stored);
        }
        let refusal = self
            .refusal
            .unwrap_or_else(|| Error::new(ErrorKind::PartitionUnavailable, "no partition took the rows; try again"));
        if self.stored.is_empty() {
            return Err(RowSendError::NothingStored(refusal));
        }
        let effect = match refusal.effect() {
            Some(Effect::Unknown) => Effect::Unknown,
            _ => Effect::Partial,
        };
        let detail = format!(
            "{} rows were not stored, send them again; one was refused because: {refusal}",
            self.refused.len()
        );
        Err(RowSendError::PartlyStored {
            detail,
            effect,
            rows: self.refused,
            stored: self.stored,
        })
    }
}

/// Rows on their way: checked and encoded, in groups for their partitions.
pub struct RowSender<S> {
    partitioner: Partitioner<S>,
    new_id: NewId,
    properties: PropertiesBuilder,
}

impl<S: Borrow<Sender>> RowSender<S> {
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
    pub fn push(&mut self, chunk: &InputColumns) -> Result<()> {
        let entity = Arc::clone(self.partitioner.sender().entity());
        // All at once: a count that threads share is dear.
        let ids = (self.new_id)(chunk.rows() as u64);
        for row in 0..chunk.rows() {
            let id = ids.following(row as u64);
            let (message, partition) = encode_row(&entity, chunk, row, &mut self.properties, id)
                .map_err(|error| at_row(self.partitioner.count(), &error))?;
            self.partitioner
                .push(message, partition)
                .map_err(|error| at_row(self.partitioner.count(), &error))?;
        }
        Ok(())
    }

    /// Stores the rows.
    pub fn send(self, wait: &Wait<'_>) -> SendReport {
        let SendSummary {
            stored,
            refused,
            reason,
        } = self.partitioner.send(wait);
        SendReport {
            stored,
            refused: refused.iter().map(|refused| refused.position).collect(),
            refusal: reason,
        }
    }
}

/// A row as a message, with `id` if it has none, and the partition that it asks for.
#[inline]
pub(crate) fn encode_row(
    entity: &Entity,
    chunk: &InputColumns,
    row: usize,
    properties: &mut PropertiesBuilder,
    id: AssignedId,
) -> Result<(EncodedMessage, Option<PartitionId>)> {
    chunk.with_row(row, properties, |fields| {
        if fields.message_id.is_none() {
            fields.message_id = Some(MessageId::Assigned(id));
        }
        let partition = chunk.partition(row, entity.partitions())?;
        Ok((entity.encode(fields)?, partition))
    })
}

/// An error with the index of its row.
pub(crate) fn at_row(number: usize, error: &Error) -> Error {
    let detail = format!("row {number}: {}", error.detail());
    Error::new(error.kind(), detail).with_shared_source(error.shared_source())
}
