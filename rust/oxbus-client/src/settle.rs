// SPDX-License-Identifier: Apache-2.0
//! Settlements, as outcomes on a link and as requests to `$management`.

use oxbus_amqp::codec::{AmqpValue, Map};
use oxbus_amqp::extension::ABANDON_DELAY;
use oxbus_amqp::performative::{AmqpError, DeliveryState, Modified};

use crate::outcome::DEAD_LETTER;

/// What to do with a locked message.
#[derive(Debug, Clone, PartialEq)]
pub enum Settlement {
    /// Remove it.
    Complete,
    /// Give it back, and count a failed delivery.
    Abandon {
        /// Properties to set.
        changes: Map,
        /// Do not hand it out before so many milliseconds have passed. Only our server can do it.
        delay_ms: u64,
    },
    /// Set it aside until it is received by its number.
    Defer {
        /// Properties to set.
        changes: Map,
    },
    /// Move it to the dead-letter queue.
    DeadLetter {
        /// Why.
        reason: Option<String>,
        /// Why, in detail.
        description: Option<String>,
        /// Properties to set.
        changes: Map,
    },
}

const REASON: &str = "DeadLetterReason";
const DESCRIPTION: &str = "DeadLetterErrorDescription";

/// A map with the delay of an abandon, if there is one.
fn delayed(map: &Map, delay_ms: u64) -> Map {
    let mut map = map.clone();
    if delay_ms > 0 {
        map.push(AmqpValue::from(ABANDON_DELAY), delay_ms.cast_signed());
    }
    map
}

fn present(changes: &Map) -> Option<Map> {
    (!changes.is_empty()).then(|| changes.clone())
}

impl Settlement {
    /// The delay of an abandon, else 0.
    pub(crate) fn delay_ms(&self) -> u64 {
        match self {
            Self::Abandon { delay_ms, .. } => *delay_ms,
            _ => 0,
        }
    }

    /// The outcome on a link.
    pub(crate) fn outcome(&self) -> DeliveryState {
        let modified = |undeliverable_here, changes: &Map| {
            DeliveryState::from(Modified {
                delivery_failed: true,
                undeliverable_here,
                message_annotations: present(changes),
            })
        };
        match self {
            Self::Complete => DeliveryState::Accepted,
            Self::Abandon { changes, delay_ms } => modified(false, &delayed(changes, *delay_ms)),
            Self::Defer { changes } => modified(true, changes),
            Self::DeadLetter {
                reason,
                description,
                changes,
            } => {
                let mut info = changes.clone();
                for (key, value) in [(REASON, reason), (DESCRIPTION, description)] {
                    if let Some(value) = value {
                        info.push(AmqpValue::from(key), value.as_str());
                    }
                }
                DeliveryState::from(AmqpError {
                    condition: DEAD_LETTER.into(),
                    description: None,
                    info: (!info.is_empty()).then_some(info),
                })
            }
        }
    }

    /// The arguments of `update-disposition`.
    pub(crate) fn arguments(&self) -> Map {
        let (status, changes) = match self {
            Self::Complete => ("completed", &Map::new()),
            Self::Abandon { changes, .. } => ("abandoned", changes),
            // The spelling of the protocol.
            Self::Defer { changes } => ("defered", changes),
            Self::DeadLetter { changes, .. } => ("suspended", changes),
        };
        let mut arguments = Map::new();
        arguments.push(AmqpValue::from("disposition-status"), status);
        if let Self::DeadLetter {
            reason, description, ..
        } = self
        {
            let text = |text: &Option<String>| text.as_deref().unwrap_or_default().to_owned();
            arguments.push(AmqpValue::from("deadletter-reason"), text(reason));
            arguments.push(AmqpValue::from("deadletter-description"), text(description));
        }
        arguments = delayed(&arguments, self.delay_ms());
        if let Some(changes) = present(changes) {
            arguments.push(AmqpValue::from("properties-to-modify"), changes);
        }
        arguments
    }
}
