// SPDX-License-Identifier: Apache-2.0
//! State of a link.

use super::{IncomingDelivery, LinkId};
use crate::codec::Map;
use crate::endpoint::{Assembly, LinkCredit};
use crate::performative::{AmqpError, Attach, Detach, Role, SenderSettleMode};

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
    pub(super) credit: LinkCredit,
    /// Limit of messages from the client without an answer.
    pub(super) credit_target: u32,
    pub(super) unanswered: u32,
    pub(super) max_message_size: u64,
    pub(super) assembly: Assembly,
    /// Messages that arrived before the attach was answered.
    pub(super) early_deliveries: Vec<IncomingDelivery>,
    pub(super) early_bytes: usize,
}

impl Link {
    pub(super) fn new(id: LinkId, attach: &Attach) -> Self {
        let delivery_count = attach
            .initial_delivery_count
            .filter(|_| attach.role == Role::Sender)
            .unwrap_or(0);
        Self {
            id,
            role: attach.role.inverted(),
            snd_settle_mode: attach.snd_settle_mode,
            pending_attach: None,
            peer_detached: None,
            is_detach_sent: false,
            credit: LinkCredit::starting_at(delivery_count),
            credit_target: 0,
            unanswered: 0,
            max_message_size: 0,
            assembly: Assembly::default(),
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
            initial_delivery_count: (self.role == Role::Sender).then_some(self.credit.delivery_count),
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
