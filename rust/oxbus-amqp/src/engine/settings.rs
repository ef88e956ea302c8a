// SPDX-License-Identifier: Apache-2.0
//! Settings of the server side.

use bytestring::ByteString;
use oxbus_model::caps::{AMQP_CHANNEL_MAX, AMQP_FRAME_BYTES_MAX, AMQP_HANDLE_MAX, AMQP_IDLE_MS};

use crate::codec::{Map, Symbol};
use crate::performative::mechanism;

/// Settings that a server announces to clients.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// The container id.
    pub container_id: ByteString,
    /// SASL mechanisms, preferred first.
    pub mechanisms: Vec<Symbol>,
    /// True if clients must use SASL.
    pub is_sasl_required: bool,
    /// Maximum frame size, in bytes.
    pub max_frame_size: u32,
    /// Largest channel number.
    pub channel_max: u16,
    /// Largest handle.
    pub handle_max: u32,
    /// Announced idle timeout, in milliseconds. The engine closes the connection after twice as long.
    pub idle_ms: u32,
    /// Product, version, platform.
    pub properties: Map,
    /// Capabilities.
    pub offered_capabilities: Vec<Symbol>,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            container_id: ByteString::from_static("oxbus"),
            mechanisms: [
                mechanism::MSSBCBS,
                mechanism::PLAIN,
                mechanism::ANONYMOUS,
                mechanism::EXTERNAL,
            ]
            .map(Symbol::from_static)
            .to_vec(),
            is_sasl_required: true,
            max_frame_size: AMQP_FRAME_BYTES_MAX,
            channel_max: AMQP_CHANNEL_MAX,
            handle_max: AMQP_HANDLE_MAX,
            idle_ms: AMQP_IDLE_MS,
            properties: Map::new(),
            offered_capabilities: Vec::new(),
        }
    }
}
