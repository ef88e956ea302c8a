// SPDX-License-Identifier: Apache-2.0
//! `/stages`: staged rows, which one commit publishes together.
//!
//! A stage writes rows as they arrive and holds only the current chunk in memory. A stage is removed if its stream
//! ends early or is rejected.

use arrow_array::StructArray;
use arrow_buffer::Buffer;
use axum::body::Body;
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use oxbus_arrow::stream::Decoder;
use oxbus_arrow::{InputColumns, StageBuilder};
use oxbus_broker::{StageInfo, StageState};
use oxbus_model::Result;
use oxbus_model::authorization::AccessRight;
use serde::Deserialize;
use serde_json::{Value, json};

use super::parameters::{JsonBody, QueryParameters};
use super::send::{BodyChunk, BodyChunks, feed_chunks};
use super::{BulkCaller, BulkState, JsonResult, NAMESPACE};
use crate::blocking::{run_blocking, run_change};

pub(super) fn routes() -> Router<BulkState> {
    Router::new()
        .route("/", get(list).post(stage))
        .route("/commit", post(commit))
        .route("/abort", post(abort))
        .route("/discard", post(discard))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StageParameters {
    entity: String,
    id: String,
}

/// A stage that is being written, and the decoder's state.
struct StageUpload {
    builder: StageBuilder,
    decoder: Decoder,
}

impl StageUpload {
    fn push(mut self, chunk: BodyChunk) -> Result<Self> {
        for bytes in chunk.0 {
            for batch in self.decoder.push(Buffer::from(bytes))? {
                let columns = InputColumns::read_with_partitions(&StructArray::from(batch))?;
                self.builder.push(&columns)?;
            }
        }
        Ok(self)
    }
}

async fn stage(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    QueryParameters(parameters): QueryParameters<StageParameters>,
    body: Body,
) -> JsonResult {
    caller.authorize(AccessRight::Send, &parameters.entity)?;
    let pause = state.limits().body_pause();
    let upload = run_blocking(move |_| {
        let staging = state.namespace().stages().begin(&parameters.entity, &parameters.id)?;
        Ok(StageUpload {
            builder: StageBuilder::new(staging, state.new_id()),
            decoder: Decoder::default(),
        })
    });
    let upload = upload.await?;
    let mut body = BodyChunks::new(body, pause);
    let upload = match feed_chunks(&mut body, upload, StageUpload::push, |_| Ok(())).await {
        Ok(upload) => upload,
        Err(error) => {
            body.drain().await;
            return Err(error.into());
        }
    };
    let finished = run_blocking(move |_| {
        upload.decoder.finish()?;
        upload.builder.finish()
    });
    Ok(Json(json!({ "rows": finished.await? })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommitRequest {
    sink: String,
    query: String,
    batch: u64,
    ids: Vec<String>,
}

async fn commit(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    JsonBody(request): JsonBody<CommitRequest>,
) -> JsonResult {
    // A commit publishes stages of several entities at once, and the sink's record applies to all of them.
    caller.authorize(AccessRight::Send, NAMESPACE)?;
    let committed = run_change(move |wait| {
        let stages = state.namespace().stages();
        stages.commit(&request.sink, &request.query, request.batch, &request.ids, wait)
    });
    Ok(Json(json!({ "committed": committed.await? })))
}

async fn abort(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    JsonBody(request): JsonBody<CommitRequest>,
) -> JsonResult {
    caller.authorize(AccessRight::Send, NAMESPACE)?;
    let aborted = run_change(move |wait| {
        let stages = state.namespace().stages();
        stages.abort(&request.sink, &request.query, request.batch, &request.ids, wait)
    });
    aborted.await?;
    Ok(Json(json!({})))
}

async fn list(State(state): State<BulkState>, Extension(caller): Extension<BulkCaller>) -> JsonResult {
    caller.authorize(AccessRight::Manage, NAMESPACE)?;
    let stages = run_blocking(move |_| Ok(state.namespace().stages().list())).await?;
    let stages: Vec<Value> = stages.iter().map(stage_json).collect();
    Ok(Json(json!({ "stages": stages })))
}

fn stage_json(stage: &StageInfo) -> Value {
    let (status, reason, commit) = match &stage.state {
        StageState::Open => ("open", None, None),
        StageState::Ready => ("ready", None, None),
        StageState::Committed { sink, batch } => ("committed", None, Some((sink, batch))),
        StageState::Damaged(why) => ("damaged", Some(why), None),
    };
    json!({
        "id": stage.id,
        "entity": stage.entity,
        "created_at_ms": stage.created_at.0,
        "expires_at_ms": stage.expires_at.0,
        "rows": stage.rows,
        "bytes": stage.bytes,
        "status": status,
        "reason": reason,
        "sink": commit.map(|(sink, _)| sink),
        "batch": commit.map(|(_, batch)| batch),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DiscardRequest {
    id: String,
}

async fn discard(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    JsonBody(request): JsonBody<DiscardRequest>,
) -> JsonResult {
    caller.authorize(AccessRight::Manage, NAMESPACE)?;
    let discarded = run_change(move |wait| state.namespace().stages().discard(&request.id, wait)).await?;
    Ok(Json(json!({ "discarded": discarded })))
}
