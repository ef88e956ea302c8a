// SPDX-License-Identifier: Apache-2.0
//! State of a link, and what a client requests for it.

use bytestring::ByteString;

use super::LinkId;
use crate::codec::{Map, Symbol};
use crate::endpoint::{Assembly, LinkCredit};
use crate::performative::{AmqpError, Attach, Detach, ReceiverSettleMode, Role, SenderSettleMode, Source, Target};

/// A link that a client wants.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkRequest {
    /// Its name, which no other link of the session has.
    pub name: ByteString,
    /// The role of the client.
    pub role: Role,
    /// When the sender settles.
    pub snd_settle_mode: SenderSettleMode,
    /// When the receiver settles.
    pub rcv_settle_mode: ReceiverSettleMode,
    /// Where messages come from.
    pub source: Source,
    /// Where messages go.
    pub target: Target,
    /// On a link from the server: limit of a message, in bytes. Zero announces none.
    pub max_message_size: u64,
    /// On a link from the server: messages that it may send at once.
    pub credit: u32,
    /// Capabilities that the client offers.
    pub offered_capabilities: Vec<Symbol>,
    /// Capabilities that the client requests.
    pub desired_capabilities: Vec<Symbol>,
    /// Further properties.
    pub properties: Map,
}

impl LinkRequest {
    /// A link to send on, whose messages are settled after their outcome.
    pub fn sender(name: impl Into<ByteString>, source: Source, target: Target) -> Self {
        Self {
            name: name.into(),
            role: Role::Sender,
            snd_settle_mode: SenderSettleMode::Unsettled,
            rcv_settle_mode: ReceiverSettleMode::First,
            source,
            target,
            max_message_size: 0,
            credit: 0,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: Map::new(),
        }
    }

    /// A link to receive from, whose settlements the server confirms.
    pub fn receiver(name: impl Into<ByteString>, source: Source, target: Target) -> Self {
        Self {
            role: Role::Receiver,
            rcv_settle_mode: ReceiverSettleMode::Second,
            ..Self::sender(name, source, target)
        }
    }

    pub(super) fn attach(self, handle: u32) -> Attach {
        Attach {
            name: self.name,
            handle,
            role: self.role,
            snd_settle_mode: self.snd_settle_mode,
            rcv_settle_mode: self.rcv_settle_mode,
            source: Some(Box::new(self.source)),
            target: Some(Box::new(self.target)),
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: (self.role == Role::Sender).then_some(0),
            max_message_size: Some(self.max_message_size).filter(|size| *size > 0),
            offered_capabilities: self.offered_capabilities,
            desired_capabilities: self.desired_capabilities,
            properties: Some(self.properties),
        }
    }
}

/// A link. It exists until both sides have detached it.
#[derive(Debug)]
pub(super) struct ClientLink {
    pub(super) id: LinkId,
    pub(super) name: ByteString,
    /// The role of the client.
    pub(super) role: Role,
    pub(super) snd_settle_mode: SenderSettleMode,
    pub(super) rcv_settle_mode: ReceiverSettleMode,
    /// The handle of the server, from its attach to its detach.
    pub(super) server_handle: Option<u32>,
    /// True once the server has accepted it.
    pub(super) is_attached: bool,
    pub(super) is_detach_sent: bool,
    pub(super) credit: LinkCredit,
    /// Limit of a message, in bytes: the server's on a link to it, else the client's. Zero means none.
    pub(super) max_message_size: u64,
    pub(super) assembly: Assembly,
}

impl ClientLink {
    pub(super) fn new(id: LinkId, request: &LinkRequest) -> Self {
        Self {
            id,
            name: request.name.clone(),
            role: request.role,
            snd_settle_mode: request.snd_settle_mode,
            rcv_settle_mode: request.rcv_settle_mode,
            server_handle: None,
            is_attached: false,
            is_detach_sent: false,
            credit: LinkCredit::default(),
            max_message_size: request.max_message_size,
            assembly: Assembly::default(),
        }
    }

    /// True if both sides have attached it and neither has detached it.
    pub(super) fn is_live(&self) -> bool {
        self.is_attached && !self.is_detach_sent
    }

    pub(super) fn detach(&self, closed: bool, error: Option<AmqpError>) -> Detach {
        Detach {
            handle: self.id.handle,
            closed,
            error,
        }
    }
}
