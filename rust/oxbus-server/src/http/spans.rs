// SPDX-License-Identifier: Apache-2.0
//! Records for the traces of HTTP clients, which send their context in the header `traceparent`.

use std::time::Instant;

use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use oxbus_model::caps::SPAN_PATH_BYTES_MAX;

use super::health::HealthCheck;
use super::route::{AtomResource, HttpRoute, MessageOperation, SelectionOperation};
use crate::front::is_websocket;
use crate::spans::{AnsweringRoute, FinishedSpan, HttpExchange, SpanRecorder, checked_context};

/// A request that is being answered.
pub(super) struct RequestSpan {
    method: &'static str,
    path: String,
    route: Option<&'static str>,
    scheme: &'static str,
    context: Option<String>,
    begun: Instant,
}

impl RequestSpan {
    pub(super) fn begin(request: &Request<Incoming>, is_encrypted: bool) -> Self {
        let header = request.headers().get("traceparent");
        let context = header.and_then(|value| value.to_str().ok());
        Self {
            method: method_of(request.method()),
            // The query may have a signature.
            path: first_bytes(request.uri().path(), SPAN_PATH_BYTES_MAX).to_owned(),
            route: route_of(request),
            scheme: if is_encrypted { "https" } else { "http" },
            context: context.and_then(checked_context),
            begun: oxbus_system::instant(),
        }
    }

    pub(super) fn end<B>(self, response: &Response<B>, spans: &SpanRecorder) {
        let status = response.status();
        let answering = response.extensions().get::<AnsweringRoute>();
        spans.record(FinishedSpan {
            operation: self.method,
            target: self.path,
            contexts: self.context.into_iter().collect(),
            messages: 0,
            // A request that is the client's fault is none of the server.
            error: status.is_server_error().then(|| status.as_str().to_owned()),
            http: Some(HttpExchange {
                route: answering
                    .map(|route| route.0.clone())
                    .or_else(|| self.route.map(str::to_owned)),
                scheme: self.scheme,
                status: status.as_u16(),
            }),
            begun: self.begun,
            took: self.begun.elapsed(),
        });
    }
}

/// The method, which a client may invent.
fn method_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        Method::CONNECT => "CONNECT",
        Method::TRACE => "TRACE",
        _ => "_OTHER",
    }
}

/// The first bytes of a text, at most `max`, without a part of a character.
fn first_bytes(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The route of a request, unless a bulk route answers it.
fn route_of(request: &Request<Incoming>) -> Option<&'static str> {
    let path = request.uri().path();
    if is_websocket(request) {
        return Some("/$servicebus/websocket");
    }
    if path.starts_with("/$console") || path.starts_with("/%24console") {
        return Some("/$console/{page}");
    }
    HttpRoute::of(request.method(), path).ok().as_ref().map(template_of)
}

/// A route with names of parameters instead of their values.
fn template_of(route: &HttpRoute) -> &'static str {
    match route {
        HttpRoute::Health(HealthCheck::State) => "/$health",
        HttpRoute::Health(HealthCheck::Live) => "/$health/live",
        HttpRoute::Health(HealthCheck::Ready) => "/$health/ready",
        HttpRoute::Metrics => "/$metrics",
        HttpRoute::Messages { operation, .. } => match operation {
            MessageOperation::Send => "/{entity}/messages",
            MessageOperation::PeekLock | MessageOperation::ReceiveAndDelete => "/{entity}/messages/head",
            MessageOperation::Unlock(_) | MessageOperation::Complete(_) | MessageOperation::Renew(_) => {
                "/{entity}/messages/{message}/{lock}"
            }
        },
        HttpRoute::Entities(resource) => match resource {
            AtomResource::Namespace => "/$namespaceinfo",
            AtomResource::Queues => "/$Resources/queues",
            AtomResource::Topics => "/$Resources/topics",
            AtomResource::Entity(_) => "/{entity}",
            AtomResource::Subscriptions(_) => "/{topic}/subscriptions",
            AtomResource::Subscription(..) => "/{topic}/subscriptions/{subscription}",
            AtomResource::Rules(..) => "/{topic}/subscriptions/{subscription}/rules",
            AtomResource::Rule(..) => "/{topic}/subscriptions/{subscription}/rules/{rule}",
        },
        HttpRoute::Selected { operation, .. } => match operation {
            SelectionOperation::Purge => "/{entity}/$purge",
            SelectionOperation::Resubmit => "/{entity}/$resubmit",
        },
    }
}
