// SPDX-License-Identifier: Apache-2.0
//! Rows of a table as rows of a stage.

use oxbus_broker::Staging;
use oxbus_broker::client::Row;
use oxbus_model::message::{MessageId, PropertiesBuilder};
use oxbus_model::{Error, Result};

use crate::rows::Columns;
use crate::send::NewId;

/// Rows that are handed over together.
const ROWS: usize = 1024;

/// Adds the rows of a chunk to a stage. `first` is the number of the first row, for errors.
pub fn stage(staging: &mut Staging, chunk: &Columns, first: u64, new_id: NewId) -> Result<()> {
    let mut properties = PropertiesBuilder::default();
    let max = staging.row_bytes_max();
    let mut rows = Vec::with_capacity(ROWS.min(chunk.rows()));
    for row in 0..chunk.rows() {
        let encoded = chunk.with_row(row, &mut properties, |fields| {
            if fields.message_id.is_none() {
                fields.message_id = Some(MessageId::Assigned(new_id()));
            }
            Row::new(fields, max)
        });
        rows.push(encoded.map_err(|error| {
            let number = first + row as u64;
            Error::new(error.kind(), format!("row {number}: {}", error.detail()))
        })?);
        if rows.len() == ROWS {
            staging.push(None, std::mem::take(&mut rows))?;
        }
    }
    staging.push(None, rows)
}
