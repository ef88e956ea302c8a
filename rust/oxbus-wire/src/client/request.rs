// SPDX-License-Identifier: Apache-2.0
//! A request: line, headers, JSON body.

use std::fmt::Write;

use oxbus_model::Effect;

use crate::{ARROW_STREAM, PREFIX};

/// A request of the bulk plane.
pub struct Request {
    method: &'static str,
    target: String,
    json: Option<String>,
    is_stream: bool,
    is_repeatable: bool,
}

impl Request {
    /// A question: repeated when the connection breaks.
    pub fn get(path: &str) -> Self {
        Self {
            method: "GET",
            target: format!("{PREFIX}/{path}"),
            json: None,
            is_stream: false,
            is_repeatable: true,
        }
    }

    /// A command.
    pub fn post(path: &str) -> Self {
        Self {
            method: "POST",
            is_repeatable: false,
            ..Self::get(path)
        }
    }

    /// With a parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
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

    /// With a body.
    #[must_use]
    pub fn with_json(mut self, json: &serde_json::Value) -> Self {
        self.json = Some(json.to_string());
        self
    }

    /// With an Arrow stream for a body.
    #[must_use]
    pub fn with_stream(mut self) -> Self {
        self.is_stream = true;
        self
    }

    /// Done twice, it does no more than once: repeated when the connection breaks.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    pub(super) fn is_stream(&self) -> bool {
        self.is_stream
    }

    pub(super) fn is_repeatable(&self) -> bool {
        // A stream is read only once.
        self.is_repeatable && !self.is_stream
    }

    /// What a call did whose answer does not come: a question changes nothing.
    pub(super) fn effect(&self) -> Effect {
        if self.method == "GET" {
            Effect::None
        } else {
            Effect::Unknown
        }
    }

    pub(super) fn json(&self) -> &[u8] {
        self.json.as_deref().unwrap_or("").as_bytes()
    }

    pub(super) fn head(&self, authority: &str, token: Option<&str>) -> String {
        let mut head = format!("{} {} HTTP/1.1\r\nhost: {authority}\r\n", self.method, self.target);
        if let Some(token) = token {
            head.push_str("authorization: Bearer ");
            head.push_str(token);
            head.push_str("\r\n");
        }
        if self.is_stream {
            head.push_str("content-type: ");
            head.push_str(ARROW_STREAM);
            head.push_str("\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\n");
        } else if self.method != "GET" {
            write!(
                head,
                "content-type: application/json\r\ncontent-length: {}\r\n",
                self.json().len()
            )
            .expect("writing to a string does not fail");
        }
        head.push_str("\r\n");
        head
    }
}
