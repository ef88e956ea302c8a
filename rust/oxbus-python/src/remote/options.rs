// SPDX-License-Identifier: Apache-2.0
//! Where the server is, and how to reach it: the options of a client, which Python has checked.

use std::sync::Arc;
use std::time::Duration;

use oxbus_client::{AccessToken, ClientOptions, Credential, Proxy, RetryMode, RetryOptions, TransportKind};
use oxbus_model::Timestamp;
use pyo3::prelude::*;

use super::call;
use crate::convert;

/// The options of a client.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RemoteOptions {
    host: String,
    port: Option<u16>,
    tls: bool,
    custom_endpoint: Option<(String, Option<u16>)>,
    ca_file: Option<String>,
    websocket: bool,
    proxy: Option<RemoteProxy>,
    credential: RemoteCredential,
    entity: Option<String>,
    retry_total: u32,
    retry_backoff_factor: f64,
    retry_backoff_max: f64,
    retry_fixed: bool,
    connect_timeout: f64,
    try_timeout: Option<f64>,
    identifier: String,
}

/// A proxy: its host, its port, and name and password if it wants them.
#[derive(FromPyObject)]
struct RemoteProxy(String, u16, Option<(String, String)>);

/// A credential.
#[derive(FromPyObject)]
enum RemoteCredential {
    /// The name of a key, and the key.
    Key(String, String),
    /// A signature.
    Signature(String),
    /// A function that returns a token and its end in seconds since 1970.
    Function(Py<PyAny>),
}

impl RemoteCredential {
    fn build(self) -> Credential {
        match self {
            Self::Key(name, key) => Credential::SharedKey { name, key },
            Self::Signature(token) => Credential::Token(token),
            Self::Function(function) => Credential::Function(Arc::new(move |_scope| token(&function))),
        }
    }
}

/// Asks a function for a token, on a thread of the client.
fn token(function: &Py<PyAny>) -> Result<AccessToken, String> {
    let asked = Python::try_attach(|py| {
        let (token, seconds): (String, f64) = function.call0(py).and_then(|given| given.extract(py))?;
        let end = Duration::try_from_secs_f64(seconds).map_or(u64::MAX, |end| end.as_millis() as u64);
        Ok(AccessToken {
            token,
            expires_at: Timestamp(end.min(Timestamp::NEVER.0)),
        })
    });
    asked
        .ok_or_else(|| "the interpreter exits".to_owned())?
        .map_err(|error: PyErr| error.to_string())
}

impl RemoteOptions {
    pub(super) fn build(self) -> PyResult<ClientOptions> {
        let retry = RetryOptions {
            total: self.retry_total,
            backoff: convert::duration("retry_backoff_factor", self.retry_backoff_factor)?,
            backoff_max: convert::duration("retry_backoff_max", self.retry_backoff_max)?,
            mode: if self.retry_fixed {
                RetryMode::Fixed
            } else {
                RetryMode::Exponential
            },
        };
        let transport = if self.websocket {
            TransportKind::WebSocket
        } else {
            TransportKind::Tcp
        };
        Ok(ClientOptions {
            port: self.port,
            tls: self.tls,
            custom_endpoint: self.custom_endpoint,
            ca_file: self.ca_file,
            transport,
            proxy: self.proxy.map(|RemoteProxy(host, port, credentials)| Proxy {
                host,
                port,
                credentials,
            }),
            entity: self.entity,
            retry,
            connect_timeout: convert::duration("socket_timeout", self.connect_timeout)?,
            try_timeout: self
                .try_timeout
                .map(|seconds| convert::duration("try_timeout", seconds))
                .transpose()?,
            identifier: self.identifier,
            ..ClientOptions::new(self.host, self.credential.build(), call::now)
        })
    }
}
