// SPDX-License-Identifier: Apache-2.0
//! The kinds of entities, and the statuses that each can have.

use crate::options::EntityStatus;
use crate::{Error, ErrorKind, Result};

/// The kind of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntityKind {
    /// Clients send to it and receive from it.
    Queue,
    /// Clients send to it.
    Topic,
    /// Clients receive from it. It belongs to a topic.
    Subscription,
}

impl EntityKind {
    /// Its name in texts and in function names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Topic => "topic",
            Self::Subscription => "subscription",
        }
    }

    /// True if clients can send to it. The tier's sizes and counts apply to these kinds.
    pub fn accepts_sends(self) -> bool {
        self != Self::Subscription
    }

    /// True if clients can receive from it. A topic passes due messages on to its subscriptions.
    pub fn can_be_received_from(self) -> bool {
        self != Self::Topic
    }

    /// Rejects a status that this kind cannot have (B-396).
    pub fn check_status(self, status: EntityStatus) -> Result<()> {
        let (reason, other) = match (self, status) {
            (Self::Topic, EntityStatus::ReceiveDisabled) => ("a topic is not received from", "SendDisabled"),
            (Self::Subscription, EntityStatus::SendDisabled) => ("a subscription is not sent to", "ReceiveDisabled"),
            _ => return Ok(()),
        };
        let detail = format!("{reason}; use Active, Disabled or {other} as its status: {status:?}");
        Err(Error::new(ErrorKind::InvalidOperation, detail))
    }
}
