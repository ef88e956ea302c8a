// SPDX-License-Identifier: Apache-2.0
//! `get-message-sessions`: lists sessions (B-214 … B-216).

use oxbus_amqp::codec::AmqpValue;
use oxbus_model::{Result, Timestamp};
use oxbus_store::Wait;

use super::reply::{OperationOutcome, array};
use super::request::ManagementRequest;

/// This time or a later one selects sessions with messages or a state: clients write the end of the year 9999 in
/// several ways.
const ANY_TIME: Timestamp = Timestamp(253_402_300_799_000);

/// A page of sessions: those with messages or a state, or those whose state was set after a given time.
pub(super) fn list(request: &ManagementRequest<'_>, wait: &Wait<'_>) -> Result<OperationOutcome> {
    let since = request.time("last-updated-time")?;
    let skip = request.count("skip")?;
    let top = request.count("top")?;
    let sessions = request.entity()?.list_sessions(wait)?;
    let is_wanted = |info: &oxbus_broker::shard::SessionInfo| {
        if since >= ANY_TIME {
            return info.messages > 0 || info.state_set_at.is_some();
        }
        info.state_set_at.is_some_and(|set_at| set_at > since)
    };
    let wanted = sessions.iter().map(|(_, info)| info).filter(|info| is_wanted(info));
    let ids: Vec<AmqpValue> = wanted.skip(skip).take(top).map(|info| (&*info.id).into()).collect();
    if ids.is_empty() {
        return Ok(OperationOutcome::Nothing);
    }
    let next = i32::try_from(skip + ids.len()).unwrap_or(i32::MAX);
    Ok(OperationOutcome::of("skip", next).with("sessions-ids", array(ids)))
}
