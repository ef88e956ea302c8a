// SPDX-License-Identifier: Apache-2.0
//! `update-disposition`: settles by lock token after the link that received the message is gone (B-150 … B-170).

use oxbus_amqp::extension::ABANDON_DELAY;
use oxbus_amqp::record::owned_pairs;
use oxbus_broker::client::Settlement;
use oxbus_model::message::Value as Plain;
use oxbus_model::options::ReceiveMode;
use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::Wait;

use super::super::settle::delay_ms;
use super::reply::OperationOutcome;
use super::request::{ManagementRequest, wrong_type};

/// Settles messages. If some locks are lost, the others are settled and the reply is the error for the first lost
/// lock.
pub(super) async fn update(request: &ManagementRequest<'_>, wait: &Wait<'_>) -> Result<OperationOutcome> {
    let receiver = request.receiver(ReceiveMode::PeekLock)?;
    let settle_keys = request.settle_keys(&receiver)?;
    let changed = match request.find("properties-to-modify") {
        Some(changes) => {
            let changes = changes.as_map();
            owned_pairs(changes.ok_or_else(|| wrong_type("properties-to-modify", "a map"))?)?
        }
        None => Vec::new(),
    };
    let changes: Vec<(&str, Plain<'_>)> = changed
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_value()))
        .collect();
    let settlement = match request.text("disposition-status")? {
        "completed" => Settlement::Complete,
        "abandoned" => match request.find(ABANDON_DELAY) {
            None => Settlement::Abandon(&changes),
            Some(delay) => Settlement::AbandonFor {
                changes: &changes,
                delay_ms: delay_ms(delay)?,
            },
        },
        "defered" => Settlement::Defer(&changes),
        "suspended" => Settlement::DeadLetter {
            reason: request.optional_text("deadletter-reason")?,
            description: request.optional_text("deadletter-description")?,
            changes: &changes,
        },
        other => {
            let detail =
                format!("unknown disposition-status; use completed, abandoned, defered or suspended: `{other}`");
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
    };
    if let Some(transaction) = request.transaction()? {
        transaction.settle(&receiver, &settle_keys, settlement, wait)?;
        return Ok(OperationOutcome::done());
    }
    let lost = receiver.settle_many_async(&settle_keys, settlement, wait).await?;
    match lost.first() {
        Some(first) => Err(receiver.lock_lost(settle_keys[*first])),
        None => Ok(OperationOutcome::done()),
    }
}
