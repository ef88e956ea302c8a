// SPDX-License-Identifier: Apache-2.0
//! State of a link.

use bytes::{Bytes, BytesMut};

use super::{IncomingDelivery, LinkId};
use crate::codec::{Map, Tag};
use crate::performative::{AmqpError, Attach, DeliveryState, Detach, Role, SenderSettleMode};

/// A link. It exists until both sides have detached it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: LinkId,
    /// The role of the server.
    pub(super) role: Role,
    pub(super) snd_settle_mode: SenderSettleMode,
    /// The client's attach, until it is answered.
    pub(super) pending_attach: Option<Box<Attach>>,
    /// Set once the client has detached the link. True if the client closed it.
    pub(super) peer_detached: Option<bool>,
    pub(super) is_detach_sent: bool,
    pub(super) delivery_count: u32,
    /// Number of messages that the sender may send, in either direction.
    pub(super) credit: u32,
    pub(super) drain: bool,
    /// Limit of messages from the client without an answer.
    pub(super) credit_target: u32,
    pub(super) unanswered: u32,
    pub(super) max_message_size: u64,
    /// An incomplete message from the client.
    pub(super) partial: Option<PartialDelivery>,
    /// Messages that arrived before the attach was answered.
    pub(super) early_deliveries: Vec<IncomingDelivery>,
    pub(super) early_bytes: usize,
}

/// An incomplete message.
#[derive(Debug)]
pub(super) struct PartialDelivery {
    pub(super) delivery_id: u32,
    pub(super) tag: Tag,
    pub(super) message_format: u32,
    pub(super) settled: bool,
    pub(super) state: Option<DeliveryState>,
    pub(super) bytes: BytesMut,
}

impl Link {
    pub(super) fn new(id: LinkId, attach: &Attach) -> Self {
        Self {
            id,
            role: attach.role.inverted(),
            snd_settle_mode: attach.snd_settle_mode,
            pending_attach: None,
            peer_detached: None,
            is_detach_sent: false,
            delivery_count: attach
                .initial_delivery_count
                .filter(|_| attach.role == Role::Sender)
                .unwrap_or(0),
            credit: 0,
            drain: false,
            credit_target: 0,
            unanswered: 0,
            max_message_size: 0,
            partial: None,
            early_deliveries: Vec::new(),
            early_bytes: 0,
        }
    }

    /// True if both sides have attached it and neither has detached it.
    pub(super) fn is_live(&self) -> bool {
        self.pending_attach.is_none() && self.peer_detached.is_none() && !self.is_detach_sent
    }

    /// The answer to an attach, without source and target, which rejects it.
    pub(super) fn attach_response(&self, request: &Attach) -> Attach {
        Attach {
            name: request.name.clone(),
            handle: self.id.handle,
            role: self.role,
            snd_settle_mode: request.snd_settle_mode,
            rcv_settle_mode: request.rcv_settle_mode,
            source: None,
            target: None,
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: (self.role == Role::Sender).then_some(self.delivery_count),
            max_message_size: None,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: Some(Map::new()),
        }
    }

    pub(super) fn detach(&self, error: Option<AmqpError>) -> Detach {
        Detach {
            handle: self.id.handle,
            closed: error.is_some() || self.peer_detached.unwrap_or(true),
            error,
        }
    }
}

/// The rest of a message to the client that exceeds the session's window.
#[derive(Debug)]
pub(super) struct TransferRemainder {
    pub(super) handle: u32,
    pub(super) rest: Bytes,
}
