// SPDX-License-Identifier: Apache-2.0
//! The two ends of a link: source, target, coordinator.

use bytes::BytesMut;
use bytestring::ByteString;

use super::{AmqpError, DeliveryState};
use crate::codec::{AmqpValue, DecodeError, Field, Map, Reader, Symbol, composite, descriptor_code};

composite! {
    /// Where messages of a link come from.
    Source = 0x28 "source" {
        /// The node; mostly a string.
        address: AmqpValue,
        /// The state that outlives the link: 0 none, 1 its configuration, 2 also its deliveries.
        durable: Option<u32>,
        /// When it expires.
        expiry_policy: Option<Symbol>,
        /// Seconds until it expires.
        timeout_s: Option<u32>,
        /// True if the other side creates the node.
        dynamic: bool,
        /// How it is to be made.
        dynamic_node_properties: Option<Map>,
        /// `move` or `copy`.
        distribution_mode: Option<Symbol>,
        /// Which messages.
        filter: Option<Map>,
        /// The outcome of deliveries that got no other.
        default_outcome: Option<DeliveryState>,
        /// Outcomes that the receiver may name.
        outcomes: Vec<Symbol>,
        /// Capabilities of the terminus.
        capabilities: Vec<Symbol>,
    }
}

composite! {
    /// Where messages of a link go.
    Terminus = 0x29 "target" {
        /// The node; mostly a string.
        address: AmqpValue,
        /// The state that outlives the link: 0 none, 1 its configuration, 2 also its deliveries.
        durable: Option<u32>,
        /// When it expires.
        expiry_policy: Option<Symbol>,
        /// Seconds until it expires.
        timeout_s: Option<u32>,
        /// True if the other side creates the node.
        dynamic: bool,
        /// How it is to be made.
        dynamic_node_properties: Option<Map>,
        /// Capabilities of the terminus.
        capabilities: Vec<Symbol>,
    }
}

composite! {
    /// The end of a link over which transactions are declared and discharged.
    Coordinator = 0x30 "coordinator" {
        /// Capabilities of the coordinator: `amqp:local-transactions`.
        capabilities: Vec<Symbol>,
    }
}

/// Where messages of a link go: to a node, or to the coordinator of transactions.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A node.
    Node(Terminus),
    /// The coordinator.
    Coordinator(Coordinator),
}

impl Source {
    /// A node and nothing else.
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
    /// A node and nothing else.
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

    /// The address, when it is a node with one.
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
    /// The address, when it has one.
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
