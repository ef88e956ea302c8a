// SPDX-License-Identifier: Apache-2.0
//! `GET /peek`: browses a page of one partition.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use oxbus_arrow::{ColumnSelection, PropertiesFormat, TableBuilder};
use oxbus_model::PartitionId;
use oxbus_model::authorization::AccessRight;
use oxbus_model::caps::BULK_PAGE_BYTES_MAX;
use oxbus_model::name::EntityName;
use oxbus_model::options::{ReceiveMode, in_range};
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
    let response = run_blocking(move |wait| {
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
        let range = (parameters.from, parameters.to.unwrap_or(u64::MAX));
        let (found, next) = receiver.browse_page(partition, range, parameters.max_bytes as usize, wait)?;
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
