// SPDX-License-Identifier: Apache-2.0
//! The service's seven operations on messages (B-440 … B-455).

mod batch;
mod broker_properties;
mod client;
mod dates;
mod kept;
mod outgoing;
mod receive;
mod send;
mod settle;
mod user_properties;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use oxbus_model::authorization::AccessRight;

pub(super) use self::client::Client;
use super::refusal::Refusal;
use super::route::Operation;
use super::{Answer, access, api_version, query};

/// Does one of the operations.
pub(super) async fn handle(
    client: &Client,
    request: &Parts,
    body: &mut Incoming,
    entity: String,
    operation: Operation,
) -> Result<Answer, Refusal> {
    let right = match operation {
        Operation::Send => AccessRight::Send,
        _ => AccessRight::Listen,
    };
    let claims = access::check(&client.context, &request.headers, right, &entity).await?;
    let parameters = query::parse(&request.uri);
    api_version::check(client.context.namespace(), &parameters, Some(&entity))?;
    let path = entity.clone();
    let answer = match operation {
        Operation::Send => send::send(client, request, body, entity).await,
        Operation::PeekLock | Operation::ReceiveAndDelete => {
            let wait = receive::wait_of(&parameters)?;
            receive::receive(client, request, entity, operation == Operation::PeekLock, wait).await
        }
        Operation::Unlock(held) => settle::settle(client, entity, held, settle::Wish::Unlock).await,
        Operation::Complete(held) => settle::settle(client, entity, held, settle::Wish::Complete).await,
        Operation::Renew(held) => settle::settle(client, entity, held, settle::Wish::Renew).await,
    };
    answer.inspect_err(|refusal| refusal.log_missing(&path, &claims.key_name))
}

/// An answer without a body.
fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::new()));
    *answer.status_mut() = status;
    answer
}
