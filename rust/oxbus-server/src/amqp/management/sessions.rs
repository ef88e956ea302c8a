// SPDX-License-Identifier: Apache-2.0
//! The lock and the state of a session that a link of this connection holds (B-202, B-210 … B-213).

use bytes::Bytes;
use oxbus_amqp::codec::{Timestamp, Value};
use oxbus_model::Result;
use oxbus_store::Wait;

use super::reply::Answer;
use super::request::{Request, wrong};

/// `renew-session-lock`.
pub(super) fn renew(request: &Request<'_>, wait: &Wait<'_>) -> Result<Answer> {
    let until = request.session()?.renew_session(wait)?;
    Ok(Answer::of("expiration", Timestamp(until.0.cast_signed())))
}

/// `get-session-state`.
pub(super) fn state(request: &Request<'_>, wait: &Wait<'_>) -> Result<Answer> {
    let state = request.session()?.session_state(wait)?;
    let value = state.map_or(Value::Null, |bytes| Bytes::copy_from_slice(&bytes).into());
    Ok(Answer::of("session-state", value))
}

/// `set-session-state`; null clears it.
pub(super) fn set_state(request: &Request<'_>, wait: &Wait<'_>) -> Result<Answer> {
    let receiver = request.session()?;
    let state = match request.find("session-state") {
        None => None,
        Some(Value::Binary(bytes)) => Some(bytes.as_ref()),
        Some(_) => return Err(wrong("session-state", "a binary or null")),
    };
    match request.transaction()? {
        Some(transaction) => transaction.set_session_state(&receiver, state, wait)?,
        None => receiver.set_session_state(state, wait)?,
    }
    Ok(Answer::done())
}
