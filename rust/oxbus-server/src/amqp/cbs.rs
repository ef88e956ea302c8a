// SPDX-License-Identifier: Apache-2.0
//! Tokens that are put to `$cbs` (B-414 … B-419).
//!
//! What a token is, its text says: clients in use name a shared access signature `jwt`. An entity that does not exist is
//! refused here, as the service does; a subscription of a topic that exists is not.

use oxbus_amqp::codec::Value;
use oxbus_model::{Error, ErrorKind};

use super::call::{Call, Reply};
use super::node::{Node, Place};
use crate::sas::{Scope, log_missing};

const SUBSCRIPTIONS: &str = "/subscriptions/";

/// Answers a request; what the token allows is the connection's from then on.
pub(super) fn answer(call: &Call) -> Reply {
    match put_token(call) {
        Ok(()) => Reply {
            status: 202,
            description: "Accepted".to_owned(),
            condition: None,
            body: Value::Null,
        },
        // Without a condition: with one, clients in use drop the status and the text.
        Err(reply) => Reply {
            condition: None,
            ..reply
        },
    }
}

fn wrong(detail: &str) -> Reply {
    Reply::of(&Error::new(ErrorKind::InvalidArgument, detail))
}

fn put_token(call: &Call) -> Result<(), Reply> {
    let asked = call.properties().map_err(|error| Reply::of(&error))?;
    let text = |key: &str| asked.get(key).and_then(Value::as_text);
    if text("operation") != Some("put-token") {
        return Err(wrong("$cbs has one operation: put-token"));
    }
    let audience = text("name").ok_or_else(|| wrong("put-token needs the audience as `name`"))?;
    let body = call.body();
    let token = body
        .as_ref()
        .and_then(Value::as_text)
        .ok_or_else(|| wrong("put-token needs the token as body, an amqp-value string"))?;
    let context = &call.context;
    let claims = context
        .authority()
        .authorize(token, audience, context.now())
        .map_err(|refused| Reply::refused(&refused))?;
    check_exists(call, audience, &claims.key_name)?;
    if call.shared.grant(claims) {
        Ok(())
    } else {
        let detail = "too many tokens on one connection; put one for a parent path, or open another connection";
        Err(Reply::of(&Error::new(ErrorKind::QuotaExceeded, detail)))
    }
}

/// Refuses an audience whose queue or topic does not exist (B-419).
fn check_exists(call: &Call, audience: &str, key_name: &str) -> Result<(), Reply> {
    if Scope::of_address(audience).path().is_empty() {
        return Ok(());
    }
    let (Node::Entity(Place { path, .. }) | Node::Management(Place { path, .. })) = Node::of(audience) else {
        return Ok(());
    };
    let top = match path.to_ascii_lowercase().find(SUBSCRIPTIONS) {
        Some(at) => &path[..at],
        None => &path,
    };
    match call.context.namespace().entity(top) {
        Err(error) if error.kind() == ErrorKind::EntityNotFound => {
            log_missing(top, Some(key_name));
            Err(Reply {
                status: 404,
                ..Reply::of(&error)
            })
        }
        _ => Ok(()),
    }
}
