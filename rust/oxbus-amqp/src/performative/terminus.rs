// SPDX-License-Identifier: Apache-2.0
//! The termini of links: source, target, coordinator.

use bytes::BytesMut;
use bytestring::ByteString;

use super::{AmqpError, DeliveryState};
use crate::codec::{AmqpValue, DecodeError, Field, Map, Reader, Symbol, composite, descriptor_code};

composite! {
    /// The source of the messages of a link.
    Source = 0x28 "source" {
        /// The node, usually a string.
        address: AmqpValue,
        /// The state that survives the link: 0 none, 1 its configuration, 2 its configuration and deliveries.
        durable: Option<u32>,
        /// When it expires.
        expiry_policy: Option<Symbol>,
        /// Seconds until it expires.
        timeout_s: Option<u32>,
        /// True if the other side must create the node.
        dynamic: bool,
        /// Properties of the created node.
        dynamic_node_properties: Option<Map>,
        /// `move` or `copy`.
        distribution_mode: Option<Symbol>,
        /// Selects messages.
        filter: Option<Map>,
        /// State of deliveries without an outcome.
        default_outcome: Option<DeliveryState>,
        /// Outcomes that the receiver may use.
        outcomes: Vec<Symbol>,
        /// Capabilities.
        capabilities: Vec<Symbol>,
    }
}

composite! {
    /// A node as target of the messages of a link.
    Terminus = 0x29 "target" {
        /// The node, usually a string.
        address: AmqpValue,
        /// The state that survives the link: 0 none, 1 its configuration, 2 its configuration and deliveries.
        durable: Option<u32>,
        /// When it expires.
        expiry_policy: Option<Symbol>,
        /// Seconds until it expires.
        timeout_s: Option<u32>,
        /// True if the other side must create the node.
        dynamic: bool,
        /// Properties of the created node.
        dynamic_node_properties: Option<Map>,
        /// Capabilities.
        capabilities: Vec<Symbol>,
    }
}

composite! {
    /// The target of a link for declaring and discharging transactions.
    Coordinator = 0x30 "coordinator" {
        /// Capabilities: `amqp:local-transactions`.
        capabilities: Vec<Symbol>,
    }
}

/// The target of a link: a node or the transaction coordinator.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A node.
    Node(Terminus),
    /// The coordinator.
    Coordinator(Coordinator),
}

impl Source {
    /// A terminus with only an address.
    pub fn of(address: impl Into<AmqpValue>) -> Self {
        Self {
            address: address.into(),
            durable: None,
            expiry_policy: None,
            timeout_s: None,
            dynamic: false,
            dynamic_node_properties: None,
            distribution_mode: None,
            filter: None,
            default_outcome: None,
            outcomes: Vec::new(),
            capabilities: Vec::new(),
        }
    }
}

impl Target {
    /// A terminus with only an address.
    pub fn of(address: impl Into<AmqpValue>) -> Self {
        Self::Node(Terminus {
            address: address.into(),
            durable: None,
            expiry_policy: None,
            timeout_s: None,
            dynamic: false,
            dynamic_node_properties: None,
            capabilities: Vec::new(),
        })
    }

    /// The address, if the target is a node with a string address.
    pub fn address(&self) -> Option<&ByteString> {
        match self {
            Self::Node(Terminus {
                address: AmqpValue::String(address),
                ..
            }) => Some(address),
            _ => None,
        }
    }
}

impl Source {
    /// The address, if it is a string.
    pub fn address(&self) -> Option<&ByteString> {
        if let AmqpValue::String(address) = &self.address {
            Some(address)
        } else {
            None
        }
    }
}

impl Field for Target {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match descriptor_code(reader)? {
            Some(0x29) => Terminus::decode_list(reader).map(Self::Node),
            Some(0x30) => Coordinator::decode_list(reader).map(Self::Coordinator),
            descriptor => Err(DecodeError::WrongDescriptor {
                expected: "target",
                descriptor,
            }),
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Node(node) => node.encode(out),
            Self::Coordinator(coordinator) => coordinator.encode(out),
        }
    }
}

impl From<AmqpError> for DeliveryState {
    fn from(error: AmqpError) -> Self {
        Self::Rejected(Some(Box::new(error)))
    }
}
