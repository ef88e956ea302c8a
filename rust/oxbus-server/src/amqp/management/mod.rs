// SPDX-License-Identifier: Apache-2.0
//! `$management`: operations on an entity (B-426 … B-436).
//!
//! An operation depends only on the request and the broker's state. It may wait for a store, and for nothing else.
//! Each file holds the operations of one subject. Keys, types and unusual spellings are those that clients in use
//! expect.

mod browse;
mod deferred;
mod disposition;
mod locks;
mod purge;
mod reply;
mod request;
mod rule_codec;
mod rules;
mod schedule;
mod session_list;
mod sessions;

#[cfg(test)]
mod tests;

use oxbus_model::authorization::AccessRight;
use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::Wait;

use self::reply::OperationOutcome;
use self::request::ManagementRequest;
use super::request::{AmqpRequest, Reply};

/// An operation of an entity.
enum ManagementOperation {
    /// One that does not write, or is rare.
    Other(fn(&ManagementRequest<'_>, &Wait<'_>) -> Result<OperationOutcome>),
    ReceiveDeferred,
    UpdateDisposition,
    Schedule,
    CancelScheduled,
    SetSessionState,
    DeleteBatch,
}

impl ManagementOperation {
    async fn run(self, request: &ManagementRequest<'_>, wait: &Wait<'_>) -> Result<OperationOutcome> {
        match self {
            Self::Other(operation) => operation(request, wait),
            Self::ReceiveDeferred => deferred::receive(request, wait).await,
            Self::UpdateDisposition => disposition::update(request, wait).await,
            Self::Schedule => schedule::schedule(request, wait).await,
            Self::CancelScheduled => schedule::cancel(request, wait).await,
            Self::SetSessionState => sessions::set_state(request, wait).await,
            Self::DeleteBatch => purge::delete(request, wait).await,
        }
    }
}

/// An operation and the right that it requires. Rules require only Listen, as the clients' rule managers document.
fn operation(name: &str) -> Option<(AccessRight, ManagementOperation)> {
    use AccessRight::{Listen, Send};
    use ManagementOperation::Other;
    let name = name.strip_prefix("com.microsoft:")?;
    Some(match name {
        "peek-message" => (Listen, Other(browse::peek)),
        "receive-by-sequence-number" => (Listen, ManagementOperation::ReceiveDeferred),
        "renew-lock" => (Listen, Other(locks::renew)),
        "update-disposition" => (Listen, ManagementOperation::UpdateDisposition),
        "schedule-message" => (Send, ManagementOperation::Schedule),
        "cancel-scheduled-message" => (Send, ManagementOperation::CancelScheduled),
        "renew-session-lock" => (Listen, Other(sessions::renew)),
        "get-session-state" => (Listen, Other(sessions::state)),
        "set-session-state" => (Listen, ManagementOperation::SetSessionState),
        "get-message-sessions" => (Listen, Other(session_list::list)),
        "add-rule" => (Listen, Other(rules::add)),
        "remove-rule" => (Listen, Other(rules::remove)),
        "enumerate-rules" => (Listen, Other(rules::enumerate)),
        "batch-delete-messages" => (Listen, ManagementOperation::DeleteBatch),
        _ => return None,
    })
}

/// Executes a request.
pub(super) async fn answer(amqp: &AmqpRequest, wait: &Wait<'_>) -> Reply {
    let request = match ManagementRequest::read(amqp) {
        Ok(request) => request,
        Err(error) => return Reply::of(&error),
    };
    let Some((right, operation)) = operation(request.operation()) else {
        let detail = format!(
            "unknown operation; see docs/behaviour.md, section 21.5: `{}`",
            request.operation()
        );
        return Reply::of(&Error::new(ErrorKind::NotSupported, detail));
    };
    // A token for the entity covers its management. Some clients request a token for the management alone.
    let scope = format!("{}/$management", request.address.scope());
    if let Err(refused) = amqp.state.check(right, &scope) {
        return Reply::access_denied(&refused);
    }
    reply::reply(operation.run(&request, wait).await)
}
