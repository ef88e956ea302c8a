// SPDX-License-Identifier: Apache-2.0
//! Adds rows of a table to a bulk load.

use oxbus_broker::BulkLoad;
use oxbus_model::message::NewId;
use oxbus_model::message::{MessageId, PropertiesBuilder};
use oxbus_model::{PartitionId, Result};

use crate::rows::InputColumns;
use crate::send::at_row;

/// Adds the rows of a chunk to a bulk load. Rows without a key go to the partition `keyless`. `first` is the number of
/// the first row, for errors.
pub fn load_rows(
    load: &mut BulkLoad,
    chunk: &InputColumns,
    first: u64,
    new_id: NewId,
    keyless: PartitionId,
) -> Result<()> {
    let mut properties = PropertiesBuilder::default();
    let ids = new_id(chunk.rows() as u64);
    for row in 0..chunk.rows() {
        let pushed = chunk.with_row(row, &mut properties, |fields| {
            if fields.message_id.is_none() {
                fields.message_id = Some(MessageId::Assigned(ids.following(row as u64)));
            }
            load.push(fields, keyless)
        });
        pushed.map_err(|error| at_row(first as usize + row, &error))?;
    }
    Ok(())
}
