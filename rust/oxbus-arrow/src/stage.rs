// SPDX-License-Identifier: Apache-2.0
//! Rows of a table that are put aside, to be published later.

use std::collections::BTreeMap;

use oxbus_broker::Staging;
use oxbus_broker::client::Row;
use oxbus_model::Result;
use oxbus_model::message::PropertiesBuilder;

use crate::rows::Columns;
use crate::send::{NewId, at_row, row_of};

/// A stage that takes rows. Dropped before it is finished, it is removed.
pub struct Putting {
    staging: Staging,
    new_id: NewId,
    number: usize,
    properties: PropertiesBuilder,
}

impl Putting {
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
    pub fn push(&mut self, chunk: &Columns) -> Result<()> {
        // Those of one partition stay in order.
        let mut rows: BTreeMap<Option<u16>, Vec<Row>> = BTreeMap::new();
        let ids = (self.new_id)(chunk.rows() as u64);
        for row in 0..chunk.rows() {
            let (sender, id) = (self.staging.sender(), ids.following(row as u64));
            row_of(sender, chunk, row, &mut self.properties, id, |wish, _, fields, len| {
                let same = rows.entry(wish.map(|partition| partition.0)).or_default();
                same.push(Row::encode(fields, len));
            })
            .map_err(|error| at_row(self.number, &error))?;
            self.number += 1;
        }
        rows.into_iter()
            .try_for_each(|(wish, rows)| self.staging.push(wish, rows))
    }

    /// Ends the stage; how many rows it has.
    pub fn finish(self) -> Result<u64> {
        self.staging.finish()
    }
}
