// SPDX-License-Identifier: Apache-2.0
//! `/reservations`: what a consumer has under a number, until it completes that number.

use oxbus_store::Wait;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use oxbus_arrow::{PropertiesAs, TableBuilder};
use oxbus_broker::client::{Plan, ReservationInfo, Reservations, Standing, Start, Wish};
use oxbus_broker::clock::Deadline;
use oxbus_model::authorization::AccessRight;
use oxbus_model::caps::{BULK_PAGE_BYTES_MAX, BULK_WAIT_MS_MAX};
use oxbus_model::options::in_range;
use oxbus_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::parameters::{Command, Parameters};
use super::refusal::Refusal;
use super::rows::page;
use super::settle::How;
use super::{BulkState, Caller};
use crate::wait::until_found;
use crate::work::{look_up, on_thread};

pub(super) fn routes() -> Router<BulkState> {
    Router::new()
        .route("/", get(list))
        .route("/acquire", post(acquire))
        .route("/reserve", post(reserve))
        .route("/plan", post(plan))
        .route("/read", get(read))
        .route("/renew", post(renew))
        .route("/complete", post(complete))
        .route("/settle", post(settle))
        .route("/cancel", post(cancel))
}

type Answer = std::result::Result<Json<Value>, Refusal>;

/// Runs a call on the reservations of an entity, for a caller that has the right there.
async fn on<T: Send + 'static>(
    state: BulkState,
    (caller, right): (Caller, AccessRight),
    entity: String,
    work: impl FnOnce(&Reservations, &Wait<'_>) -> Result<T> + Send + 'static,
) -> std::result::Result<T, Refusal> {
    caller.may(right, &entity)?;
    Ok(on_thread(move |wait| work(&state.namespace().reservations(&entity)?, wait)).await?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Acquire {
    entity: String,
    consumer: String,
    start: String,
}

async fn acquire(
    State(state): State<BulkState>,
    Extension(caller): Extension<Caller>,
    Command(command): Command<Acquire>,
) -> Answer {
    let start = match command.start.as_str() {
        "earliest" => Start::Earliest,
        "latest" => Start::Latest,
        other => {
            let detail = format!("unknown start; use `earliest` or `latest`: `{other}`");
            return Err(Error::new(ErrorKind::InvalidArgument, detail).into());
        }
    };
    let acquired = on(state, (caller, AccessRight::Listen), command.entity, move |it, wait| {
        it.acquire(&command.consumer, start, wait)
    })
    .await?;
    Ok(Json(json!({ "epoch": acquired.epoch, "done": acquired.done })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reserve {
    entity: String,
    consumer: String,
    epoch: u64,
    n: u64,
    max_messages: usize,
    max_bytes: u64,
    lock_ms: u64,
    max_wait_time_ms: u64,
    #[serde(default)]
    upto: Option<Vec<u64>>,
}

async fn reserve(
    State(state): State<BulkState>,
    Extension(caller): Extension<Caller>,
    Command(command): Command<Reserve>,
) -> Answer {
    caller.may(AccessRight::Listen, &command.entity)?;
    in_range("max_wait_time_ms", command.max_wait_time_ms, 0, BULK_WAIT_MS_MAX, "ms")?;
    let wait = Duration::from_millis(command.max_wait_time_ms);
    let deadline = Deadline::after(Some(wait));
    let wish = Wish {
        messages: command.max_messages,
        bytes: command.max_bytes,
        upto: command.upto,
        lock: Duration::from_millis(command.lock_ms),
        wait,
    };
    let reservations = {
        let namespace = state.namespace().clone();
        let found = look_up(state.namespace(), move |_| namespace.reservations(&command.entity));
        Arc::new(found.await?)
    };
    let (consumer, number) = (command.consumer, (command.epoch, command.n));
    let found = until_found(&reservations, deadline, state.stopped(), move |it, store| {
        it.reserve_now(&consumer, number, &wish, store)
    });
    let plan = found.await?;
    Ok(Json(shown(
        &plan.unwrap_or_else(|| reservations.empty_plan(number.0, number.1)),
    )))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Numbered {
    entity: String,
    consumer: String,
    epoch: u64,
    n: u64,
    #[serde(default)]
    lock_ms: u64,
}

async fn plan(
    State(state): State<BulkState>,
    Extension(caller): Extension<Caller>,
    Command(command): Command<Numbered>,
) -> Answer {
    let lock = Duration::from_millis(command.lock_ms);
    let plan = on(state, (caller, AccessRight::Listen), command.entity, move |it, wait| {
        it.plan(&command.consumer, command.epoch, command.n, lock, wait)
    });
    Ok(Json(shown(&plan.await?)))
}

fn shown(plan: &Plan) -> Value {
    let partitions: Vec<Value> = plan
        .partitions
        .iter()
        .map(|part| {
            json!({
                "partition": part.partition,
                "ranges": part.ranges,
                "messages": part.messages,
                "bytes": part.bytes,
            })
        })
        .collect();
    json!({
        "id": plan.id,
        "n": plan.n,
        "partitions": partitions,
        "messages": plan.messages(),
        "missing": plan.missing,
        "expires_at_ms": plan.expires_at.0,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    entity: String,
    id: String,
    epoch: u64,
    partition: u16,
    lo: u64,
    hi: u64,
    max_bytes: u64,
    include_body: bool,
    #[serde(default)]
    application_properties: PropertiesAs,
}

async fn read(
    State(state): State<BulkState>,
    Extension(caller): Extension<Caller>,
    Parameters(question): Parameters<Read>,
) -> std::result::Result<Response, Refusal> {
    let Read { entity, id, epoch, .. } = question;
    let page_of = on(state, (caller, AccessRight::Listen), entity, move |it, wait| {
        in_range("max_bytes", question.max_bytes, 1, BULK_PAGE_BYTES_MAX as u64, "bytes")?;
        let bytes = question.max_bytes as usize;
        let found = it.read((&id, epoch), question.partition, question.lo, question.hi, bytes, wait)?;
        let size = found.messages.iter().map(|message| message.claimed.record.len()).sum();
        let bytes = if question.include_body { size } else { 0 };
        let mut builder =
            TableBuilder::new(found.messages.len(), bytes).with_properties(question.application_properties);
        for message in &found.messages {
            builder.push_reserved(it.queue(), message, question.include_body)?;
        }
        page(&builder.finish()?, found.next)
    });
    page_of.await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Renew {
    entity: String,
    consumer: String,
    epoch: u64,
    lock_ms: u64,
}

async fn renew(
    State(state): State<BulkState>,
    Extension(caller): Extension<Caller>,
    Command(command): Command<Renew>,
) -> Answer {
    let lock = Duration::from_millis(command.lock_ms);
    let until = on(state, (caller, AccessRight::Listen), command.entity, move |it, wait| {
        it.renew(&command.consumer, command.epoch, lock, wait)
    })
    .await?;
    Ok(Json(json!({ "expires_at_ms": until.0 })))
}

async fn complete(
    State(state): State<BulkState>,
    Extension(caller): Extension<Caller>,
    Command(command): Command<Numbered>,
) -> Answer {
    let completed = on(state, (caller, AccessRight::Listen), command.entity, move |it, wait| {
        it.complete_up_to(&command.consumer, command.epoch, command.n, wait)
    });
    let completed = completed.await?;
    Ok(Json(
        json!({ "completed": completed.completed, "late": completed.late }),
    ))
}

#[derive(Deserialize)]
struct Settle {
    entity: String,
    id: String,
    epoch: u64,
    sequence_numbers: Vec<u64>,
    #[serde(flatten)]
    how: How,
}

async fn settle(
    State(state): State<BulkState>,
    Extension(caller): Extension<Caller>,
    Command(command): Command<Settle>,
) -> Answer {
    let settled = on(state, (caller, AccessRight::Listen), command.entity, move |it, wait| {
        it.settle(
            &command.id,
            command.epoch,
            &command.sequence_numbers,
            command.how.settlement()?,
            wait,
        )
    });
    Ok(Json(json!({ "settled": settled.await? })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    entity: String,
}

async fn list(
    State(state): State<BulkState>,
    Extension(caller): Extension<Caller>,
    Parameters(question): Parameters<List>,
) -> Answer {
    let infos = on(state, (caller, AccessRight::Manage), question.entity, |it, wait| {
        Ok(it.list(wait))
    })
    .await?;
    let infos: Vec<Value> = infos.iter().map(info).collect();
    Ok(Json(json!({ "reservations": infos })))
}

fn info(info: &ReservationInfo) -> Value {
    json!({
        "consumer": info.consumer,
        "n": info.n,
        "epoch": info.epoch,
        "done": info.done,
        "messages": info.messages,
        "state": match info.standing {
            Standing::Live => "live",
            Standing::Lapsed => "lapsed",
        },
        "expires_at_ms": info.expires_at.map(|time| time.0),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cancel {
    entity: String,
    consumer: String,
}

async fn cancel(
    State(state): State<BulkState>,
    Extension(caller): Extension<Caller>,
    Command(command): Command<Cancel>,
) -> Answer {
    let cancelled = on(state, (caller, AccessRight::Manage), command.entity, move |it, wait| {
        it.cancel(&command.consumer, wait)
    })
    .await?;
    Ok(Json(json!({ "cancelled": cancelled })))
}
