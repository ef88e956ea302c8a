// SPDX-License-Identifier: Apache-2.0
//! Responses in JSON.

use axum::body::Body;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

/// A value as a response in JSON.
pub(super) fn json_response(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    let text = serde_json::to_vec(value).expect("plain values can be serialized");
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
