// SPDX-License-Identifier: Apache-2.0
//! The links of a connection, as the front end sees them.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;
use oxbus_amqp::engine::{Incoming, Settle};
use oxbus_amqp::performative::Attach;
use oxbus_broker::client::{Acceptor, Delivery, Waiting};
use oxbus_broker::clock::Deadline;
use oxbus_broker::{Receiver, Sender};
use oxbus_model::authorization::AccessRight;
use tokio::time::Instant;

use super::node::{AmqpNode, EntityAddress};

/// A link.
pub(super) struct ClientLink {
    pub(super) name: ByteString,
    /// When something last happened on it.
    pub(super) used_at: Instant,
    pub(super) kind: LinkKind,
}

/// What a link is for.
pub(super) enum LinkKind {
    /// Its attach is not answered yet.
    Attaching(Box<PendingAttach>),
    /// The client sends messages to an entity.
    Send(Box<SendLink>),
    /// The client receives messages from an entity.
    Receive(Box<ReceiveLink>),
    /// The client sends requests.
    Request { node: AmqpNode },
    /// The client receives answers.
    Reply(ReplyLink),
    /// The client declares and discharges transactions.
    Coordinator,
}

/// A link whose attach is not answered.
pub(super) struct PendingAttach {
    pub(super) attach: Attach,
    pub(super) address: EntityAddress,
    /// Waits for a session.
    pub(super) waiting: Option<WaitingForSession>,
}

/// Waits for a session (B-195, B-196).
pub(super) struct WaitingForSession {
    pub(super) acceptor: Arc<Acceptor>,
    pub(super) deadline: Deadline,
    pub(super) waiting: Option<Waiting>,
    pub(super) is_attempting: bool,
    /// A notification came during a look.
    pub(super) retry: bool,
}

/// A link that the client sends on.
pub(super) struct SendLink {
    pub(super) sender: Arc<Sender>,
    pub(super) address: EntityAddress,
    pub(super) queued: Vec<Incoming>,
    pub(super) is_busy: bool,
    /// The client has detached it, and waits for its answers.
    pub(super) is_detaching: bool,
}

/// A link that the client receives from.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about a link")]
pub(super) struct ReceiveLink {
    pub(super) receiver: Arc<Receiver>,
    pub(super) address: EntityAddress,
    /// Its place among those who wait for messages.
    pub(super) waiting: Option<Waiting>,
    pub(super) is_attempting: bool,
    /// A notification or credit came during a look.
    pub(super) retry: bool,
    pub(super) is_draining: bool,
    /// Taken for the client, and not sent yet.
    pub(super) unsent: VecDeque<Delivery>,
    pub(super) settles: Vec<Settle>,
    pub(super) is_settling: bool,
    /// When its session was found lost.
    pub(super) session_lost_at: Option<Instant>,
}

/// A link that answers go to.
pub(super) struct ReplyLink {
    pub(super) node: AmqpNode,
    /// The address that the client calls itself.
    pub(super) reply_to: Option<ByteString>,
    /// Answers that wait for credit.
    pub(super) unsent: VecDeque<Bytes>,
}

impl ReceiveLink {
    pub(super) fn new(receiver: Receiver, address: EntityAddress) -> Self {
        Self {
            receiver: Arc::new(receiver),
            address,
            waiting: None,
            is_attempting: false,
            retry: false,
            is_draining: false,
            unsent: VecDeque::new(),
            settles: Vec::new(),
            is_settling: false,
            session_lost_at: None,
        }
    }
}

impl ClientLink {
    /// The entity and the right that the link stands on (B-416).
    pub(super) fn required_access(&self) -> Option<(&EntityAddress, AccessRight)> {
        match &self.kind {
            LinkKind::Send(send_link) => Some((&send_link.address, AccessRight::Send)),
            LinkKind::Receive(receive_link) => Some((&receive_link.address, AccessRight::Listen)),
            _ => None,
        }
    }
}
