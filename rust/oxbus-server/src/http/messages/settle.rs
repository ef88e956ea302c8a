// SPDX-License-Identifier: Apache-2.0
//! `PUT`, `DELETE` and `POST /{entity}/messages/{id or number}/{lock token}`: unlocks, completes, renews (B-445 …
//! B-448).

use hyper::StatusCode;
use oxbus_broker::Receiver;
use oxbus_broker::client::{SettleKey, Settlement};
use oxbus_broker::entity::Entity;
use oxbus_model::message::Fields;
use oxbus_model::{Error, ErrorKind, Result as ModelResult};
use oxbus_store::Wait;

use super::broker_properties::{format_id, parse_token};
use super::context::ConnectionContext;
use super::empty;
use crate::blocking::{call_with_timeout, run_suspending};
use crate::http::HttpResponse;
use crate::http::error::{Area, HttpError};
use crate::http::route::LockedMessageRef;

/// The operation on a lock.
#[derive(Debug, Clone, Copy)]
pub(super) enum LockOperation {
    Unlock,
    Complete,
    Renew,
}

pub(super) async fn settle(
    connection: &ConnectionContext,
    entity: String,
    message_ref: LockedMessageRef,
    operation: LockOperation,
) -> Result<HttpResponse, HttpError> {
    let (context, receivers) = (connection.server.clone(), connection.receivers.clone());
    let settled = run_suspending(call_with_timeout(async move |wait: &Wait<'_>| {
        // Any receiver of the entity can open the token, so another connection may have received the message.
        let receiver = receivers.receiver(context.namespace(), &entity)?;
        let key = find_locked(&receiver, &message_ref, wait)?;
        match operation {
            LockOperation::Unlock => receiver.settle_async(key, Settlement::Abandon(&[]), wait).await,
            LockOperation::Complete => receiver.settle_async(key, Settlement::Complete, wait).await,
            LockOperation::Renew => receiver.renew(key, wait).map(drop),
        }
    }));
    settled.await.map_err(|error| HttpError::of(Area::Messages, &error))?;
    Ok(empty(StatusCode::OK))
}

/// The key of the token's message, if the message has the given id or sequence number.
fn find_locked(receiver: &Receiver, message_ref: &LockedMessageRef, wait: &Wait<'_>) -> ModelResult<SettleKey> {
    let not_locked = || {
        let detail = format!(
            "no message is locked under this token; use the Location of the response that locked it, unchanged: message=`{}` \
             lock token=`{}`",
            message_ref.reference, message_ref.token
        );
        Error::new(ErrorKind::MessageNotFound, detail)
    };
    let key = parse_token(&message_ref.token)
        .and_then(|token| receiver.open_token(token))
        .ok_or_else(not_locked)?;
    let number = Entity::sequence_number(key.index, key.key.counter);
    if message_ref.reference == number.to_string() {
        return Ok(key);
    }
    // Older clients build the path with the message id.
    let browsed = receiver.browse(1, Some(number), wait)?;
    let has_id = browsed.iter().any(|browsed| {
        let message = &browsed.message;
        let fields = message
            .record
            .in_memory()
            .and_then(|record| Fields::decode(record).ok());
        let id = fields.and_then(|fields| fields.message_id).map(format_id);
        Entity::sequence_number(browsed.index, message.counter) == number && id.as_ref() == Some(&message_ref.reference)
    });
    if has_id { Ok(key) } else { Err(not_locked()) }
}
