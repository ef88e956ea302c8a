// SPDX-License-Identifier: Apache-2.0
//! Events of a connection, seen by its client.

use bytes::Bytes;

use super::{DeliveryId, LinkId, SessionId};
use crate::codec::Tag;
use crate::performative::{AmqpError, Attach, DeliveryState, Open};

/// An event of a connection.
#[derive(Debug, PartialEq)]
pub enum ClientEvent {
    /// The connection is open on both sides. The server's `open`.
    Open(Box<Open>),
    /// A session is open on both sides.
    Begun {
        /// The session.
        session: SessionId,
    },
    /// A link is attached on both sides.
    Attached {
        /// The link.
        link: LinkId,
        /// The server's attach. Its `role` is that of the server.
        attach: Box<Attach>,
    },
    /// The credit of a link to the server changed, or the server drains the link.
    Credit {
        /// The link.
        link: LinkId,
        /// Messages that the server accepts now.
        credit: u32,
        /// Send what is at hand, then call `drained`.
        drain: bool,
    },
    /// The credit that was drained is used up: no message follows before new credit.
    Drained {
        /// The link.
        link: LinkId,
    },
    /// A message arrived. Settle it if it has an `id`.
    Received(Box<ReceivedDelivery>),
    /// The server's outcome of a message that was sent to it. The engine has settled it.
    Outcome(DeliveryOutcome<DeliveryId>),
    /// The server confirmed or refused the settlement of a message that was received from it, or settled it itself.
    Settled(DeliveryOutcome<ReceivedId>),
    /// The server refused or detached a link, or confirmed its detach. Its deliveries are forgotten.
    Detached {
        /// The link.
        link: LinkId,
        /// True if the server closes the link.
        closed: bool,
        /// The reason.
        error: Option<AmqpError>,
    },
    /// The engine has detached a link, because the server broke a rule of it.
    LinkFailed {
        /// The link.
        link: LinkId,
        /// The reason.
        error: AmqpError,
    },
    /// The server ended a session and its links, or confirmed its end.
    Ended {
        /// The session.
        session: SessionId,
        /// The reason.
        error: Option<AmqpError>,
    },
    /// The engine has ended a session and its links, because the server broke a rule of it.
    SessionFailed {
        /// The session.
        session: SessionId,
        /// The reason.
        error: AmqpError,
    },
    /// The server closed the connection and its sessions, or confirmed its close.
    Closed {
        /// The reason.
        error: Option<AmqpError>,
    },
    /// The engine has closed the connection, because the server refused it, broke a rule, or was silent.
    Failed(AmqpError),
    /// The bytes of the server ended before its `close`.
    Disconnected,
}

/// A message from the server.
#[derive(Debug, PartialEq)]
pub struct ReceivedDelivery {
    /// The link on which it arrived.
    pub link: LinkId,
    /// The id for `settle`, or `None` if the server has already settled the message.
    pub id: Option<ReceivedId>,
    /// The delivery tag.
    pub tag: Tag,
    /// The message format.
    pub message_format: u32,
    /// The delivery state.
    pub state: Option<DeliveryState>,
    /// The message. It shares the read buffer, so copy what is kept for long.
    pub message: Bytes,
}

/// An unsettled message from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReceivedId {
    pub(super) link: LinkId,
    pub(super) number: u64,
}

impl ReceivedId {
    /// The link on which it arrived.
    pub fn link(self) -> LinkId {
        self.link
    }
}

/// The server's state of a delivery.
#[derive(Debug, PartialEq)]
pub struct DeliveryOutcome<Id> {
    /// The link.
    pub link: LinkId,
    /// The delivery.
    pub delivery: Id,
    /// The state, or `None` if the server only settled the delivery.
    pub state: Option<DeliveryState>,
}
