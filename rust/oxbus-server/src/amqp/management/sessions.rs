// SPDX-License-Identifier: Apache-2.0
//! The lock and the state of a session held by a link of this connection (B-202, B-210 … B-213).

use bytes::Bytes;
use oxbus_amqp::codec::{AmqpTimestamp, AmqpValue};
use oxbus_model::Result;
use oxbus_store::Wait;

use super::reply::OperationOutcome;
use super::request::{ManagementRequest, wrong_type};

/// `renew-session-lock`.
pub(super) fn renew(request: &ManagementRequest<'_>, wait: &Wait<'_>) -> Result<OperationOutcome> {
    let until = request.session()?.renew_session(wait)?;
    Ok(OperationOutcome::of("expiration", AmqpTimestamp(until.0.cast_signed())))
}

/// `get-session-state`.
pub(super) fn state(request: &ManagementRequest<'_>, wait: &Wait<'_>) -> Result<OperationOutcome> {
    let state = request.session()?.session_state(wait)?;
    let value = state.map_or(AmqpValue::Null, |bytes| Bytes::copy_from_slice(&bytes).into());
    Ok(OperationOutcome::of("session-state", value))
}

/// `set-session-state`. Null clears the state.
pub(super) async fn set_state(request: &ManagementRequest<'_>, wait: &Wait<'_>) -> Result<OperationOutcome> {
    let receiver = request.session()?;
    let state = match request.find("session-state") {
        None => None,
        Some(AmqpValue::Binary(bytes)) => Some(bytes.as_ref()),
        Some(_) => return Err(wrong_type("session-state", "a binary or null")),
    };
    match request.transaction()? {
        Some(transaction) => transaction.set_session_state(&receiver, state, wait)?,
        None => receiver.set_session_state_async(state, wait).await?,
    }
    Ok(OperationOutcome::done())
}
