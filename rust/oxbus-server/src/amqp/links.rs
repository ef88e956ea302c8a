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

use super::node::{Node, Place};

/// A link.
pub(super) struct Link {
    pub(super) name: ByteString,
    /// When something last happened on it.
    pub(super) used_at: Instant,
    pub(super) kind: Kind,
}

/// What a link is for.
pub(super) enum Kind {
    /// Its attach is not answered yet.
    Opening(Box<Opening>),
    /// The client sends messages to an entity.
    Sends(Box<Sends>),
    /// The client receives messages from an entity.
    Receives(Box<Receives>),
    /// The client sends requests.
    Requests { node: Node },
    /// The client receives answers.
    Replies(Replies),
    /// The client declares and discharges transactions.
    Coordinator,
}

/// A link whose attach is not answered.
pub(super) struct Opening {
    pub(super) attach: Attach,
    pub(super) place: Place,
    /// Waits for a session.
    pub(super) waiting: Option<WaitingForSession>,
}

/// Waits for a session (B-195, B-196).
pub(super) struct WaitingForSession {
    pub(super) acceptor: Arc<Acceptor>,
    pub(super) deadline: Deadline,
    pub(super) waiting: Option<Waiting>,
    pub(super) is_looking: bool,
    /// A notification came during a look.
    pub(super) again: bool,
}

/// A link that the client sends on.
pub(super) struct Sends {
    pub(super) sender: Arc<Sender>,
    pub(super) place: Place,
    pub(super) queued: Vec<Incoming>,
    pub(super) is_busy: bool,
    /// The client has detached it, and waits for its answers.
    pub(super) is_detaching: bool,
}

/// A link that the client receives from.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about a link")]
pub(super) struct Receives {
    pub(super) receiver: Arc<Receiver>,
    pub(super) place: Place,
    /// Its place among those who wait for messages.
    pub(super) waiting: Option<Waiting>,
    pub(super) is_looking: bool,
    /// A notification or credit came during a look.
    pub(super) again: bool,
    pub(super) is_draining: bool,
    /// Taken for the client, and not sent yet.
    pub(super) unsent: VecDeque<Delivery>,
    pub(super) settles: Vec<Settle>,
    pub(super) is_settling: bool,
    /// When its session was found lost.
    pub(super) session_lost_at: Option<Instant>,
}

/// A link that answers go to.
pub(super) struct Replies {
    pub(super) node: Node,
    /// The address that the client calls itself.
    pub(super) reply_to: Option<ByteString>,
    /// Answers that wait for credit.
    pub(super) unsent: VecDeque<Bytes>,
}

impl Receives {
    pub(super) fn new(receiver: Receiver, place: Place) -> Self {
        Self {
            receiver: Arc::new(receiver),
            place,
            waiting: None,
            is_looking: false,
            again: false,
            is_draining: false,
            unsent: VecDeque::new(),
            settles: Vec::new(),
            is_settling: false,
            session_lost_at: None,
        }
    }
}

impl Link {
    /// The entity and the right that the link stands on (B-416).
    pub(super) fn needs(&self) -> Option<(&Place, AccessRight)> {
        match &self.kind {
            Kind::Sends(sends) => Some((&sends.place, AccessRight::Send)),
            Kind::Receives(receives) => Some((&receives.place, AccessRight::Listen)),
            _ => None,
        }
    }
}
