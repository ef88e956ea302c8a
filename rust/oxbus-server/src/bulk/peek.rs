// SPDX-License-Identifier: Apache-2.0
//! `GET /peek`: browses a page of one partition.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use oxbus_arrow::{ColumnSelection, PropertiesFormat, TableBuilder};
use oxbus_broker::Receiver;
use oxbus_broker::client::BrowseItem;
use oxbus_broker::entity::Entity;
use oxbus_model::authorization::AccessRight;
use oxbus_model::caps::{BULK_PAGE_BYTES_MAX, PEEK_MESSAGES_MAX};
use oxbus_model::name::EntityName;
use oxbus_model::options::{ReceiveMode, in_range};
use oxbus_model::{Counter, PartitionId, Result, SequenceNumber};
use oxbus_store::Wait;
use serde::Deserialize;

use super::error::BulkError;
use super::parameters::QueryParameters;
use super::rows::page;
use super::{BulkCaller, BulkState, entity};
use crate::blocking::run_blocking;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PeekParameters {
    entity: String,
    partition: u16,
    from: u64,
    #[serde(default)]
    to: Option<u64>,
    max_bytes: u64,
    include_body: bool,
    #[serde(default)]
    application_properties: PropertiesFormat,
    #[serde(default)]
    columns: Option<String>,
}

pub(super) async fn peek(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    QueryParameters(parameters): QueryParameters<PeekParameters>,
) -> std::result::Result<Response, BulkError> {
    caller.authorize(AccessRight::Listen, &parameters.entity)?;
    let columns = ColumnSelection::parse(parameters.columns.as_deref())?;
    let response = run_blocking(move |_| {
        in_range(
            "max_bytes",
            parameters.max_bytes,
            1,
            BULK_PAGE_BYTES_MAX as u64,
            "bytes",
        )?;
        let (path, _) = EntityName::split_sub_queue(&parameters.entity);
        let is_partitioned = state.namespace().entity(path)?.is_partitioned();
        let partition = PartitionId(parameters.partition);
        // An entity without partitioning has only partition 0.
        let partition_filter = (is_partitioned || partition.0 != 0).then_some(partition);
        let receiver = entity::receiver(
            state.namespace(),
            &parameters.entity,
            ReceiveMode::PeekLock,
            partition_filter,
        )?;
        let (found, next) = browse_page(&receiver, &parameters)?;
        let bytes = if parameters.include_body {
            found.iter().map(|item| item.message.record.len()).sum()
        } else {
            0
        };
        let mut builder = TableBuilder::new(columns, found.len(), bytes)
            .with_properties(parameters.application_properties)
            .with_bodies(parameters.include_body);
        builder.push_browsed(receiver.entity(), &found)?;
        page(&builder.finish()?, next.map(|next| next.0))
    });
    Ok(response.await?)
}

/// Browses the messages of a page. Returns them and the number of the next message.
fn browse_page(receiver: &Receiver, parameters: &PeekParameters) -> Result<(Vec<BrowseItem>, Option<SequenceNumber>)> {
    let cell_index = usize::from(parameters.partition);
    let first = Entity::sequence_number(cell_index, Counter::FIRST);
    let last = parameters.to.unwrap_or(u64::MAX);
    let mut from = SequenceNumber(parameters.from.max(first.0));
    let mut found: Vec<BrowseItem> = Vec::new();
    let mut bytes = 0;
    loop {
        if from.partition().0 != parameters.partition {
            return Ok((found, None));
        }
        let items = receiver.browse(PEEK_MESSAGES_MAX, Some(from), &Wait::FOREVER)?;
        if items.is_empty() {
            return Ok((found, None));
        }
        for item in items {
            let number = Entity::sequence_number(item.index, item.message.counter);
            if number.0 > last || item.index != cell_index {
                return Ok((found, None));
            }
            let size = item.message.record.len();
            if !found.is_empty() && bytes + size > parameters.max_bytes as usize {
                return Ok((found, Some(number)));
            }
            bytes += size;
            from = SequenceNumber(number.0 + 1);
            found.push(item);
        }
    }
}
