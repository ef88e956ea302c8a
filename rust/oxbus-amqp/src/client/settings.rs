// SPDX-License-Identifier: Apache-2.0
//! Settings of the client side.

use std::fmt;

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use oxbus_model::caps::{AMQP_CHANNEL_MAX, AMQP_CLIENT_IDLE_MS, AMQP_FRAME_BYTES_MAX, AMQP_HANDLE_MAX};

use crate::codec::{Map, Symbol};
use crate::performative::{PlainCredentials, mechanism};

/// How the client names itself to the server.
#[derive(Clone, PartialEq, Eq)]
pub enum SaslChoice {
    /// Without SASL: the connection starts with the header of AMQP.
    Skip,
    /// Without credentials. Tokens may follow on `$cbs`.
    Anonymous,
    /// With name and password.
    Plain(PlainCredentials),
    /// With the certificate of TLS.
    External,
    /// Without credentials; tokens follow on `$cbs`.
    MssbCbs,
}

impl SaslChoice {
    /// The name of the mechanism. `None` without SASL.
    pub fn mechanism(&self) -> Option<&'static str> {
        match self {
            Self::Skip => None,
            Self::Anonymous => Some(mechanism::ANONYMOUS),
            Self::Plain(_) => Some(mechanism::PLAIN),
            Self::External => Some(mechanism::EXTERNAL),
            Self::MssbCbs => Some(mechanism::MSSBCBS),
        }
    }

    pub(super) fn initial_response(&self) -> Option<Bytes> {
        match self {
            Self::Plain(credentials) => {
                let mut out = BytesMut::new();
                for part in [&credentials.user, &credentials.password] {
                    out.extend_from_slice(b"\0");
                    out.extend_from_slice(part.as_bytes());
                }
                Some(out.freeze())
            }
            Self::External => Some(Bytes::new()),
            Self::Skip | Self::Anonymous | Self::MssbCbs => None,
        }
    }
}

/// Without the password.
impl fmt::Debug for SaslChoice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.mechanism().unwrap_or("none"))
    }
}

/// Settings that a client announces to servers.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// The container id.
    pub container_id: ByteString,
    /// The host that the client addresses.
    pub hostname: Option<ByteString>,
    /// The mechanism of SASL.
    pub sasl: SaslChoice,
    /// Maximum frame size, in bytes.
    pub max_frame_size: u32,
    /// Largest channel number.
    pub channel_max: u16,
    /// Largest handle.
    pub handle_max: u32,
    /// Announced idle timeout, in milliseconds. The engine closes the connection after twice as long. Zero announces
    /// none.
    pub idle_ms: u32,
    /// Product, version, platform.
    pub properties: Map,
    /// Capabilities.
    pub offered_capabilities: Vec<Symbol>,
    /// Capabilities that it requests.
    pub desired_capabilities: Vec<Symbol>,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            container_id: ByteString::from_static("oxbus"),
            hostname: None,
            sasl: SaslChoice::Anonymous,
            max_frame_size: AMQP_FRAME_BYTES_MAX,
            channel_max: AMQP_CHANNEL_MAX,
            handle_max: AMQP_HANDLE_MAX,
            idle_ms: AMQP_CLIENT_IDLE_MS,
            properties: Map::new(),
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
        }
    }
}
