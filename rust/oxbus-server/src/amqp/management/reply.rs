// SPDX-License-Identifier: Apache-2.0
//! What a request is answered with.

use oxbus_amqp::codec::{Array, Map, Value};
use oxbus_model::Result;

use crate::amqp::request::Reply;

/// What an operation found.
#[derive(Debug)]
pub(super) enum OperationOutcome {
    /// The body.
    Body(Map),
    /// There is nothing of that kind, which is no error (B-296, B-436).
    Nothing,
}

impl OperationOutcome {
    /// Done, with nothing to say.
    pub(super) fn done() -> Self {
        Self::Body(Map::new())
    }

    /// A body with one value.
    pub(super) fn of(key: &'static str, value: impl Into<Value>) -> Self {
        Self::done().with(key, value)
    }

    /// The same with one value more. Keys of bodies are strings.
    pub(super) fn with(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        if let Self::Body(body) = &mut self {
            body.push(key, value);
        }
        self
    }
}

/// An array of values of one type.
pub(super) fn array(items: Vec<Value>) -> Value {
    Array::new(items)
        .expect("the items were made by one constructor")
        .into()
}

/// The reply that says it.
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
