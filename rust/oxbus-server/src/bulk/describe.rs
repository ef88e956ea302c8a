// SPDX-License-Identifier: Apache-2.0
//! `GET /describe`: the properties of an entity and the bounds of its sequence numbers.
//!
//! A caller with only the right to send gets no counts and no bounds.

use axum::extract::State;
use axum::{Extension, Json};
use oxbus_model::name::{EntityName, SubQueue};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::BulkError;
use super::parameters::QueryParameters;
use super::{BulkCaller, BulkState};
use crate::blocking::run_lookup;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DescribeParameters {
    entity: String,
}

pub(super) async fn describe(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    QueryParameters(parameters): QueryParameters<DescribeParameters>,
) -> Result<Json<Value>, BulkError> {
    let may_see_counts = caller.sees_counts(&parameters.entity)?;
    let namespace = state.namespace().clone();
    let description = run_lookup(state.namespace(), move |wait| {
        let (path, sub_queue) = EntityName::split_sub_queue(&parameters.entity);
        let entity = namespace.entity(path)?;
        let settings = entity.settings();
        let (created_at, _, _) = entity.times();
        let mut description = json!({
            "kind": entity.kind().name(),
            "name": entity.name().as_str(),
            "partitions": entity.partitions(),
            "partitioned": entity.is_partitioned(),
            "incarnation": format!("{}-{}", entity.id().0, created_at.0),
            "requires_session": entity.requires_session(),
            "requires_duplicate_detection": entity.detects_duplicates(),
            "lock_duration": settings.lock_duration_ms as f64 / 1000.0,
            "max_delivery_count": settings.max_delivery_count,
            "max_message_bytes": settings.message_size_bytes_max,
            "durable": entity.is_durable(),
        });
        if may_see_counts {
            let bounds = entity.number_bounds(sub_queue, wait);
            description["starts"] = bounds.iter().map(|(start, _)| start.0).collect();
            description["ends"] = bounds.iter().map(|(_, end)| end.0).collect();
            let backlog = entity.backlog(sub_queue, wait)?;
            let oldest = backlog.iter().filter_map(|it| it.oldest).min();
            let age_ms = oldest.map(|oldest| entity.now().0.saturating_sub(oldest.0));
            let dead_letters = entity.backlog(SubQueue::DeadLetter, wait)?;
            description["active_messages"] = backlog.iter().map(|it| it.messages).sum::<u64>().into();
            description["active_by_partition"] = backlog.iter().map(|it| it.messages).collect();
            description["oldest_age_ms"] = age_ms.into();
            description["dead_letter_messages"] = dead_letters.iter().map(|it| it.messages).sum::<u64>().into();
            description["staged_bytes"] = namespace.stages().bytes().into();
        }
        Ok(description)
    });
    Ok(Json(description.await?))
}
