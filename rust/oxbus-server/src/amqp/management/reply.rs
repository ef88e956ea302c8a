// SPDX-License-Identifier: Apache-2.0
//! What a request is answered with.

use oxbus_amqp::codec::{Array, Map, Value};
use oxbus_model::Error;

use crate::amqp::fault;
use crate::sas::Refused;

/// What an operation found.
#[derive(Debug)]
pub(super) enum Answer {
    /// The body.
    Body(Map),
    /// There is nothing of that kind, which is no error (B-296, B-436).
    Nothing,
}

impl Answer {
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

/// An answer, before it is a message.
#[derive(Debug)]
pub(in crate::amqp) struct Reply {
    /// As over HTTP (B-434).
    pub(in crate::amqp) status: i32,
    /// For people.
    pub(in crate::amqp) description: String,
    /// For programs, of an error.
    pub(in crate::amqp) condition: Option<&'static str>,
    /// The value in the body.
    pub(in crate::amqp) body: Value,
}

impl Reply {
    /// Done.
    pub(in crate::amqp) fn ok(body: Map) -> Self {
        Self {
            status: 200,
            description: "OK".to_owned(),
            condition: None,
            body: body.into(),
        }
    }

    /// There is nothing.
    pub(super) fn no_content() -> Self {
        Self {
            status: 204,
            description: "No Content".to_owned(),
            condition: None,
            body: Map::new().into(),
        }
    }

    /// It failed.
    pub(in crate::amqp) fn of(error: &Error) -> Self {
        Self {
            status: fault::status(error.kind()),
            description: error.detail().to_owned(),
            condition: Some(fault::condition(error.kind())),
            body: Map::new().into(),
        }
    }

    /// The connection may not do that.
    pub(in crate::amqp) fn refused(refused: &Refused) -> Self {
        Self {
            status: refused.status().into(),
            description: refused.detail(),
            condition: Some(refused.condition()),
            body: Map::new().into(),
        }
    }
}
