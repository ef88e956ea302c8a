// SPDX-License-Identifier: Apache-2.0
//! Records for the traces of HTTP clients, which send their context in the header `traceparent`.

use std::time::Instant;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};

use crate::spans::{FinishedSpan, SpanRecorder};

/// A request that is being answered.
pub(super) struct RequestSpan {
    method: &'static str,
    path: String,
    context: Option<String>,
    begun: Instant,
}

impl RequestSpan {
    pub(super) fn begin(request: &Request<Incoming>) -> Self {
        let header = request.headers().get("traceparent");
        Self {
            method: match *request.method() {
                Method::GET => "GET",
                Method::POST => "POST",
                Method::PUT => "PUT",
                Method::DELETE => "DELETE",
                _ => "HTTP",
            },
            // The query may have a signature.
            path: request.uri().path().to_owned(),
            context: header.and_then(|value| value.to_str().ok()).map(str::to_owned),
            begun: oxbus_system::instant(),
        }
    }

    pub(super) fn end(self, status: StatusCode, spans: &SpanRecorder) {
        let is_error = status.is_client_error() || status.is_server_error();
        spans.record(FinishedSpan {
            operation: self.method,
            target: self.path,
            contexts: self.context.into_iter().collect(),
            messages: 0,
            error: is_error.then(|| status.as_str().to_owned()),
            begun: self.begun,
            took: self.begun.elapsed(),
        });
    }
}
