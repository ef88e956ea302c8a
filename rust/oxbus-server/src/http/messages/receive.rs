// SPDX-License-Identifier: Apache-2.0
//! `POST` and `DELETE /{entity}/messages/head`: the next message, locked or gone (B-443, B-444).

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

use super::broker_properties::{self, Seen};
use super::client::Client;
use super::{empty, kept, user_properties};
use crate::http::Answer;
use crate::http::query::Parameters;
use crate::http::refusal::{Area, Refusal};
use crate::taken::{Taken, wait};
use crate::work::on_thread;

/// What a path does not escape.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'$');

/// How long the request waits.
pub(super) fn wait_of(parameters: &Parameters) -> Result<Duration, Refusal> {
    let Some(text) = parameters.get("timeout") else {
        return Ok(Duration::from_secs(HTTP_WAIT_SECONDS_DEFAULT));
    };
    let seconds: Option<u64> = text.parse().ok();
    let seconds = seconds.filter(|seconds| *seconds <= HTTP_WAIT_SECONDS_MAX);
    seconds.map(Duration::from_secs).ok_or_else(|| {
        Refusal::bad_request(format!(
            "timeout must be 0 to {HTTP_WAIT_SECONDS_MAX} whole seconds: `{text}`"
        ))
    })
}

pub(super) async fn receive(
    client: &Client,
    request: &Parts,
    entity: String,
    is_locked: bool,
    wait_at_most: Duration,
) -> Result<Answer, Refusal> {
    let refuse = |error: Error| Refusal::of(Area::Messages, &error);
    let context = &client.context;
    let receiver = {
        let (context, kept, entity) = (context.clone(), client.kept.clone(), entity.clone());
        on_thread(move |_| {
            if is_locked {
                kept.receiver(context.namespace(), &entity)
            } else {
                kept::open(context.namespace(), &entity, ReceiveMode::ReceiveAndDelete).map(Arc::new)
            }
        })
        .await
        .map_err(refuse)?
    };
    let deadline = Deadline::after(Some(wait_at_most));
    let taken = wait(&receiver, 1, deadline, context.stopped()).await.map_err(refuse)?;
    let Some(taken) = taken else {
        return Ok(empty(StatusCode::NO_CONTENT));
    };
    let place = location_base(&request.headers, client.peer.is_encrypted, &entity);
    answer(taken, is_locked, &place).map_err(refuse)
}

/// `https://host/entity/messages`, as the client called it.
fn location_base(headers: &HeaderMap, is_encrypted: bool, entity: &str) -> String {
    let scheme = if is_encrypted { "https" } else { "http" };
    let host = headers
        .get(HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    format!("{scheme}://{host}/{}/messages", utf8_percent_encode(entity, PATH))
}

fn answer(mut taken: Taken, is_locked: bool, place: &str) -> ModelResult<Answer> {
    let delivery = &taken.deliveries()[0];
    let receiver = taken.receiver();
    let claimed = &delivery.claimed;
    let number = Entity::sequence_number(delivery.index, claimed.key.counter);
    let token = is_locked.then(|| {
        receiver.token(SettleKey {
            index: delivery.index,
            key: claimed.key,
        })
    });
    let fields = Fields::decode(claimed.record.in_memory().expect("what is handed out is in memory"))?;
    let seen = Seen {
        number,
        enqueued_at: claimed.enqueued_at,
        expires_at: claimed.expires_at,
        delivery_count: claimed.delivery_count,
        locked_until: delivery.locked_until,
        token,
        is_deferred: claimed.deferred,
    };
    let mut answer = Response::new(Full::new(match fields.body.data() {
        Cow::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
        Cow::Owned(bytes) => bytes.into(),
    }));
    *answer.status_mut() = if is_locked { StatusCode::CREATED } else { StatusCode::OK };
    let headers = answer.headers_mut();
    if let Some(properties) = fields.application_properties {
        user_properties::write(properties, headers);
    }
    let properties = broker_properties::written(&fields, &seen);
    let name = HeaderName::from_static(broker_properties::HEADER);
    headers.insert(
        name,
        HeaderValue::from_str(&properties).expect("ASCII without line feeds"),
    );
    if let Some(kind) = fields.content_type.and_then(|kind| HeaderValue::from_str(kind).ok()) {
        headers.insert(CONTENT_TYPE, kind);
    }
    if let Some(token) = token {
        let location = format!("{place}/{number}/{}", broker_properties::guid(token));
        if let Ok(location) = HeaderValue::from_str(&location) {
            headers.insert(LOCATION, location);
        }
    }
    taken.keep();
    Ok(answer)
}
