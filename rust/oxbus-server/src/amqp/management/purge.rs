// SPDX-License-Identifier: Apache-2.0
//! `batch-delete-messages` (B-401 … B-406).

use oxbus_broker::entity::purge::MessageSelector;
use oxbus_broker::filter::SqlFilter;
use oxbus_model::caps::AMQP_BATCH_DELETE_MAX;
use oxbus_model::options::in_range;
use oxbus_model::rules::OwnedValue;
use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::Wait;

use super::reply::OperationOutcome;
use super::request::ManagementRequest;

/// Removes messages that are not locked and were enqueued before a time.
pub(super) async fn delete(request: &ManagementRequest<'_>, wait: &Wait<'_>) -> Result<OperationOutcome> {
    request.reject_transaction()?;
    let count = request.count("message-count")?;
    in_range(
        "message-count",
        count as u64,
        1,
        AMQP_BATCH_DELETE_MAX as u64,
        "messages",
    )?;
    let filter = request.optional_text("session-id")?.map(|id| {
        let parameters = [("@id".to_owned(), OwnedValue::Text(id.to_owned()))];
        SqlFilter::parse("sys.SessionId = @id", &parameters)
    });
    let selector = MessageSelector {
        filter: filter
            .transpose()
            .map_err(|error| Error::new(ErrorKind::InvalidRule, error.detail()))?,
        before: Some(request.time("enqueued-time-utc")?),
        limit: Some(count),
    };
    let entity = request.entity()?;
    let removed = entity.purge_async(request.address.sub_queue, &selector, wait).await?;
    if removed == 0 {
        return Ok(OperationOutcome::Nothing);
    }
    Ok(OperationOutcome::of(
        "message-count",
        i32::try_from(removed).unwrap_or(i32::MAX),
    ))
}
