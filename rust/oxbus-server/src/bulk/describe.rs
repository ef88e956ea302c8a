// SPDX-License-Identifier: Apache-2.0
//! `GET /describe`: what an entity is, and where its numbers begin and end.

use axum::Json;
use axum::extract::State;
use oxbus_model::name::EntityName;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Plane;
use super::parameters::Parameters;
use crate::status::Refusal;
use crate::work::on_thread;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    entity: String,
}

pub(super) async fn describe(
    State(plane): State<Plane>,
    Parameters(question): Parameters<Question>,
) -> Result<Json<Value>, Refusal> {
    let described = on_thread(move |wait| {
        let (path, sub_queue) = EntityName::split_sub_queue(&question.entity);
        let queue = plane.namespace().entity(path)?;
        let settings = queue.settings();
        let bounds = queue.number_bounds(sub_queue, wait);
        let messages = queue.count_waiting(sub_queue, wait);
        let (created_at, _, _) = queue.times();
        Ok(json!({
            "kind": queue.kind().name(),
            "name": queue.name().as_str(),
            "partitions": queue.partitions(),
            "partitioned": queue.is_partitioned(),
            "incarnation": format!("{}-{}", queue.id().0, created_at.0),
            "requires_session": queue.requires_session(),
            "requires_duplicate_detection": queue.detects_duplicates(),
            "starts": bounds.iter().map(|(start, _)| start.0).collect::<Vec<u64>>(),
            "ends": bounds.iter().map(|(_, end)| end.0).collect::<Vec<u64>>(),
            "active_messages": messages,
            "lock_duration": settings.lock_duration_ms as f64 / 1000.0,
            "max_delivery_count": settings.max_delivery_count,
            "max_message_bytes": settings.message_size_bytes_max,
            "durable": queue.is_durable(),
        }))
    });
    Ok(Json(described.await?))
}
