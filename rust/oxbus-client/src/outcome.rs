// SPDX-License-Identifier: Apache-2.0
//! Outcomes of messages as results.

use oxbus_amqp::performative::{AmqpError, DeliveryState};
use oxbus_model::Effect;

use crate::connection::SendResult;
use crate::error::{ClientError, Result};
use crate::kind::ClientErrorKind;

/// The condition of a rejection that dead-letters.
pub(crate) const DEAD_LETTER: &str = "com.microsoft:dead-letter";

/// The result of a message that was sent.
pub(crate) fn of_send(sent: SendResult) -> Result<()> {
    match sent {
        SendResult::Lost(error) => Err(error),
        SendResult::Outcome(state) => match inner(state) {
            Some(DeliveryState::Rejected(error)) => Err(refused(error.as_deref())),
            Some(DeliveryState::Released | DeliveryState::Modified(_)) => {
                let detail = "the server did not take the message; send it again";
                Err(ClientError::new(ClientErrorKind::Service, detail).with_effect(Effect::None))
            }
            // A server that only settles has taken the message.
            _ => Ok(()),
        },
    }
}

/// The result of a settlement that the server answered.
pub(crate) fn of_settlement(state: Option<DeliveryState>) -> Result<()> {
    match inner(state) {
        // Some servers repeat the rejection that dead-letters.
        Some(DeliveryState::Rejected(Some(error))) if error.condition.as_str() != DEAD_LETTER => {
            Err(refused(Some(&error)))
        }
        _ => Ok(()),
    }
}

/// The outcome within a transaction.
fn inner(state: Option<DeliveryState>) -> Option<DeliveryState> {
    match state {
        Some(DeliveryState::Transactional { outcome, .. }) => outcome.map(|outcome| *outcome),
        other => other,
    }
}

fn refused(error: Option<&AmqpError>) -> ClientError {
    let refused = error.map_or_else(
        || {
            ClientError::new(
                ClientErrorKind::Service,
                "the server rejected the message without a reason",
            )
        },
        ClientError::of_server,
    );
    refused.with_effect(Effect::None)
}
