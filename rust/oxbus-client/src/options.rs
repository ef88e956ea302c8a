// SPDX-License-Identifier: Apache-2.0
//! Where the server is, and how to reach it.

use std::time::Duration;

use oxbus_amqp::codec::Map;
use oxbus_model::{ErrorKind, Timestamp};
use oxbus_wire::{ConnectionString, Credential as Key};

use crate::credential::Credential;
use crate::error::{ClientError, Result};
use crate::retry::RetryOptions;

/// How bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransportKind {
    /// TCP, with or without TLS.
    #[default]
    Tcp,
    /// WebSocket, with or without TLS, as firewalls allow it.
    WebSocket,
}

/// An HTTP proxy that tunnels connections with CONNECT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Name and password, if it wants them.
    pub credentials: Option<(String, String)>,
}

/// Settings of a client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The namespace: the host in addresses and tokens.
    pub host: String,
    /// The port. `None` means that of the transport.
    pub port: Option<u16>,
    /// Another host and port to connect to, such as a gateway's.
    pub custom_endpoint: Option<(String, Option<u16>)>,
    /// False for servers without TLS.
    pub tls: bool,
    /// A PEM file with the certificates to trust. `None` means those of the system.
    pub ca_file: Option<String>,
    /// How bytes travel.
    pub transport: TransportKind,
    /// A proxy on the way.
    pub proxy: Option<Proxy>,
    /// The credential of the client.
    pub credential: Credential,
    /// The entity to which the credential is limited.
    pub entity: Option<String>,
    /// When failed calls are tried again.
    pub retry: RetryOptions,
    /// The longest time to connect and open a link, for calls without a shorter limit.
    pub connect_timeout: Duration,
    /// The longest time of one try of a send or of a request, if there is one.
    pub try_timeout: Option<Duration>,
    /// The name of the client in the server's logs. Links are named after it.
    pub identifier: String,
    /// Product, version, platform.
    pub properties: Map,
    /// The wall clock, from which the end of tokens follows.
    pub clock: fn() -> Timestamp,
}

/// Time to connect and to open a link.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

impl ClientOptions {
    /// The settings of a connection string.
    pub fn from_connection_string(text: &str, clock: fn() -> Timestamp) -> Result<Self> {
        let parsed = ConnectionString::parse(text)?;
        let credential = match parsed.credential {
            Key::Key { name, key } => Credential::SharedKey { name, key },
            Key::Signature(token) => Credential::Token(token),
        };
        Ok(Self {
            // The service ignores the port of an endpoint with TLS; ours has one.
            port: Some(parsed.port),
            tls: parsed.tls,
            entity: parsed.entity,
            ..Self::new(parsed.host, credential, clock)
        })
    }

    /// The settings of a namespace with TLS and the ports of the service.
    pub fn new(host: impl Into<String>, credential: Credential, clock: fn() -> Timestamp) -> Self {
        Self {
            host: host.into(),
            port: None,
            custom_endpoint: None,
            tls: true,
            ca_file: None,
            transport: TransportKind::default(),
            proxy: None,
            credential,
            entity: None,
            retry: RetryOptions::default(),
            connect_timeout: CONNECT_TIMEOUT,
            try_timeout: None,
            identifier: "oxbus".to_owned(),
            properties: Map::new().with("product", "oxbus"),
            clock,
        }
    }

    /// Host and port to connect to.
    pub(crate) fn endpoint(&self) -> (&str, u16) {
        let default = match (self.transport, self.tls) {
            (TransportKind::Tcp, true) => 5671,
            (TransportKind::Tcp, false) => 5672,
            (TransportKind::WebSocket, true) => 443,
            (TransportKind::WebSocket, false) => 80,
        };
        match &self.custom_endpoint {
            Some((host, port)) => (host, port.unwrap_or(default)),
            None => (&self.host, self.port.unwrap_or(default)),
        }
    }

    /// Host and port of the namespace, as in a URL.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }

    /// The address of an entity in tokens.
    pub(crate) fn audience(&self, path: &str) -> String {
        format!("sb://{}/{path}", self.authority())
    }

    /// Rejects settings that exclude each other.
    pub(crate) fn check(&self) -> Result<()> {
        let invalid = |detail: &str| Err(ClientError::broker(ErrorKind::InvalidArgument, detail));
        if self.host.is_empty() {
            return invalid("the namespace has no host; name it, such as example.servicebus.windows.net");
        }
        if !self.tls && self.ca_file.is_some() {
            return invalid("a connection without TLS verifies no certificate; remove the file, or use TLS");
        }
        Ok(())
    }
}
