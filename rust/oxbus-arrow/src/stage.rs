// SPDX-License-Identifier: Apache-2.0
//! Stages: rows of a table that a commit publishes later.

use std::collections::BTreeMap;

use oxbus_broker::Staging;
use oxbus_broker::write::EncodedMessage;
use oxbus_model::message::NewId;
use oxbus_model::message::PropertiesBuilder;
use oxbus_model::{PartitionId, Result};

use crate::rows::InputColumns;
use crate::send::{at_row, encode_row};

/// A stage that takes rows. Dropped before it is finished, it is removed.
pub struct StageBuilder {
    staging: Staging,
    new_id: NewId,
    number: usize,
    properties: PropertiesBuilder,
}

impl StageBuilder {
    /// Puts rows into a stage.
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
        // Those of one partition stay in order.
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

    /// Ends the stage; how many rows it has.
    pub fn finish(self) -> Result<u64> {
        self.staging.finish()
    }
}
