// SPDX-License-Identifier: Apache-2.0
//! `POST /{entity}/messages`: sends a message or a batch (B-441, B-442).

use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use oxbus_broker::client::Batch;
use oxbus_broker::entity::Entity;
use oxbus_model::caps::{HTTP_MESSAGE_BYTES_MAX_PREMIUM, MESSAGE_SIZE_BYTES_MAX, STANDARD_MESSAGE_SIZE_BYTES_MAX};
use oxbus_model::tier::Tier;
use oxbus_model::{Error, ErrorKind};
use oxbus_store::Wait;
use serde_json::{Map, Value};

use super::context::ConnectionContext;
use super::message::HttpMessage;
use super::{batch, broker_properties, empty, user_properties};
use crate::blocking::{call_with_timeout, run_suspending};
use crate::front::Context;
use crate::http::error::{Area, HttpError};
use crate::http::{HttpResponse, body};

/// The size limit of a message or a batch (B-454). Without a tier, it is the in-process limit.
fn bytes_max(tier: Option<Tier>) -> usize {
    match tier {
        None => MESSAGE_SIZE_BYTES_MAX,
        Some(Tier::Premium) => HTTP_MESSAGE_BYTES_MAX_PREMIUM,
        Some(_) => STANDARD_MESSAGE_SIZE_BYTES_MAX,
    }
}

pub(super) async fn send(
    connection: &ConnectionContext,
    parts: &Parts,
    incoming: &mut Incoming,
    entity: String,
) -> Result<HttpResponse, HttpError> {
    let context = &connection.server;
    let max = bytes_max(context.namespace().plan().tier);
    let content_type = match parts.headers.get(CONTENT_TYPE) {
        None => None,
        Some(value) => Some(
            std::str::from_utf8(value.as_bytes())
                .map_err(|_| HttpError::bad_request("Content-Type is not valid UTF-8; send it in ASCII"))?
                .to_owned(),
        ),
    };
    let new_id = context.new_id();
    if content_type.as_deref().is_some_and(batch::is_batch) {
        // JSON escapes may take several bytes per character.
        let bytes = body::read(incoming, max.saturating_mul(2), context.bodies(), Area::Messages).await?;
        let messages = batch::read(&bytes)?;
        return store(context, entity, move |entity| {
            let mut batch = Batch::new(max.min(entity.settings().message_size_bytes_max));
            for (message, body) in &messages {
                message.with(body, new_id, |fields| batch.push(fields))?;
            }
            Ok(batch)
        })
        .await;
    }
    let mut message = HttpMessage {
        content_type,
        ..HttpMessage::default()
    };
    if let Some(header) = parts.headers.get(broker_properties::HEADER) {
        let object: Map<String, Value> = serde_json::from_slice(header.as_bytes())
            .map_err(|error| HttpError::bad_request(format!("BrokerProperties must be a JSON object: {error}")))?;
        broker_properties::read(&object, &mut message)?;
    }
    user_properties::read(&parts.headers, &mut message)?;
    let bytes = body::read(incoming, max, context.bodies(), Area::Messages).await?;
    store(context, entity, move |_| {
        // The sender checks the limit of the entity.
        let mut batch = Batch::new(usize::MAX).with_capacity(1);
        message.with(&bytes, new_id, |fields| {
            if fields.encoded_len() > max {
                let detail = format!("the message is too large; send less: limit={max} bytes");
                return Err(Error::new(ErrorKind::MessageSizeExceeded, detail));
            }
            batch.push(fields)
        })?;
        Ok(batch)
    })
    .await
}

/// Stores the messages that `batch_for` makes for an entity.
async fn store(
    context: &Context,
    entity: String,
    batch_for: impl FnOnce(&Entity) -> Result<Batch, Error> + Send + 'static,
) -> Result<HttpResponse, HttpError> {
    let context = context.clone();
    let stored = run_suspending(call_with_timeout(async move |wait: &Wait<'_>| {
        let sender = context.namespace().sender(&entity)?;
        let batch = batch_for(sender.entity())?;
        sender.send_batch_async(batch, None, wait).await
    }));
    stored.await.map_err(|error| HttpError::of(Area::Messages, &error))?;
    Ok(empty(StatusCode::CREATED))
}
