// SPDX-License-Identifier: Apache-2.0
//! A request: method, path, body, and the entity that its token is for.

use std::fmt::Write;

use bytes::Bytes;
use http_body_util::channel::Channel;
use http_body_util::{Either, Full};
use hyper::Method;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, EXPECT, HOST};
use oxbus_model::{Effect, Error, ErrorKind, Result};

use super::connection::RequestBody;
use crate::{ARROW_STREAM, BULK_ROOT, BULK_VERSION};

/// A request of a bulk client.
pub struct Request {
    method: Method,
    target: String,
    /// The entity of the call, for which the token is valid.
    entity: Option<String>,
    json: Option<Bytes>,
    is_stream: bool,
    is_repeatable: bool,
}

impl Request {
    /// A read, which is repeated if the connection breaks.
    pub fn get(path: &str) -> Self {
        Self {
            method: Method::GET,
            target: format!("{BULK_ROOT}{BULK_VERSION}/{path}"),
            entity: None,
            json: None,
            is_stream: false,
            is_repeatable: true,
        }
    }

    /// A command, which is not repeated.
    pub fn post(path: &str) -> Self {
        Self {
            method: Method::POST,
            is_repeatable: false,
            ..Self::get(path)
        }
    }

    /// Adds a query parameter. The parameter `entity` names the entity of the call.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        if name == "entity" {
            self.entity = Some(value.to_owned());
        }
        self.target.push(if self.target.contains('?') { '&' } else { '?' });
        self.target.push_str(name);
        self.target.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~/$".contains(&byte) {
                self.target.push(char::from(byte));
            } else {
                write!(self.target, "%{byte:02X}").expect("writing to a string does not fail");
            }
        }
        self
    }

    /// Sets a JSON body. Its field `entity` names the entity of the call.
    #[must_use]
    pub fn with_json(mut self, json: &serde_json::Value) -> Self {
        self.entity = json["entity"].as_str().map(str::to_owned);
        self.json = Some(json.to_string().into());
        self
    }

    /// Sets an Arrow stream as body.
    #[must_use]
    pub fn with_stream(mut self) -> Self {
        self.is_stream = true;
        self
    }

    /// Marks the request as idempotent: it is repeated if the connection breaks.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    pub(super) fn entity(&self) -> Option<&str> {
        self.entity.as_deref()
    }

    pub(super) fn is_stream(&self) -> bool {
        self.is_stream
    }

    pub(super) fn is_repeatable(&self) -> bool {
        // A stream can be read only once.
        self.is_repeatable && !self.is_stream
    }

    /// The effect of the call if no response comes: a read changes nothing.
    pub(super) fn effect(&self) -> Effect {
        if self.method == Method::GET {
            Effect::None
        } else {
            Effect::Unknown
        }
    }

    /// The HTTP request of one attempt.
    pub(super) fn with_body(
        &self,
        authority: &str,
        token: &str,
        stream: Option<Channel<Bytes>>,
    ) -> Result<hyper::Request<RequestBody>> {
        let mut request = hyper::Request::builder()
            .method(self.method.clone())
            .uri(&self.target)
            .header(HOST, authority)
            .header(AUTHORIZATION, token);
        if stream.is_some() {
            request = request
                .header(CONTENT_TYPE, ARROW_STREAM)
                .header(EXPECT, "100-continue");
        } else if self.json.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let whole = || Either::Left(Full::new(self.json.clone().unwrap_or_default()));
        request.body(stream.map_or_else(whole, Either::Right)).map_err(|error| {
            let detail = format!("the request cannot be encoded; correct the connection string: {error}");
            Error::new(ErrorKind::InvalidArgument, detail).with_source(error)
        })
    }
}
