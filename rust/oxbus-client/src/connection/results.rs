// SPDX-License-Identifier: Apache-2.0
//! What becomes of messages and settlements.

use oxbus_amqp::client::LinkId;
use oxbus_amqp::performative::DeliveryState;
use oxbus_model::Effect;

use super::batches::Place;
use crate::error::ClientError;

/// What became of a message.
#[derive(Debug, Clone)]
pub(crate) enum SendResult {
    /// The server's outcome.
    Outcome(Option<DeliveryState>),
    /// The link was lost. The effect of the error says whether the message may have arrived.
    Lost(ClientError),
}

/// A message without an outcome.
pub(super) struct PendingSend {
    pub(super) link: LinkId,
    pub(super) place: Place,
    /// Where its first byte is in the stream.
    pub(super) offset: u64,
}

impl PendingSend {
    /// The result of a message whose link is lost: bytes that the system has not taken did nothing.
    pub(super) fn lost(&self, written: u64, error: &ClientError) -> SendResult {
        let effect = if self.offset >= written {
            Effect::None
        } else {
            Effect::Unknown
        };
        SendResult::Lost(error.clone().with_effect(effect))
    }
}

/// What became of a settlement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SettleResult {
    /// The server's answer.
    Answered(Option<DeliveryState>),
    /// The message is not of this link, or is settled already.
    NotFound,
    /// The link was lost before the answer.
    Lost,
}
