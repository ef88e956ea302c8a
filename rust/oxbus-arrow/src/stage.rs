// SPDX-License-Identifier: Apache-2.0
//! Writes rows of a table to a stage.

use std::collections::BTreeMap;

use oxbus_broker::Staging;
use oxbus_broker::write::EncodedMessage;
use oxbus_model::message::NewId;
use oxbus_model::message::PropertiesBuilder;
use oxbus_model::{PartitionId, Result};

use crate::rows::InputColumns;
use crate::send::{at_row, encode_row};

/// Writes a stage. Dropping it before `finish` removes the stage.
pub struct StageBuilder {
    staging: Staging,
    new_id: NewId,
    number: usize,
    properties: PropertiesBuilder,
}

impl StageBuilder {
    /// A builder without rows.
    pub fn new(staging: Staging, new_id: NewId) -> Self {
        Self {
            staging,
            new_id,
            number: 0,
            properties: PropertiesBuilder::default(),
        }
    }

    /// Checks and adds further rows.
    pub fn push(&mut self, chunk: &InputColumns) -> Result<()> {
        // Rows of one partition keep their order.
        let mut rows: BTreeMap<Option<PartitionId>, Vec<EncodedMessage>> = BTreeMap::new();
        let ids = (self.new_id)(chunk.rows() as u64);
        for row in 0..chunk.rows() {
            let (entity, id) = (self.staging.entity(), ids.following(row as u64));
            let (message, partition) = encode_row(entity, chunk, row, &mut self.properties, id)
                .map_err(|error| at_row(self.number, &error))?;
            rows.entry(partition).or_default().push(message);
            self.number += 1;
        }
        rows.into_iter()
            .try_for_each(|(partition, rows)| self.staging.push(partition, rows))
    }

    /// Ends the stage. Returns its number of rows.
    pub fn finish(self) -> Result<u64> {
        self.staging.finish()
    }
}
