// SPDX-License-Identifier: Apache-2.0
//! Lock tokens of received rows.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_schema::DataType;
use oxbus_model::{Error, ErrorKind, Result};

use crate::column::{BytesColumn, ColumnContent, wrong_type};

const TOKEN_BYTES: usize = 16;

/// The lock tokens of rows.
#[derive(Debug, Default)]
pub struct LockTokens {
    /// Lock tokens.
    pub tokens: Vec<[u8; TOKEN_BYTES]>,
    /// Sequence numbers. Empty if the table lacks their column.
    numbers: Vec<Int64Array>,
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
            let names: Vec<&str> = chunk.fields().iter().map(|field| field.name().as_str()).collect();
            invalid(format!(
                "column `lock_token` is missing; name it in `columns` when receiving, and keep it when selecting columns \
                 of a received table: the table has {}",
                names.join(", ")
            ))
        })?;
        found.push_column(column)?;
        let numbers = chunk.column_by_name("sequence_number");
        if let Some(numbers) = numbers.and_then(|column| column.as_primitive_opt::<Int64Type>()) {
            found.numbers.push(numbers.clone());
        }
    }
    Ok(found)
}

impl LockTokens {
    /// Adds the tokens of a column.
    pub fn push_column(&mut self, column: &ArrayRef) -> Result<()> {
        let wrong = || wrong_type("lock_token", "fixed_size_binary[16]", column.data_type());
        if let Some(column) = column.as_fixed_size_binary_opt()
            && column.value_size() == TOKEN_BYTES
            && column.null_count() == 0
        {
            let (tokens, _) = column.value_data().as_chunks();
            self.tokens.extend_from_slice(tokens);
            return Ok(());
        }
        let bytes = BytesColumn::new(column, ColumnContent::BytesOrText).ok_or_else(wrong)?;
        for row in 0..column.len() {
            let token = bytes
                .get(row)
                .ok_or_else(|| invalid("column `lock_token` has a null; settle only received rows with a lock"))?;
            self.tokens.push(token.try_into().map_err(|_| wrong())?);
        }
        Ok(())
    }

    /// The sequence number of a row, if the table has it.
    pub fn number(&self, mut row: usize) -> Option<u64> {
        for chunk in &self.numbers {
            if row < chunk.len() {
                return chunk.is_valid(row).then(|| chunk.value(row) as u64);
            }
            row -= chunk.len();
        }
        None
    }
}
