// SPDX-License-Identifier: Apache-2.0
//! Lock tokens of received rows.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use oxbus_model::{Error, ErrorKind, Result};

use crate::column::{BytesColumn, ColumnContent, wrong_type};

/// The lock tokens of rows, and their sequence numbers if the table has them.
#[derive(Debug, Default)]
pub struct LockTokens {
    /// Sequence numbers. Empty if the table lacks their column.
    pub numbers: Vec<u64>,
    /// Lock tokens.
    pub tokens: Vec<[u8; 16]>,
}

fn invalid(detail: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, detail)
}

/// The lock tokens of a table with the column `lock_token`.
pub fn lock_tokens(data_type: &DataType, chunks: &[ArrayRef]) -> Result<LockTokens> {
    if !matches!(data_type, DataType::Struct(_)) {
        return Err(invalid(format!(
            "settle_arrow needs a table with a column lock_token: {data_type}"
        )));
    }
    let mut found = LockTokens::default();
    for chunk in chunks {
        let chunk = chunk.as_struct();
        let column = chunk.column_by_name("lock_token").ok_or_else(|| {
            invalid("column `lock_token` is missing; keep it when selecting columns of a received table")
        })?;
        found.push_column(column)?;
        if let Some(column) = chunk
            .column_by_name("sequence_number")
            .and_then(|column| column.as_primitive_opt::<Int64Type>())
        {
            found
                .numbers
                .extend(column.values().iter().map(|number| *number as u64));
        }
    }
    Ok(found)
}

impl LockTokens {
    /// Adds the tokens of a column.
    pub fn push_column(&mut self, column: &ArrayRef) -> Result<()> {
        let wrong = || wrong_type("lock_token", "fixed_size_binary[16]", column.data_type());
        let bytes = BytesColumn::new(column, ColumnContent::BytesOrText).ok_or_else(wrong)?;
        for row in 0..column.len() {
            let token = bytes
                .get(row)
                .ok_or_else(|| invalid("column `lock_token` has a null; settle only received rows with a lock"))?;
            self.tokens.push(token.try_into().map_err(|_| wrong())?);
        }
        Ok(())
    }
}
