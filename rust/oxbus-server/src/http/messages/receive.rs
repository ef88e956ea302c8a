// SPDX-License-Identifier: Apache-2.0
//! `POST` and `DELETE /{entity}/messages/head`: receives the next message in peek-lock or receive-and-delete mode
//! (B-443, B-444).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, LOCATION};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Response, StatusCode};
use oxbus_broker::client::SettleKey;
use oxbus_broker::clock::Deadline;
use oxbus_broker::entity::Entity;
use oxbus_model::caps::{HTTP_WAIT_SECONDS_DEFAULT, HTTP_WAIT_SECONDS_MAX};
use oxbus_model::message::Fields;
use oxbus_model::options::ReceiveMode;
use oxbus_model::{Error, Result as ModelResult};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::broker_properties::{self, HttpMessageMetadata};
use super::context::ConnectionContext;
use super::{empty, receiver_pool, user_properties};
use crate::blocking::run_blocking;
use crate::http::HttpResponse;
use crate::http::error::{Area, HttpError};
use crate::http::query::QueryString;
use crate::pending::{self, PendingDeliveries};

/// The characters that a path leaves unescaped.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'$');

/// The time that the request waits for a message.
pub(super) fn wait_time(parameters: &QueryString) -> Result<Duration, HttpError> {
    let Some(text) = parameters.get("timeout") else {
        return Ok(Duration::from_secs(HTTP_WAIT_SECONDS_DEFAULT));
    };
    let seconds: Option<u64> = text.parse().ok();
    let seconds = seconds.filter(|seconds| *seconds <= HTTP_WAIT_SECONDS_MAX);
    seconds.map(Duration::from_secs).ok_or_else(|| {
        HttpError::bad_request(format!(
            "timeout must be 0 to {HTTP_WAIT_SECONDS_MAX} whole seconds: `{text}`"
        ))
    })
}

pub(super) async fn receive(
    connection: &ConnectionContext,
    request: &Parts,
    entity: String,
    is_locked: bool,
    max_wait: Duration,
) -> Result<HttpResponse, HttpError> {
    let refuse = |error: Error| HttpError::of(Area::Messages, &error);
    let context = &connection.server;
    let receiver = {
        let (context, receivers, entity) = (context.clone(), connection.receivers.clone(), entity.clone());
        run_blocking(move |_| {
            if is_locked {
                receivers.receiver(context.namespace(), &entity)
            } else {
                receiver_pool::open(context.namespace(), &entity, ReceiveMode::ReceiveAndDelete).map(Arc::new)
            }
        })
        .await
        .map_err(refuse)?
    };
    let deadline = Deadline::after(Some(max_wait));
    let pending = pending::receive(&receiver, 1, deadline, context.stopped())
        .await
        .map_err(refuse)?;
    let Some(pending) = pending else {
        return Ok(empty(StatusCode::NO_CONTENT));
    };
    let location_base = location_base(&request.headers, connection.peer.is_encrypted, &entity);
    build_response(pending, is_locked, &location_base).map_err(refuse)
}

/// The base of the location, `https://host/entity/messages`, with the host of the request.
fn location_base(headers: &HeaderMap, is_encrypted: bool, entity: &str) -> String {
    let scheme = if is_encrypted { "https" } else { "http" };
    let host = headers
        .get(HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    format!("{scheme}://{host}/{}/messages", utf8_percent_encode(entity, PATH))
}

fn build_response(mut pending: PendingDeliveries, is_locked: bool, location_base: &str) -> ModelResult<HttpResponse> {
    let delivery = &pending.deliveries()[0];
    let receiver = pending.receiver();
    let claimed = &delivery.claimed;
    let number = Entity::sequence_number(delivery.index, claimed.key.counter);
    let token = is_locked.then(|| {
        receiver.token(SettleKey {
            index: delivery.index,
            key: claimed.key,
        })
    });
    let fields = Fields::decode(claimed.record.in_memory().expect("a delivered record is in memory"))?;
    let metadata = HttpMessageMetadata {
        number,
        enqueued_at: claimed.enqueued_at,
        expires_at: claimed.expires_at,
        delivery_count: claimed.delivery_count,
        locked_until: delivery.locked_until,
        token,
        is_deferred: claimed.deferred,
    };
    let mut response = Response::new(Full::new(match fields.body.data() {
        Cow::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
        Cow::Owned(bytes) => bytes.into(),
    }));
    *response.status_mut() = if is_locked { StatusCode::CREATED } else { StatusCode::OK };
    let headers = response.headers_mut();
    if let Some(properties) = fields.application_properties {
        user_properties::write(properties, headers);
    }
    let properties = broker_properties::to_json(&fields, &metadata);
    let name = HeaderName::from_static(broker_properties::HEADER);
    headers.insert(
        name,
        HeaderValue::from_str(&properties).expect("ASCII without line feeds"),
    );
    if let Some(kind) = fields.content_type.and_then(|kind| HeaderValue::from_str(kind).ok()) {
        headers.insert(CONTENT_TYPE, kind);
    }
    if let Some(token) = token {
        let location = format!("{location_base}/{number}/{}", broker_properties::format_token(token));
        if let Ok(location) = HeaderValue::from_str(&location) {
            headers.insert(LOCATION, location);
        }
    }
    pending.mark_sent();
    Ok(response)
}
