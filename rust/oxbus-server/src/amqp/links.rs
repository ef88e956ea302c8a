// SPDX-License-Identifier: Apache-2.0
//! The links of a connection.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;
use oxbus_amqp::engine::{DeliveryDisposition, IncomingDelivery};
use oxbus_amqp::performative::Attach;
use oxbus_broker::client::{Acceptor, Delivery, WaitRegistration};
use oxbus_broker::clock::Deadline;
use oxbus_broker::{Receiver, Sender};
use oxbus_model::authorization::AccessRight;
use tokio::time::Instant;

use super::node::{AmqpNode, EntityAddress};
use super::spans::DeliveredContexts;

/// A client's link.
pub(super) struct ClientLink {
    pub(super) name: ByteString,
    /// The time of the last activity.
    pub(super) used_at: Instant,
    /// The messages that it transferred.
    pub(super) messages: u64,
    pub(super) kind: LinkKind,
}

/// The purpose of a link.
pub(super) enum LinkKind {
    /// The server has not answered the attach yet.
    Attaching(Box<PendingAttach>),
    /// The client sends messages to an entity.
    Send(Box<SendLink>),
    /// The client receives messages from an entity.
    Receive(Box<ReceiveLink>),
    /// The client sends requests.
    Request { node: AmqpNode },
    /// The client receives replies.
    Reply(ReplyLink),
    /// The client declares and discharges transactions.
    Coordinator,
}

/// A link whose attach the server has not answered.
pub(super) struct PendingAttach {
    pub(super) attach: Attach,
    pub(super) address: EntityAddress,
    /// Set while the attach waits for a session.
    pub(super) waiting: Option<WaitingForSession>,
}

/// An attach that waits for a session (B-195, B-196).
pub(super) struct WaitingForSession {
    pub(super) acceptor: Arc<Acceptor>,
    pub(super) deadline: Deadline,
    pub(super) waiting: Option<WaitRegistration>,
    pub(super) is_attempting: bool,
    /// True if a notification arrived during an attempt, so that another one must follow.
    pub(super) retry: bool,
}

/// A link over which the client sends.
pub(super) struct SendLink {
    pub(super) sender: Arc<Sender>,
    pub(super) address: EntityAddress,
    pub(super) queued: Vec<IncomingDelivery>,
    pub(super) is_busy: bool,
    /// True if the client has detached the link and waits for outcomes.
    pub(super) is_detaching: bool,
}

/// A link over which the client receives.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent of each other")]
pub(super) struct ReceiveLink {
    pub(super) receiver: Arc<Receiver>,
    pub(super) address: EntityAddress,
    /// The registration in the wait queue of the entity.
    pub(super) waiting: Option<WaitRegistration>,
    pub(super) is_attempting: bool,
    /// True if a notification or credit arrived during an attempt, so that another one must follow.
    pub(super) retry: bool,
    pub(super) is_draining: bool,
    /// Messages that were received for the client and are not sent yet.
    pub(super) unsent: VecDeque<Delivery>,
    pub(super) settles: Vec<DeliveryDisposition>,
    pub(super) is_settling: bool,
    /// The contexts of unsettled messages, while the server records spans.
    pub(super) contexts: DeliveredContexts,
    /// The time at which the loss of the session was detected.
    pub(super) session_lost_at: Option<Instant>,
}

/// A link over which the client receives replies.
pub(super) struct ReplyLink {
    pub(super) node: AmqpNode,
    /// The address that the client uses as `reply-to`.
    pub(super) reply_to: Option<ByteString>,
    /// Replies that wait for credit.
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
            contexts: DeliveredContexts::default(),
            session_lost_at: None,
        }
    }
}

impl ClientLink {
    /// The entity and the access right that the link requires (B-416).
    pub(super) fn required_access(&self) -> Option<(&EntityAddress, AccessRight)> {
        match &self.kind {
            LinkKind::Send(send_link) => Some((&send_link.address, AccessRight::Send)),
            LinkKind::Receive(receive_link) => Some((&receive_link.address, AccessRight::Listen)),
            _ => None,
        }
    }
}
