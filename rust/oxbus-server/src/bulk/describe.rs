// SPDX-License-Identifier: Apache-2.0
//! `GET /describe`: what an entity is, and where its numbers begin and end.
//!
//! A caller that may only send learns what the entity is, and nothing of how much is in it.

use axum::extract::State;
use axum::{Extension, Json};
use oxbus_model::name::EntityName;
use serde::Deserialize;
use serde_json::{Value, json};

use super::parameters::Parameters;
use super::refusal::Refusal;
use super::{BulkState, Caller};
use crate::work::look_up;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    entity: String,
}

pub(super) async fn describe(
    State(state): State<BulkState>,
    Extension(caller): Extension<Caller>,
    Parameters(question): Parameters<Question>,
) -> Result<Json<Value>, Refusal> {
    let with_counts = caller.sees_counts(&question.entity)?;
    let namespace = state.namespace().clone();
    let described = look_up(state.namespace(), move |wait| {
        let (path, sub_queue) = EntityName::split_sub_queue(&question.entity);
        let queue = namespace.entity(path)?;
        let settings = queue.settings();
        let (created_at, _, _) = queue.times();
        let mut described = json!({
            "kind": queue.kind().name(),
            "name": queue.name().as_str(),
            "partitions": queue.partitions(),
            "partitioned": queue.is_partitioned(),
            "incarnation": format!("{}-{}", queue.id().0, created_at.0),
            "requires_session": queue.requires_session(),
            "requires_duplicate_detection": queue.detects_duplicates(),
            "lock_duration": settings.lock_duration_ms as f64 / 1000.0,
            "max_delivery_count": settings.max_delivery_count,
            "max_message_bytes": settings.message_size_bytes_max,
            "durable": queue.is_durable(),
        });
        if with_counts {
            let bounds = queue.number_bounds(sub_queue, wait);
            described["starts"] = bounds.iter().map(|(start, _)| start.0).collect();
            described["ends"] = bounds.iter().map(|(_, end)| end.0).collect();
            described["active_messages"] = queue.count_waiting(sub_queue, wait).into();
        }
        Ok(described)
    });
    Ok(Json(described.await?))
}
