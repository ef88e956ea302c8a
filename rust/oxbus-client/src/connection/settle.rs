// SPDX-License-Identifier: Apache-2.0
//! Settles messages on their link, and waits for the confirmations: one write and one wait for a list.

use oxbus_amqp::client::ReceivedId;
use oxbus_amqp::performative::DeliveryState;
use oxbus_model::Effect;
use tokio::sync::oneshot;

use super::batches::Batches;
use super::link::LinkHandle;
use super::results::SettleResult;
use crate::error::{ClientError, Result};

impl LinkHandle {
    /// Settles messages with the same outcome.
    pub(crate) async fn settle(
        &self,
        messages: &[Option<ReceivedId>],
        state: &DeliveryState,
    ) -> Result<Vec<SettleResult>> {
        let done = self.begin_settling(messages, state);
        self.connection.flush();
        done.await
            .map_err(|_| ClientError::connection("the connection is closed").with_effect(Effect::Unknown))
    }

    fn begin_settling(
        &self,
        messages: &[Option<ReceivedId>],
        state: &DeliveryState,
    ) -> oneshot::Receiver<Vec<SettleResult>> {
        let mut core = self.connection.core();
        let (batch, done) = core.settle_batches.begin(messages.len());
        for (index, id) in messages.iter().enumerate() {
            let place = Batches::<SettleResult>::place(batch, index);
            let of_link = id.filter(|id| id.link() == self.id);
            match of_link.map(|id| (id, core.engine.settle(id, state.clone(), false))) {
                Some((id, Ok(true))) => {
                    core.settles.insert(id, place);
                }
                // The server does not confirm on this link.
                Some((_, Ok(false))) => {
                    core.settle_batches
                        .set(place, SettleResult::Answered(Some(state.clone())));
                }
                Some((_, Err(_))) | None => core.settle_batches.set(place, SettleResult::NotFound),
            }
        }
        done
    }
}
