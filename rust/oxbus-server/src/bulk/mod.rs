// SPDX-License-Identifier: Apache-2.0
//! The bulk routes, `/$bulk/v1/…`: Arrow streams over HTTP. See docs/bulk.md.

mod access;
mod backup;
mod describe;
mod entity;
mod error;
mod limits;
mod parameters;
mod peek;
mod receive;
mod reservations;
mod rows;
mod send;
mod settle;
mod stages;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::Uri;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use oxbus_broker::Namespace;
use oxbus_model::caps::BULK_CONTROL_BYTES_MAX;
use oxbus_model::message::NewId;
use oxbus_model::{Error, ErrorKind};
use oxbus_wire::{BULK_ROOT, BULK_VERSION};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use self::access::{BulkCaller, NAMESPACE};
use self::error::BulkError;
pub use self::limits::BulkLimits;
use crate::front::Budget;
use crate::sas::Authority;
use crate::spans::AnsweringRoute;

/// The response of a route that answers in JSON.
type JsonResult = std::result::Result<Json<Value>, BulkError>;

/// The state that all bulk requests share.
#[derive(Clone)]
pub(crate) struct BulkState(Arc<BulkStateInner>);

struct BulkStateInner {
    namespace: Namespace,
    authority: Arc<Authority>,
    new_id: NewId,
    limits: BulkLimits,
    stopped: watch::Receiver<bool>,
    requests: Arc<Semaphore>,
    /// The budget for rows that are in memory and not stored yet.
    unstored: Budget,
}

impl BulkState {
    pub(crate) fn new(
        namespace: Namespace,
        authority: Arc<Authority>,
        new_id: NewId,
        limits: BulkLimits,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        Self(Arc::new(BulkStateInner {
            namespace,
            authority,
            new_id,
            limits,
            stopped,
            requests: Arc::new(Semaphore::new(limits.requests as usize)),
            unstored: Budget::new(limits.unstored_bytes as usize),
        }))
    }

    fn namespace(&self) -> &Namespace {
        &self.0.namespace
    }

    fn authority(&self) -> &Authority {
        &self.0.authority
    }

    fn new_id(&self) -> NewId {
        self.0.new_id
    }

    fn limits(&self) -> &BulkLimits {
        &self.0.limits
    }

    fn stopped(&self) -> watch::Receiver<bool> {
        self.0.stopped.clone()
    }
}

/// All bulk routes.
#[derive(Clone)]
pub(crate) struct BulkRoutes(TowerToHyperService<Router>);

impl BulkRoutes {
    pub(crate) fn new(state: BulkState) -> Self {
        let routes = Router::new()
            .route("/describe", get(describe::describe))
            .route("/send", post(send::send))
            .route("/receive", post(receive::receive))
            .route("/settle", post(settle::settle))
            .route("/peek", get(peek::peek))
            .route("/backup", post(backup::backup))
            .nest("/reservations", reservations::routes())
            .nest("/stages", stages::routes());
        let routes = Router::new()
            .nest(BULK_VERSION, routes)
            .fallback(unknown_route)
            .method_not_allowed_fallback(unknown_route)
            .layer(DefaultBodyLimit::max(BULK_CONTROL_BYTES_MAX))
            .layer(middleware::from_fn_with_state(state.clone(), limit_requests))
            .layer(middleware::from_fn_with_state(state.clone(), access::authenticate))
            .layer(middleware::from_fn(name_route))
            .with_state(state);
        Self(TowerToHyperService::new(routes))
    }

    /// Answers a bulk request. Returns any other request unchanged.
    pub(crate) async fn answer(
        &self,
        mut request: hyper::Request<Incoming>,
    ) -> Result<hyper::Response<Body>, Box<hyper::Request<Incoming>>> {
        let Some(uri) = strip_root(request.uri()) else {
            return Err(Box::new(request));
        };
        *request.uri_mut() = uri;
        let answered = self.0.call(request).await;
        Ok(answered.unwrap_or_else(|never| match never {}))
    }
}

/// The URI of a bulk route without its first segment, and `None` for any other URI.
fn strip_root(uri: &Uri) -> Option<Uri> {
    const ESCAPED: &str = "/%24bulk";
    let all = uri.path_and_query()?.as_str();
    let (_, rest) = [BULK_ROOT, ESCAPED]
        .iter()
        .filter_map(|root| all.split_at_checked(root.len()))
        .zip([BULK_ROOT, ESCAPED])
        .find_map(|((first, rest), root)| first.eq_ignore_ascii_case(root).then_some((first, rest)))?;
    match rest.as_bytes().first() {
        Some(b'/') => rest.parse().ok(),
        None => Some(Uri::from_static("/")),
        Some(_) => None,
    }
}

/// The place of a request among the concurrent ones. A route whose answer is long keeps it until the answer has ended.
#[derive(Clone)]
struct RequestPermit(#[expect(dead_code, reason = "held")] Arc<OwnedSemaphorePermit>);

/// Limits the number of concurrent requests.
async fn limit_requests(State(state): State<BulkState>, mut request: Request, next: Next) -> Response {
    if let Ok(permit) = Arc::clone(&state.0.requests).try_acquire_owned() {
        let permit = RequestPermit(Arc::new(permit));
        request.extensions_mut().insert(permit.clone());
        let response = next.run(request).await;
        drop(permit);
        return response;
    }
    let requests = state.limits().requests;
    let detail = format!("the server already handles {requests} bulk requests; wait, then try again");
    BulkError::from(Error::new(ErrorKind::ServerBusy, detail)).into_response()
}

/// Names the route in the response, for traces.
async fn name_route(matched: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let route = matched.map_or_else(|| "/{route}".to_owned(), |matched| matched.as_str().to_owned());
    let mut response = next.run(request).await;
    let route = AnsweringRoute(format!("{BULK_ROOT}{route}"));
    response.extensions_mut().insert(route);
    response
}

async fn unknown_route(request: Request) -> BulkError {
    let detail = format!(
        "unknown route; use a client of the server's version: {} {BULK_ROOT}{}",
        request.method(),
        request.uri().path()
    );
    BulkError::from(Error::new(ErrorKind::NotSupported, detail))
}

#[cfg(test)]
mod tests {
    use super::strip_root;

    #[test]
    fn bulk_routes_are_distinct_from_entities() {
        let of = |text: &str| strip_root(&text.parse().expect("an address")).map(|uri| uri.to_string());
        assert_eq!(of("/$bulk/v1/send?entity=a").as_deref(), Some("/v1/send?entity=a"));
        assert_eq!(of("/%24Bulk/v1/send").as_deref(), Some("/v1/send"));
        assert_eq!(of("/$bulk").as_deref(), Some("/"));
        for text in [
            "/",
            "/bulk/v1/send",
            "/v1/send",
            "/$bulks/v1",
            "/orders/$bulk/v1",
            "/$Resources/queues",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
