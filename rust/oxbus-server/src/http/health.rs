// SPDX-License-Identifier: Apache-2.0
//! The health of the server: for people, and for probes that restart it or send it clients.

use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::json;

use super::HttpResponse;
use crate::front::Context;

/// What a health check wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HealthCheck {
    /// The state, for people.
    State,
    /// Does the server answer? A restart would help if it did not.
    Live,
    /// May clients come?
    Ready,
}

/// Whether the server takes clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readiness {
    Ready,
    /// Some partitions are out of service. The others take what has no key.
    Limited,
    /// All partitions are out of service.
    OutOfService,
    /// The server stops, and waits for clients to settle.
    Draining,
    /// The server stops, or the namespace is closed.
    Closed,
    /// Another process serves the namespace.
    TakenOver,
}

impl Readiness {
    fn of(context: &Context) -> Self {
        if *context.stopped().borrow() || !context.namespace().is_open() {
            return Self::Closed;
        }
        if context.namespace().is_taken_over() {
            return Self::TakenOver;
        }
        if *context.draining().borrow() {
            return Self::Draining;
        }
        let partitions = context.namespace().partition_health();
        let failed = partitions.iter().filter(|part| part.reason.is_some()).count();
        match failed {
            0 => Self::Ready,
            _ if failed == partitions.len() => Self::OutOfService,
            _ => Self::Limited,
        }
    }
}

/// Answers a health check: 200 or 503, and the state as JSON.
pub(super) fn health(context: &Context, check: HealthCheck) -> HttpResponse {
    let readiness = Readiness::of(context);
    let (is_good, status) = match (check, readiness) {
        (_, Readiness::TakenOver) => (false, "taken_over"),
        (HealthCheck::Live, _) => (true, "live"),
        (_, Readiness::Closed) => (false, "closed"),
        (_, Readiness::Draining) => (false, "draining"),
        (HealthCheck::Ready, Readiness::OutOfService) => (false, "out_of_service"),
        (HealthCheck::Ready, Readiness::Ready | Readiness::Limited) => (true, "ready"),
        (HealthCheck::State, Readiness::Limited | Readiness::OutOfService) => (true, "limited"),
        (HealthCheck::State, Readiness::Ready) => (true, "healthy"),
    };
    let mut response = Response::new(Full::from(json!({ "status": status }).to_string()));
    if !is_good {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
