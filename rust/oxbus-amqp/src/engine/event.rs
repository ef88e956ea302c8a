// SPDX-License-Identifier: Apache-2.0
//! Events of a connection, and the answers of the application.

use std::fmt;

use bytes::Bytes;

use super::{DeliveryId, IncomingId, LinkId, SessionId};
use crate::codec::{Map, Symbol, Tag};
use crate::performative::{AmqpError, Attach, DeliveryState, Open, SaslInit, Source, Target};

/// An event of a connection.
#[derive(Debug, PartialEq)]
pub enum EngineEvent {
    /// The client presents its credentials. Answer with `sasl_outcome`; no other event comes before.
    SaslInit(Box<SaslInit>),
    /// The connection is open on both sides.
    Open(Box<Open>),
    /// A session is open on both sides.
    Begin {
        /// The session.
        session: SessionId,
    },
    /// The client requests a link. Answer with `accept` or `detach`, now or later.
    Attach(Box<AttachRequest>),
    /// The credit of a link to the client changed, or the client drains the link.
    Credit {
        /// The link.
        link: LinkId,
        /// Messages that the client accepts now.
        credit: u32,
        /// Send the available messages, then call `drained`.
        drain: bool,
    },
    /// A message arrived. Answer with `answer` if it has an `id`.
    Incoming(Box<IncomingDelivery>),
    /// The client updates the state of a message that was sent to it.
    Disposition(Box<DeliveryDisposition>),
    /// The client detaches a link. Answer with `detach`; no more messages are sent on it.
    Detach {
        /// The link.
        link: LinkId,
        /// True if the client closes the link.
        closed: bool,
        /// The reason.
        error: Option<AmqpError>,
    },
    /// The engine has detached a link, because the client exceeded a limit. Needs no answer.
    LinkFailed {
        /// The link.
        link: LinkId,
        /// The reason.
        error: AmqpError,
    },
    /// The client ends a session and its links. Answer with `end`.
    End {
        /// The session.
        session: SessionId,
        /// The reason.
        error: Option<AmqpError>,
    },
    /// The engine has ended a session and its links. Needs no answer.
    SessionFailed {
        /// The session.
        session: SessionId,
        /// The reason.
        error: AmqpError,
    },
    /// The client closes the connection and its sessions. Answer with `close`.
    Close {
        /// The reason.
        error: Option<AmqpError>,
    },
    /// The engine has closed the connection. Needs no answer.
    Failed(AmqpError),
}

/// A link that the client requests.
#[derive(Debug, PartialEq)]
pub struct AttachRequest {
    /// The link.
    pub link: LinkId,
    /// The client's attach. Its `role` is that of the client.
    pub attach: Attach,
}

/// The terms of an accepted link. Name, modes and handle come from the request.
#[derive(Debug, Clone, PartialEq)]
pub struct AttachResponse {
    /// Where messages come from.
    pub source: Source,
    /// Where messages go.
    pub target: Target,
    /// Limit of a message, in bytes. Zero means no limit.
    pub max_message_size: u64,
    /// True if larger messages are passed on, so that the application can reject them without a detach.
    pub takes_larger: bool,
    /// On a link from the client: number of messages without an answer. Renewed as messages are answered.
    pub credit: u32,
    /// Capabilities of the server.
    pub offered_capabilities: Vec<Symbol>,
    /// Further properties of the link.
    pub properties: Map,
}

impl AttachResponse {
    /// Accepts the source and target of the request. Returns `None` if one is missing.
    pub fn as_requested(attach: &Attach) -> Option<Self> {
        Some(Self {
            source: (**attach.source.as_ref()?).clone(),
            target: (**attach.target.as_ref()?).clone(),
            max_message_size: 0,
            takes_larger: false,
            credit: 0,
            offered_capabilities: Vec::new(),
            properties: Map::new(),
        })
    }
}

/// A message from the client.
#[derive(Debug, PartialEq)]
pub struct IncomingDelivery {
    /// The link on which it arrived.
    pub link: LinkId,
    /// The id for `answer`, or `None` if the client has already settled the message.
    pub id: Option<IncomingId>,
    /// The delivery tag.
    pub tag: Tag,
    /// The message format.
    pub message_format: u32,
    /// The delivery state, which may name a transaction.
    pub state: Option<DeliveryState>,
    /// The message. It shares the read buffer, so copy what is kept for long.
    pub message: Bytes,
}

/// The client's update of the state of a message that was sent to it.
#[derive(Debug, PartialEq)]
pub struct DeliveryDisposition {
    /// The link on which it was sent.
    pub link: LinkId,
    /// The message.
    pub delivery: DeliveryId,
    /// The delivery tag.
    pub tag: Tag,
    /// The state, or `None` if the client only settles the delivery.
    pub state: Option<DeliveryState>,
    /// True if the client has settled it. If not, answer with `settle`.
    pub settled: bool,
}

/// The link of a command no longer exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkNotFound;

impl fmt::Display for LinkNotFound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the link is gone")
    }
}

impl std::error::Error for LinkNotFound {}
