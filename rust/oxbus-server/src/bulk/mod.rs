// SPDX-License-Identifier: Apache-2.0
//! The routes of the bulk plane. Each is described in docs/bulk-plane.md.

mod describe;
mod entity;
mod parameters;
mod peek;
mod receive;
mod reservations;
mod rows;
mod send;
mod settle;
mod stages;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use oxbus_broker::Namespace;
use oxbus_model::caps::BULK_CONTROL_BYTES_MAX;
use oxbus_model::message::NewId;
use oxbus_model::{Error, ErrorKind};
use oxbus_wire::{Key, PREFIX};
use tokio::sync::{Semaphore, watch};

use crate::auth;
use crate::limits::Limits;
use crate::options::ServerOptions;
use crate::status::Refusal;

/// What all requests share.
#[derive(Clone)]
pub(crate) struct Plane(Arc<Shared>);

struct Shared {
    namespace: Namespace,
    key: Option<Key>,
    new_id: NewId,
    limits: Limits,
    stopped: watch::Receiver<bool>,
    requests: Semaphore,
    /// Bytes of rows that are in memory and not stored.
    bytes_held: AtomicUsize,
}

impl Plane {
    pub(crate) fn new(namespace: Namespace, options: &ServerOptions, stopped: watch::Receiver<bool>) -> Self {
        Self(Arc::new(Shared {
            namespace,
            key: options.key.clone(),
            new_id: options.new_id,
            limits: options.limits,
            stopped,
            requests: Semaphore::new(options.limits.requests as usize),
            bytes_held: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn key(&self) -> Option<&Key> {
        self.0.key.as_ref()
    }

    fn namespace(&self) -> &Namespace {
        &self.0.namespace
    }

    fn new_id(&self) -> NewId {
        self.0.new_id
    }

    fn limits(&self) -> &Limits {
        &self.0.limits
    }

    fn stopped(&self) -> watch::Receiver<bool> {
        self.0.stopped.clone()
    }
}

/// Bytes of rows that a request holds; returned when it is dropped.
struct HeldBytes {
    plane: Plane,
    bytes: usize,
}

impl HeldBytes {
    fn new(plane: &Plane) -> Self {
        Self {
            plane: plane.clone(),
            bytes: 0,
        }
    }

    /// True when so many more fit, counting all requests.
    fn take(&mut self, bytes: usize) -> bool {
        let before = self.plane.0.bytes_held.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        (before + bytes) as u64 <= self.plane.limits().unstored_bytes
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.plane.0.bytes_held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// All routes.
pub(crate) fn routes(plane: Plane) -> Router {
    let routes = Router::new()
        .route("/describe", get(describe::describe))
        .route("/send", post(send::send))
        .route("/receive", post(receive::receive))
        .route("/settle", post(settle::settle))
        .route("/peek", get(peek::peek))
        .nest("/reservations", reservations::routes())
        .nest("/stages", stages::routes());
    Router::new()
        .nest(PREFIX, routes)
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .layer(DefaultBodyLimit::max(BULK_CONTROL_BYTES_MAX))
        .layer(middleware::from_fn_with_state(plane.clone(), bound))
        .layer(middleware::from_fn_with_state(plane.clone(), auth::check))
        .with_state(plane)
}

/// Lets so many requests through at a time.
async fn bound(State(plane): State<Plane>, request: Request, next: Next) -> Response {
    if let Ok(_place) = plane.0.requests.try_acquire() {
        return next.run(request).await;
    }
    let requests = plane.limits().requests;
    let detail = format!("the server works on {requests} requests already; wait, then try again");
    Refusal::from(Error::new(ErrorKind::ServerBusy, detail)).into_response()
}

async fn unknown(request: Request) -> Refusal {
    let detail = format!(
        "this server has no such route; use a client of its version: {} {}",
        request.method(),
        request.uri().path()
    );
    Refusal::from(Error::new(ErrorKind::NotSupported, detail))
}
