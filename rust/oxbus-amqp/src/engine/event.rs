// SPDX-License-Identifier: Apache-2.0
//! The events of a connection, and the responses of the application.

use std::fmt;

use bytes::Bytes;

use super::{DeliveryId, IncomingId, LinkId, SessionId};
use crate::codec::{Map, Symbol, Tag};
use crate::performative::{AmqpError, Attach, DeliveryState, Open, SaslInit, Source, Target};

/// An event of a connection.
#[derive(Debug, PartialEq)]
pub enum EngineEvent {
    /// The client authenticates. Answer with `sasl_outcome`; no other event comes before.
    SaslInit(Box<SaslInit>),
    /// The connection is open on both sides.
    Open(Box<Open>),
    /// A session is open on both sides.
    Begin {
        /// The session.
        session: SessionId,
    },
    /// The client wants a link. Answer with `accept` or `detach`, now or later.
    Attach(Box<AttachRequest>),
    /// How many messages the client wants on a link that it receives from, after a change or a drain.
    Credit {
        /// The link.
        link: LinkId,
        /// Messages that it takes now.
        credit: u32,
        /// Send the available messages, then call `drained`.
        drain: bool,
    },
    /// A message came. Answer with `answer` if it has an `id`.
    Incoming(Box<IncomingDelivery>),
    /// The client sends a state of a message that was sent to it.
    Disposition(Box<DeliveryDisposition>),
    /// The client detaches a link. Answer with `detach`; nothing is sent on the link any more.
    Detach {
        /// The link.
        link: LinkId,
        /// True if the link is closed for good.
        closed: bool,
        /// Why.
        error: Option<AmqpError>,
    },
    /// The engine has detached a link, because the client broke a limit. There is nothing to answer.
    LinkFailed {
        /// The link.
        link: LinkId,
        /// Why.
        error: AmqpError,
    },
    /// The client ends a session, and all links in it. Answer with `end`.
    End {
        /// The session.
        session: SessionId,
        /// Why.
        error: Option<AmqpError>,
    },
    /// The engine has ended a session, and all links in it. There is nothing to answer.
    SessionFailed {
        /// The session.
        session: SessionId,
        /// Why.
        error: AmqpError,
    },
    /// The client closes the connection, and all sessions in it. Answer with `close`.
    Close {
        /// Why.
        error: Option<AmqpError>,
    },
    /// The engine has closed the connection. There is nothing to answer.
    Failed(AmqpError),
}

/// A link that the client wants.
#[derive(Debug, PartialEq)]
pub struct AttachRequest {
    /// The link.
    pub link: LinkId,
    /// The client's attach; its `role` is that of the client.
    pub attach: Attach,
}

/// How a link is accepted. Name, modes and numbers are those of the request.
#[derive(Debug, Clone, PartialEq)]
pub struct AttachResponse {
    /// Where messages come from.
    pub source: Source,
    /// Where messages go.
    pub target: Target,
    /// Bytes of a message that the server takes; zero means any.
    pub max_message_size: u64,
    /// True to pass larger messages to the application, which rejects them; the link stays attached.
    pub takes_larger: bool,
    /// On a link that the client sends on: messages that may wait for their answer; kept up as they are answered.
    pub credit: u32,
    /// Capabilities that the server supports.
    pub offered_capabilities: Vec<Symbol>,
    /// More about it.
    pub properties: Map,
}

impl AttachResponse {
    /// Accepts a link as the client requested it; `None` if a terminus is missing.
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
    /// The link it came over.
    pub link: LinkId,
    /// The id for the answer; `None` if the client has settled the message and expects no answer.
    pub id: Option<IncomingId>,
    /// Its name.
    pub tag: Tag,
    /// How it is to be read.
    pub message_format: u32,
    /// The transaction that it is part of.
    pub state: Option<DeliveryState>,
    /// The message. Shares the buffer it was read into: copy what is kept for long.
    pub message: Bytes,
}

/// The client's disposition of a message that was sent to it.
#[derive(Debug, PartialEq)]
pub struct DeliveryDisposition {
    /// The link it went over.
    pub link: LinkId,
    /// The message.
    pub delivery: DeliveryId,
    /// The name it was given.
    pub tag: Tag,
    /// The state of the message; `None` if the client settled it without a state.
    pub state: Option<DeliveryState>,
    /// True if the client has settled the message. If not, answer with `settle`.
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
