// SPDX-License-Identifier: Apache-2.0
//! The settings that a server announces.

use bytestring::ByteString;
use oxbus_model::caps::{AMQP_CHANNEL_MAX, AMQP_FRAME_BYTES_MAX, AMQP_HANDLE_MAX, AMQP_IDLE_MS};

use crate::codec::{Map, Symbol};
use crate::performative::mechanism;

/// The settings that a server announces.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// Its name.
    pub container_id: ByteString,
    /// How clients may show who they are, best first.
    pub mechanisms: Vec<Symbol>,
    /// True if clients must authenticate.
    pub is_sasl_required: bool,
    /// Bytes of a frame that it takes.
    pub max_frame_size: u32,
    /// Largest channel number.
    pub channel_max: u16,
    /// Largest handle.
    pub handle_max: u32,
    /// Milliseconds without a frame that it announces; twice as long is the end.
    pub idle_ms: u32,
    /// Product, version, platform.
    pub properties: Map,
    /// Capabilities that the server supports.
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
