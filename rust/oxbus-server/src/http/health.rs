// SPDX-License-Identifier: Apache-2.0
//! `GET /health`: is the server there, and do all its partitions serve?

use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use oxbus_broker::Namespace;
use serde_json::json;

use super::Answer;

/// 200 while the namespace is open, also with partitions out of service: the others serve. 503 once it is closed.
pub(super) fn health(namespace: &Namespace, is_ending: bool) -> Answer {
    let is_open = namespace.is_open() && !is_ending;
    let limited = is_open && namespace.partition_health().iter().any(|part| part.reason.is_some());
    let word = match (is_open, limited) {
        (false, _) => "closed",
        (true, true) => "limited",
        (true, false) => "healthy",
    };
    let mut answer = Response::new(Full::from(json!({ "status": word }).to_string()));
    if !is_open {
        *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
