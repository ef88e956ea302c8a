// SPDX-License-Identifier: Apache-2.0
//! `/reservations`: messages that a consumer has reserved under a number until it completes that number.

use oxbus_store::Wait;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use oxbus_arrow::{ColumnSelection, PropertiesFormat, TableBuilder};
use oxbus_broker::client::{
    ReservationInfo, ReservationPlan, ReservationStatus, Reservations, ReserveOptions, SessionStates, StartPosition,
    WaitOptions, step,
};
use oxbus_broker::clock::Deadline;
use oxbus_model::authorization::AccessRight;
use oxbus_model::caps::{BULK_PAGE_BYTES_MAX, BULK_WAIT_MS_MAX};
use oxbus_model::hex::{from_hex, to_hex};
use oxbus_model::options::in_range;
use oxbus_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::BulkError;
use super::parameters::{JsonBody, QueryParameters};
use super::rows::page;
use super::settle::SettlementRequest;
use super::{BulkCaller, BulkState, JsonResult};
use crate::blocking::{run_blocking, run_lookup};
use crate::wait::wait_until_found;

pub(super) fn routes() -> Router<BulkState> {
    Router::new()
        .route("/", get(list))
        .route("/acquire", post(acquire))
        .route("/reserve", post(reserve))
        .route("/plan", post(plan))
        .route("/read", get(read))
        .route("/sessions", get(sessions))
        .route("/renew", post(renew))
        .route("/complete", post(complete))
        .route("/settle", post(settle))
        .route("/cancel", post(cancel))
}

/// Runs a short call on the reservations of an entity, for a caller that has the right there.
async fn with_reservations<T: Send + 'static>(
    state: BulkState,
    (caller, right): (BulkCaller, AccessRight),
    entity: String,
    work: impl FnOnce(&Reservations, &Wait<'_>) -> Result<T> + Send + 'static,
) -> std::result::Result<T, BulkError> {
    caller.authorize(right, &entity)?;
    let namespace = state.namespace().clone();
    Ok(run_lookup(state.namespace(), move |wait| {
        work(&namespace.reservations(&entity)?, wait)
    })
    .await?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AcquireRequest {
    entity: String,
    consumer: String,
    start: String,
}

async fn acquire(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    JsonBody(request): JsonBody<AcquireRequest>,
) -> JsonResult {
    let start = match request.start.as_str() {
        "earliest" => StartPosition::Earliest,
        "latest" => StartPosition::Latest,
        other => {
            let detail = format!("unknown start; use `earliest` or `latest`: `{other}`");
            return Err(Error::new(ErrorKind::InvalidArgument, detail).into());
        }
    };
    let acquired = with_reservations(state, (caller, AccessRight::Listen), request.entity, move |it, wait| {
        it.acquire(&request.consumer, start, wait)
    })
    .await?;
    Ok(Json(json!({ "epoch": acquired.epoch, "done": acquired.done })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReserveRequest {
    entity: String,
    consumer: String,
    epoch: u64,
    n: u64,
    max_messages: usize,
    max_bytes: u64,
    lock_ms: u64,
    max_wait_time_ms: u64,
    #[serde(default)]
    attempts: u64,
    #[serde(default)]
    max_sessions: Option<usize>,
    #[serde(default)]
    upto: Option<Vec<u64>>,
}

async fn reserve(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    JsonBody(request): JsonBody<ReserveRequest>,
) -> JsonResult {
    caller.authorize(AccessRight::Listen, &request.entity)?;
    in_range("max_wait_time_ms", request.max_wait_time_ms, 0, BULK_WAIT_MS_MAX, "ms")?;
    let wait = Duration::from_millis(request.max_wait_time_ms);
    let deadline = Deadline::after(Some(wait));
    let options = ReserveOptions {
        messages: request.max_messages,
        bytes: request.max_bytes,
        sessions: request.max_sessions,
        upto: request.upto,
        lock: Duration::from_millis(request.lock_ms),
        wait,
        attempts: request.attempts,
    };
    let reservations = {
        let namespace = state.namespace().clone();
        let found = run_lookup(state.namespace(), move |_| namespace.reservations(&request.entity));
        Arc::new(found.await?)
    };
    let number = (request.epoch, request.n);
    let request = Arc::new((request.consumer, options));
    let found = wait_until_found(state.stopped(), |earlier, callback| {
        let (reservations, request, is_stopped) = (Arc::clone(&reservations), Arc::clone(&request), state.stopped());
        run_blocking(move |store| {
            let is_over = || *is_stopped.borrow();
            let wait = WaitOptions {
                deadline,
                cancellation: &Wait::until(&is_over),
                poll_interval: None,
            };
            let (consumer, options) = &*request;
            step(&*reservations, earlier, &wait, Some(callback), || {
                reservations.reserve_now(consumer, number, options, store)
            })
        })
    });
    let plan = found.await?;
    Ok(Json(plan_json(
        &plan.unwrap_or_else(|| reservations.empty_plan(number.0, number.1)),
    )))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReservationRequest {
    entity: String,
    consumer: String,
    epoch: u64,
    n: u64,
    #[serde(default)]
    lock_ms: u64,
}

async fn plan(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    JsonBody(request): JsonBody<ReservationRequest>,
) -> JsonResult {
    let lock = Duration::from_millis(request.lock_ms);
    let plan = with_reservations(state, (caller, AccessRight::Listen), request.entity, move |it, wait| {
        it.plan(&request.consumer, request.epoch, request.n, lock, wait)
    });
    Ok(Json(plan_json(&plan.await?)))
}

fn plan_json(plan: &ReservationPlan) -> Value {
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
        "attempt": plan.attempt,
        "missing": plan.missing,
        "expires_at_ms": plan.expires_at.0,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadParameters {
    entity: String,
    id: String,
    epoch: u64,
    partition: u16,
    lo: u64,
    hi: u64,
    max_bytes: u64,
    include_body: bool,
    #[serde(default)]
    application_properties: PropertiesFormat,
    #[serde(default)]
    columns: Option<String>,
}

async fn read(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    QueryParameters(parameters): QueryParameters<ReadParameters>,
) -> std::result::Result<Response, BulkError> {
    let ReadParameters { entity, id, epoch, .. } = parameters;
    caller.authorize(AccessRight::Listen, &entity)?;
    let columns = ColumnSelection::parse(parameters.columns.as_deref())?;
    let page_of = run_blocking(move |wait| {
        let it = state.namespace().reservations(&entity)?;
        in_range(
            "max_bytes",
            parameters.max_bytes,
            1,
            BULK_PAGE_BYTES_MAX as u64,
            "bytes",
        )?;
        let bytes = parameters.max_bytes as usize;
        let found = it.read(
            (&id, epoch),
            parameters.partition,
            parameters.lo,
            parameters.hi,
            bytes,
            wait,
        )?;
        let size = found.messages.iter().map(|message| message.claimed.record.len()).sum();
        let bytes = if parameters.include_body { size } else { 0 };
        let mut builder = TableBuilder::new(columns, found.messages.len(), bytes)
            .with_properties(parameters.application_properties)
            .with_bodies(parameters.include_body);
        builder.push_reserved(it.entity(), &found.messages)?;
        page(&builder.finish()?, found.next)
    });
    Ok(page_of.await?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RenewRequest {
    entity: String,
    consumer: String,
    epoch: u64,
    lock_ms: u64,
}

async fn renew(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    JsonBody(request): JsonBody<RenewRequest>,
) -> JsonResult {
    let lock = Duration::from_millis(request.lock_ms);
    let until = with_reservations(state, (caller, AccessRight::Listen), request.entity, move |it, wait| {
        it.renew(&request.consumer, request.epoch, lock, wait)
    })
    .await?;
    Ok(Json(json!({ "expires_at_ms": until.0 })))
}

async fn complete(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    JsonBody(request): JsonBody<ReservationRequest>,
) -> JsonResult {
    let completed = with_reservations(state, (caller, AccessRight::Listen), request.entity, move |it, wait| {
        it.complete_up_to(&request.consumer, request.epoch, request.n, wait)
    });
    let completed = completed.await?;
    Ok(Json(
        json!({ "completed": completed.completed, "late": completed.late }),
    ))
}

#[derive(Deserialize)]
struct SettleReservedRequest {
    entity: String,
    id: String,
    epoch: u64,
    sequence_numbers: Vec<u64>,
    /// By the sequence number of a message, the new state of its session in hexadecimal digits; null clears it.
    #[serde(default)]
    session_states: BTreeMap<String, Option<String>>,
    #[serde(flatten)]
    settlement: SettlementRequest,
}

async fn settle(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    JsonBody(request): JsonBody<SettleReservedRequest>,
) -> JsonResult {
    caller.authorize(AccessRight::Listen, &request.entity)?;
    let settled = run_blocking(move |wait| {
        let it = state.namespace().reservations(&request.entity)?;
        if request.settlement.is_release() {
            return it.release(&request.id, request.epoch, &request.sequence_numbers, wait);
        }
        let settlement = request.settlement.settlement()?;
        let (id, epoch, numbers) = (&request.id, request.epoch, &request.sequence_numbers);
        if request.session_states.is_empty() {
            return it.settle(id, epoch, numbers, settlement, wait);
        }
        let states = states_of(&request.session_states)?;
        it.settle_with_states(id, epoch, (numbers, &states), settlement, wait)
    });
    Ok(Json(json!({ "settled": settled.await? })))
}

fn states_of(encoded: &BTreeMap<String, Option<String>>) -> Result<SessionStates> {
    let decode = |(number, state): (&String, &Option<String>)| {
        let number = number.parse::<u64>().ok()?;
        match state.as_ref().map(|text| from_hex(text)) {
            Some(bytes) => Some((number, Some(bytes?))),
            None => Some((number, None)),
        }
    };
    let states: Option<SessionStates> = encoded.iter().map(decode).collect();
    states.ok_or_else(|| {
        let detail = "session_states must have hexadecimal digits or null, by sequence number";
        Error::new(ErrorKind::InvalidArgument, detail)
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionsParameters {
    entity: String,
    id: String,
    epoch: u64,
    partition: u16,
    #[serde(default)]
    after: Option<String>,
    max_bytes: usize,
}

async fn sessions(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    QueryParameters(parameters): QueryParameters<SessionsParameters>,
) -> JsonResult {
    let SessionsParameters { entity, id, epoch, .. } = parameters;
    in_range(
        "max_bytes",
        parameters.max_bytes as u64,
        1,
        BULK_PAGE_BYTES_MAX as u64,
        "bytes",
    )?;
    let page = with_reservations(state, (caller, AccessRight::Listen), entity, move |it, wait| {
        let after = parameters.after.as_deref();
        it.sessions((&id, epoch), parameters.partition, after, parameters.max_bytes, wait)
    })
    .await?;
    let sessions = page
        .sessions
        .iter()
        .map(|session| json!({ "id": &*session.id, "state": session.state.as_ref().map(|state| to_hex(state)) }));
    Ok(Json(
        json!({ "sessions": sessions.collect::<Vec<_>>(), "has_more": page.has_more }),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParameters {
    entity: String,
}

async fn list(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    QueryParameters(parameters): QueryParameters<ListParameters>,
) -> JsonResult {
    let infos = with_reservations(state, (caller, AccessRight::Manage), parameters.entity, |it, wait| {
        Ok(it.list(wait))
    })
    .await?;
    let infos: Vec<Value> = infos.iter().map(info_json).collect();
    Ok(Json(json!({ "reservations": infos })))
}

fn info_json(info: &ReservationInfo) -> Value {
    json!({
        "consumer": info.consumer,
        "n": info.n,
        "epoch": info.epoch,
        "done": info.done,
        "messages": info.messages,
        "state": match info.standing {
            ReservationStatus::Live => "live",
            ReservationStatus::Expired => "lapsed",
        },
        "expires_at_ms": info.expires_at.map(|time| time.0),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelRequest {
    entity: String,
    consumer: String,
}

async fn cancel(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    JsonBody(request): JsonBody<CancelRequest>,
) -> JsonResult {
    let cancelled = with_reservations(state, (caller, AccessRight::Manage), request.entity, move |it, wait| {
        it.cancel(&request.consumer, wait)
    })
    .await?;
    Ok(Json(json!({ "cancelled": cancelled })))
}
