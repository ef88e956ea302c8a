// SPDX-License-Identifier: Apache-2.0
//! `update-disposition`: settling by lock token, when the link that received the message is gone (B-150 … B-170).

use oxbus_broker::client::Settlement;
use oxbus_model::message::Value as Plain;
use oxbus_model::options::ReceiveMode;
use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::Wait;

use super::reply::Answer;
use super::request::{Request, wrong};
use super::values::pairs;

/// Settles messages. Some may be settled and others lost: then the answer is that of the first that was lost.
pub(super) fn update(request: &Request<'_>, wait: &Wait<'_>) -> Result<Answer> {
    let receiver = request.receiver(ReceiveMode::PeekLock)?;
    let holds = request.holds(&receiver)?;
    let changed = match request.find("properties-to-modify") {
        Some(changes) => {
            let changes = changes.as_map();
            pairs(changes.ok_or_else(|| wrong("properties-to-modify", "a map"))?)?
        }
        None => Vec::new(),
    };
    let changes: Vec<(&str, Plain<'_>)> = changed
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_value()))
        .collect();
    let settlement = match request.text("disposition-status")? {
        "completed" => Settlement::Complete,
        "abandoned" => Settlement::Abandon(&changes),
        "defered" => Settlement::Defer(&changes),
        "suspended" => Settlement::DeadLetter {
            reason: request.text_if_any("deadletter-reason")?,
            description: request.text_if_any("deadletter-description")?,
            changes: &changes,
        },
        other => {
            let detail = format!(
                "disposition-status is none that is known; use completed, abandoned, defered or suspended: `{other}`"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
    };
    if let Some(transaction) = request.transaction()? {
        transaction.settle(&receiver, &holds, settlement, wait)?;
        return Ok(Answer::done());
    }
    let lost = receiver.settle_many(&holds, settlement, wait)?;
    match lost.first() {
        Some(first) => Err(receiver.lock_lost(holds[*first])),
        None => Ok(Answer::done()),
    }
}
