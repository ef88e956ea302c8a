// SPDX-License-Identifier: Apache-2.0
//! The service's seven operations on messages (B-440 … B-455).

mod batch;
mod broker_properties;
mod context;
mod dates;
mod message;
mod receive;
mod receiver_pool;
mod send;
mod settle;
mod user_properties;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use oxbus_model::authorization::AccessRight;

pub(super) use self::context::ConnectionContext;
use super::error::HttpError;
use super::route::MessageOperation;
use super::{HttpResponse, access, api_version, query};

/// Executes an operation.
pub(super) async fn handle(
    connection: &ConnectionContext,
    request: &Parts,
    body: &mut Incoming,
    entity: String,
    operation: MessageOperation,
) -> Result<HttpResponse, HttpError> {
    let right = match operation {
        MessageOperation::Send => AccessRight::Send,
        _ => AccessRight::Listen,
    };
    let claims = access::check(&connection.server, &request.headers, right, &entity).await?;
    let parameters = query::parse(&request.uri);
    api_version::check(connection.server.namespace(), &parameters, Some(&entity))?;
    let path = entity.clone();
    let response = match operation {
        MessageOperation::Send => send::send(connection, request, body, entity).await,
        MessageOperation::PeekLock | MessageOperation::ReceiveAndDelete => {
            let wait = receive::wait_time(&parameters)?;
            receive::receive(
                connection,
                request,
                entity,
                operation == MessageOperation::PeekLock,
                wait,
            )
            .await
        }
        MessageOperation::Unlock(message) => {
            settle::settle(connection, entity, message, settle::LockOperation::Unlock).await
        }
        MessageOperation::Complete(message) => {
            settle::settle(connection, entity, message, settle::LockOperation::Complete).await
        }
        MessageOperation::Renew(message) => {
            settle::settle(connection, entity, message, settle::LockOperation::Renew).await
        }
    };
    response.inspect_err(|error| error.log_missing_entity(&path, &claims.key_name))
}

/// A response without a body.
fn empty(status: StatusCode) -> HttpResponse {
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = status;
    response
}
