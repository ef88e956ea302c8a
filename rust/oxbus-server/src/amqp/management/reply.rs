// SPDX-License-Identifier: Apache-2.0
//! The results of operations as replies.

use oxbus_amqp::codec::{AmqpValue, Array, Map};
use oxbus_model::Result;

use crate::amqp::request::Reply;

/// The result of an operation.
#[derive(Debug)]
pub(super) enum OperationOutcome {
    /// The body.
    Body(Map),
    /// Nothing was found, which is not an error (B-296, B-436).
    Nothing,
}

impl OperationOutcome {
    /// A success with an empty body.
    pub(super) fn done() -> Self {
        Self::Body(Map::new())
    }

    /// A body with one entry.
    pub(super) fn of(key: &'static str, value: impl Into<AmqpValue>) -> Self {
        Self::done().with(key, value)
    }

    /// Adds an entry. Keys of bodies are strings.
    pub(super) fn with(mut self, key: &'static str, value: impl Into<AmqpValue>) -> Self {
        if let Self::Body(body) = &mut self {
            body.push(key, value);
        }
        self
    }
}

/// An array of values of one type.
pub(super) fn array(items: Vec<AmqpValue>) -> AmqpValue {
    Array::new(items).expect("all items have the same type").into()
}

/// Converts the result of an operation into a reply.
pub(super) fn reply(answer: Result<OperationOutcome>) -> Reply {
    match answer {
        Ok(OperationOutcome::Body(body)) => Reply::ok(body),
        Ok(OperationOutcome::Nothing) => Reply {
            status: 204,
            description: "No Content".to_owned(),
            condition: None,
            body: Map::new().into(),
        },
        Err(error) => Reply::of(&error),
    }
}
