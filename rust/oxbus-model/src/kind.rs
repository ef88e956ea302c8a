// SPDX-License-Identifier: Apache-2.0
//! The kinds of entities, and what each lets its settings be.

use crate::options::EntityStatus;
use crate::{Error, ErrorKind, Result};

/// The kind of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntityKind {
    /// Sent to and received from.
    Queue,
    /// Sent to.
    Topic,
    /// Received from; a part of its topic.
    Subscription,
}

impl EntityKind {
    /// Its name in sentences and in names of functions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Topic => "topic",
            Self::Subscription => "subscription",
        }
    }

    /// True for what may be sent to: the tier's sizes and numbers are for these.
    pub fn accepts_sends(self) -> bool {
        self != Self::Subscription
    }

    /// True for what messages become active in: a topic sends on what was due.
    pub fn can_be_received_from(self) -> bool {
        self != Self::Topic
    }

    /// Refuses a status that an entity of this kind cannot have (B-396).
    pub fn check_status(self, status: EntityStatus) -> Result<()> {
        let (what, others) = match (self, status) {
            (Self::Topic, EntityStatus::ReceiveDisabled) => ("a topic is not received from", "SendDisabled"),
            (Self::Subscription, EntityStatus::SendDisabled) => ("a subscription is not sent to", "ReceiveDisabled"),
            _ => return Ok(()),
        };
        let detail = format!("{what}; use Active, Disabled or {others} as its status: {status:?}");
        Err(Error::new(ErrorKind::InvalidOperation, detail))
    }
}
