// SPDX-License-Identifier: Apache-2.0
//! `GET /health`: the state of the server and its partitions.

use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use oxbus_broker::Namespace;
use serde_json::json;

use super::HttpResponse;

/// Answers 200 while the namespace is open, even if partitions are out of service, because the others still work.
/// Answers 503 once it is closed or the server stops.
pub(super) fn health(namespace: &Namespace, is_stopping: bool) -> HttpResponse {
    let is_open = namespace.is_open() && !is_stopping;
    let is_limited = is_open && namespace.partition_health().iter().any(|part| part.reason.is_some());
    let status = match (is_open, is_limited) {
        (false, _) => "closed",
        (true, true) => "limited",
        (true, false) => "healthy",
    };
    let mut response = Response::new(Full::from(json!({ "status": status }).to_string()));
    if !is_open {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
