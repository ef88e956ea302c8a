// SPDX-License-Identifier: Apache-2.0
//! The settlement of messages that a table of rows names by their lock tokens.

use oxbus_arrow::LockTokens;
use oxbus_broker::Receiver;
use oxbus_broker::client::{SettleKey, SettleListError, Settlement};
use oxbus_broker::entity::Entity;
use oxbus_model::{Error, LockToken, SequenceNumber};
use oxbus_store::Wait;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::raise;
use crate::settle_call::some_lost;

/// The settlement of rows.
pub(crate) fn settlement_of_rows(outcome: &str) -> PyResult<Settlement<'static>> {
    match outcome {
        "complete" => Ok(Settlement::Complete),
        "abandon" => Ok(Settlement::Abandon(&[])),
        "defer" => Ok(Settlement::Defer(&[])),
        "dead_letter" => Ok(Settlement::DeadLetter {
            reason: None,
            description: None,
            changes: &[],
        }),
        other => Err(PyValueError::new_err(format!(
            "unknown outcome; use `complete`, `abandon`, `defer` or `dead_letter`: `{other}`"
        ))),
    }
}

/// Raises the error of rows that were not settled, if there are some among the `total`.
pub(crate) fn finish_rows((lost, refused): (LostRows, Option<Error>), total: usize) -> PyResult<()> {
    if let Some(refused) = refused {
        let all = refused.numbers().to_vec().into_iter().chain(lost.numbers);
        return Err(raise(&refused.with_numbers(all)));
    }
    if lost.count == 0 {
        return Ok(());
    }
    Err(some_lost(lost.count, &lost.numbers, total))
}

/// Rows whose locks are lost.
pub(crate) struct LostRows {
    count: usize,
    /// Their sequence numbers in the order of the rows. A token that does not open has none, unless the table does.
    numbers: Vec<SequenceNumber>,
}

/// Settles the messages of tokens. Returns the rows whose locks are lost, and the error of others.
pub(crate) async fn settle_rows(
    receiver: &Receiver,
    tokens: &LockTokens,
    settlement: Settlement<'_>,
    wait: &Wait<'_>,
) -> (LostRows, Option<Error>) {
    let mut keys: Vec<SettleKey> = Vec::with_capacity(tokens.tokens.len());
    let mut invalid = Vec::new();
    for (row, token) in tokens.tokens.iter().enumerate() {
        match receiver.open_token(LockToken(*token)) {
            Some(key) => keys.push(key),
            None => invalid.push(row),
        }
    }
    let (positions, refused) = match receiver.settle_many_async(&keys, settlement, wait).await {
        Ok(positions) => (positions, None),
        Err(SettleListError { error, .. }) => (Vec::new(), Some(error)),
    };
    let number = |key: SettleKey| Entity::sequence_number(key.index, key.key.counter);
    let mut lost: Vec<(usize, Option<SequenceNumber>)> = invalid
        .iter()
        .map(|&row| (row, tokens.number(row).map(SequenceNumber)))
        .collect();
    if !positions.is_empty() {
        let is_valid = |row: &usize| invalid.binary_search(row).is_err();
        let rows: Vec<usize> = (0..tokens.tokens.len()).filter(is_valid).collect();
        lost.extend(positions.iter().map(|&at| (rows[at], Some(number(keys[at])))));
        lost.sort_unstable();
    }
    let lost = LostRows {
        count: lost.len(),
        numbers: lost.into_iter().filter_map(|(_, number)| number).collect(),
    };
    (lost, refused)
}
