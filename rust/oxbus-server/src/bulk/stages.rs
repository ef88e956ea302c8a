// SPDX-License-Identifier: Apache-2.0
//! `/stages`: rows that are put aside, and published together by one commit.
//!
//! A stage takes its rows as they come and holds no more of them in memory than the piece at hand. One that breaks off, or is
//! refused, is removed.

use arrow_array::StructArray;
use arrow_buffer::Buffer;
use axum::body::Body;
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use oxbus_arrow::stream::Decoder;
use oxbus_arrow::{Columns, Putting};
use oxbus_broker::{StageInfo, StageState};
use oxbus_model::Result;
use oxbus_model::authorization::AccessRight;
use serde::Deserialize;
use serde_json::{Value, json};

use super::parameters::{Command, Parameters};
use super::refusal::Refusal;
use super::send::{Piece, Pieces, take};
use super::{BulkState, Caller, NAMESPACE};
use crate::work::on_thread;

pub(super) fn routes() -> Router<BulkState> {
    Router::new()
        .route("/", get(list).post(stage))
        .route("/commit", post(commit))
        .route("/abort", post(abort))
        .route("/discard", post(discard))
}

type Answer = std::result::Result<Json<Value>, Refusal>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    entity: String,
    id: String,
}

/// A stage that takes rows, and what the next bytes continue.
struct Incoming {
    putting: Putting,
    decoder: Decoder,
}

impl Incoming {
    fn push(mut self, piece: Piece) -> Result<Self> {
        for bytes in piece.0 {
            for batch in self.decoder.push(Buffer::from(bytes))? {
                let columns = Columns::read_with_partitions(&StructArray::from(batch))?;
                self.putting.push(&columns)?;
            }
        }
        Ok(self)
    }
}

async fn stage(
    State(state): State<BulkState>,
    Extension(caller): Extension<Caller>,
    Parameters(target): Parameters<Target>,
    body: Body,
) -> Answer {
    caller.may(AccessRight::Send, &target.entity)?;
    let pause = state.limits().body_pause();
    let begun = on_thread(move |_| {
        let staging = state.namespace().stages().begin(&target.entity, &target.id)?;
        Ok(Incoming {
            putting: Putting::new(staging, state.new_id()),
            decoder: Decoder::default(),
        })
    });
    let begun = begun.await?;
    let mut body = Pieces::new(body, pause);
    let incoming = match take(&mut body, begun, Incoming::push, |_| Ok(())).await {
        Ok(incoming) => incoming,
        Err(error) => {
            body.drain().await;
            return Err(error.into());
        }
    };
    let finished = on_thread(move |_| {
        incoming.decoder.finish()?;
        incoming.putting.finish()
    });
    Ok(Json(json!({ "rows": finished.await? })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    sink: String,
    query: String,
    batch: u64,
    ids: Vec<String>,
}

async fn commit(
    State(state): State<BulkState>,
    Extension(caller): Extension<Caller>,
    Command(it): Command<Decision>,
) -> Answer {
    // Stages of several entities show at once, and what a sink committed holds for all of them.
    caller.may(AccessRight::Send, NAMESPACE)?;
    let committed = on_thread(move |wait| {
        let stages = state.namespace().stages();
        stages.commit(&it.sink, &it.query, it.batch, &it.ids, wait)
    });
    Ok(Json(json!({ "committed": committed.await? })))
}

async fn abort(
    State(state): State<BulkState>,
    Extension(caller): Extension<Caller>,
    Command(it): Command<Decision>,
) -> Answer {
    caller.may(AccessRight::Send, NAMESPACE)?;
    let aborted = on_thread(move |wait| {
        let stages = state.namespace().stages();
        stages.abort(&it.sink, &it.query, it.batch, &it.ids, wait)
    });
    aborted.await?;
    Ok(Json(json!({})))
}

async fn list(State(state): State<BulkState>, Extension(caller): Extension<Caller>) -> Answer {
    caller.may(AccessRight::Manage, NAMESPACE)?;
    let stages = on_thread(move |_| Ok(state.namespace().stages().list())).await?;
    let stages: Vec<Value> = stages.iter().map(shown).collect();
    Ok(Json(json!({ "stages": stages })))
}

fn shown(stage: &StageInfo) -> Value {
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
struct One {
    id: String,
}

async fn discard(
    State(state): State<BulkState>,
    Extension(caller): Extension<Caller>,
    Command(one): Command<One>,
) -> Answer {
    caller.may(AccessRight::Manage, NAMESPACE)?;
    let discarded = on_thread(move |wait| state.namespace().stages().discard(&one.id, wait)).await?;
    Ok(Json(json!({ "discarded": discarded })))
}
