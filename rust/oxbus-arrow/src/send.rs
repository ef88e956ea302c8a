// SPDX-License-Identifier: Apache-2.0
//! Sends rows of tables as messages.

use oxbus_store::Wait;
use oxbus_store::suspended::run_now;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use oxbus_broker::Sender;
use oxbus_broker::client::{Keyless, Partitioner, SendSummary};
use oxbus_broker::entity::Entity;
use oxbus_broker::write::{EncodedMessage, PlainEncoder};
use oxbus_model::message::NewId;
use oxbus_model::message::{AssignedId, MessageId, PropertiesBuilder};
use oxbus_model::{Effect, Error, ErrorKind, PartitionId, Result};

use crate::column::BytesColumn;
use crate::rows::InputColumns;

/// The result of a send.
#[derive(Debug, Default)]
pub struct SendReport {
    /// Partition id → number of stored rows.
    pub stored: BTreeMap<u16, usize>,
    /// Indexes of the rows that were not stored, ascending.
    pub not_stored: Vec<usize>,
    /// Why the first of them was not stored. If rows may have been stored without a confirmation, the error of the
    /// first of those.
    pub error: Option<Error>,
}

/// The error of a send that did not store all rows.
#[derive(Debug)]
pub enum RowSendError {
    /// No row was stored.
    NothingStored(Error),
    /// Some rows were stored.
    PartlyStored {
        /// The cause and the remedy.
        detail: String,
        /// Partial, or unknown if further rows may have been stored.
        effect: Effect,
        /// Indexes of the rows that were not stored, ascending.
        rows: Vec<usize>,
        /// Partition id → number of stored rows.
        stored: BTreeMap<u16, usize>,
    },
}

impl SendReport {
    /// Partition id → number of stored rows. Fails unless all rows were stored.
    pub fn outcome(self) -> std::result::Result<BTreeMap<u16, usize>, RowSendError> {
        if self.not_stored.is_empty() {
            return Ok(self.stored);
        }
        let error = self.error.unwrap_or_else(|| {
            Error::new(
                ErrorKind::PartitionUnavailable,
                "no partition accepted the rows; try again",
            )
        });
        if self.stored.is_empty() {
            return Err(RowSendError::NothingStored(error));
        }
        let effect = match error.effect() {
            Some(Effect::Unknown) => Effect::Unknown,
            _ => Effect::Partial,
        };
        let detail = format!(
            "{} rows were not stored; send them again; the first error: {error}",
            self.not_stored.len()
        );
        Err(RowSendError::PartlyStored {
            detail,
            effect,
            rows: self.not_stored,
            stored: self.stored,
        })
    }
}

/// Encodes rows, groups them by partition, and sends them.
pub struct RowSender<S> {
    partitioner: Partitioner<S>,
    new_id: NewId,
    properties: PropertiesBuilder,
}

impl<S: Borrow<Sender>> RowSender<S> {
    /// A sender without rows. Rows without a key are spread over the healthy partitions.
    pub fn new(sender: S, new_id: NewId) -> Result<Self> {
        Ok(Self {
            new_id,
            partitioner: Partitioner::new(sender, Keyless::Spread)?,
            properties: PropertiesBuilder::default(),
        })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.partitioner.count()
    }

    /// Checks and encodes further rows.
    pub fn push(&mut self, chunk: &InputColumns) -> Result<()> {
        let entity = Arc::clone(self.partitioner.sender().entity());
        // Takes all ids at once, because threads share the counter.
        let ids = (self.new_id)(chunk.rows() as u64);
        if let (Some(bodies), Some(encoder)) = (chunk.only_bodies(), entity.plain_encoder()) {
            return self.push_bodies(bodies, chunk.rows(), encoder, ids);
        }
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

    /// Checks and encodes rows that have only a body.
    fn push_bodies(&mut self, bodies: &BytesColumn, rows: usize, encoder: PlainEncoder, ids: AssignedId) -> Result<()> {
        let pushed = self.partitioner.push_keyless(rows, |rows, messages| {
            bodies.try_each(rows, |row, body| {
                messages.push(encoder.encode(ids.following(row as u64), body)?);
                Ok(())
            })
        });
        pushed.map_err(|error| at_row(self.partitioner.count(), &error))
    }

    /// Stores the rows.
    pub fn send(self, wait: &Wait<'_>) -> SendReport {
        run_now(self.send_async(wait))
    }

    /// [`RowSender::send`] for a call that may be suspended.
    pub async fn send_async(self, wait: &Wait<'_>) -> SendReport {
        let SendSummary {
            stored,
            refused,
            reason,
        } = self.partitioner.send_async(wait).await;
        SendReport {
            stored,
            not_stored: refused.iter().map(|refused| refused.position).collect(),
            error: reason,
        }
    }
}

/// Encodes a row, with `id` if it has no message id. Also returns its `partition_id`.
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

/// Adds the index of the row to an error.
pub(crate) fn at_row(number: usize, error: &Error) -> Error {
    let detail = format!("row {number}: {}", error.detail());
    Error::new(error.kind(), detail).with_shared_source(error.shared_source())
}
