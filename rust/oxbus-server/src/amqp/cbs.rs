// SPDX-License-Identifier: Apache-2.0
//! `put-token` requests to `$cbs` (B-414 … B-419).
//!
//! The text of a token determines its type, because clients in use give a shared access signature the type `jwt`. As
//! in the service, a token for an entity that does not exist is rejected, but one for a missing subscription of an
//! existing topic is accepted.

use oxbus_amqp::codec::AmqpValue;
use oxbus_model::{Error, ErrorKind};

use super::node::{AmqpNode, EntityAddress};
use super::request::{AmqpRequest, Reply};
use crate::sas::{Scope, log_missing_entity};

const SUBSCRIPTIONS: &str = "/subscriptions/";

/// Answers a request. From then on, the connection has the rights of an accepted token.
pub(super) fn answer(request: &AmqpRequest) -> Reply {
    let meters = request.context.meters();
    match put_token(request) {
        Ok(()) => {
            meters.count_token();
            Reply {
                status: 202,
                description: "Accepted".to_owned(),
                condition: None,
                body: AmqpValue::Null,
            }
        }
        // The reply has no condition, because with one, clients in use ignore the status and the description.
        Err(reply) => {
            meters.count_refusal("token", reply.condition.unwrap_or("unknown"), &reply.description);
            Reply {
                condition: None,
                ..reply
            }
        }
    }
}

fn invalid(detail: &str) -> Reply {
    Reply::of(&Error::new(ErrorKind::InvalidArgument, detail))
}

fn put_token(request: &AmqpRequest) -> Result<(), Reply> {
    let properties = request.properties().map_err(|error| Reply::of(&error))?;
    let text = |key: &str| properties.get(key).and_then(AmqpValue::as_text);
    if text("operation") != Some("put-token") {
        return Err(invalid("$cbs has one operation: put-token"));
    }
    let audience = text("name").ok_or_else(|| invalid("put-token needs the audience as `name`"))?;
    let body = request.body();
    let token = body
        .as_ref()
        .and_then(AmqpValue::as_text)
        .ok_or_else(|| invalid("put-token needs the token as body, an amqp-value string"))?;
    let context = &request.context;
    let claims = context
        .authority()
        .authorize(token, audience, context.now())
        .map_err(|refused| Reply::access_denied(&refused))?;
    check_exists(request, audience, &claims.key_name)?;
    if request.state.grant(claims) {
        Ok(())
    } else {
        let detail = "too many tokens on one connection; put one for a parent path, or open another connection";
        Err(Reply::of(&Error::new(ErrorKind::QuotaExceeded, detail)))
    }
}

/// Rejects an audience whose queue or topic does not exist (B-419).
fn check_exists(request: &AmqpRequest, audience: &str, key_name: &str) -> Result<(), Reply> {
    if Scope::of_address(audience).path().is_empty() {
        return Ok(());
    }
    let (AmqpNode::Entity(EntityAddress { path, .. }) | AmqpNode::Management(EntityAddress { path, .. })) =
        AmqpNode::of(audience)
    else {
        return Ok(());
    };
    let entity = match path.to_ascii_lowercase().find(SUBSCRIPTIONS) {
        Some(at) => &path[..at],
        None => &path,
    };
    match request.context.namespace().entity(entity) {
        Err(error) if error.kind() == ErrorKind::EntityNotFound => {
            log_missing_entity(entity, Some(key_name));
            Err(Reply {
                status: 404,
                ..Reply::of(&error)
            })
        }
        _ => Ok(()),
    }
}
