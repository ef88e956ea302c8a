// SPDX-License-Identifier: Apache-2.0
//! Settlements of a receiver: on its link, or over `$management` if the link is lost.

use oxbus_amqp::extension::ABANDON_DELAY;
use oxbus_model::{Effect, ErrorKind};

use super::{Receiver, session_lost};
use crate::connection::SettleResult;
use crate::deadline::Deadline;
use crate::error::{ClientError, Result};
use crate::message::SettleHandle;
use crate::outcome;
use crate::settle::Settlement;
use crate::transaction::Transaction;

impl Receiver {
    /// Settles messages, in one write. Returns a result for each.
    pub async fn settle(
        &self,
        messages: &[SettleHandle],
        settlement: &Settlement,
        transaction: Option<&Transaction>,
        deadline: Deadline,
    ) -> Result<Vec<Result<()>>> {
        let settled = deadline.limit(self.try_settle(messages, settlement, transaction)).await;
        settled.unwrap_or_else(|| {
            let detail = "settling took longer than the call allows; it may still happen";
            Err(ClientError::broker(ErrorKind::Timeout, detail).with_effect(Effect::Unknown))
        })
    }

    /// Gives back messages without counting a delivery. Those whose link is lost are given back already.
    pub async fn release(&self, messages: &[SettleHandle]) {
        if let Ok(Some(link)) = self.link.current().await {
            let connection = link.handle.connection().number();
            link.handle
                .release(messages.iter().filter_map(|message| message.id_on(connection)));
        }
    }

    async fn try_settle(
        &self,
        messages: &[SettleHandle],
        settlement: &Settlement,
        transaction: Option<&Transaction>,
    ) -> Result<Vec<Result<()>>> {
        let outcome = settlement.outcome();
        let state = transaction.map_or_else(
            || outcome.clone(),
            |transaction| transaction.state(Some(outcome.clone())),
        );
        if let Some(transaction) = transaction {
            transaction.check_alive()?;
        }
        if settlement.delay_ms() > 0 && !self.client.connection().await?.offers(ABANDON_DELAY) {
            let detail = "this server cannot abandon with a delay; leave delay out, or complete the message and \
                          schedule a copy of it";
            return Err(ClientError::broker(ErrorKind::NotSupported, detail));
        }
        let answers = match self.link.current().await? {
            Some(link) => {
                if let Some(transaction) = transaction {
                    transaction.check_connection(link.handle.connection())?;
                }
                let connection = link.handle.connection().number();
                let ids: Vec<_> = messages.iter().map(|message| message.id_on(connection)).collect();
                link.handle.settle(&ids, &state).await?
            }
            None => messages.iter().map(|_| SettleResult::NotFound).collect(),
        };
        let mut results = Vec::with_capacity(messages.len());
        for (message, answer) in messages.iter().zip(answers) {
            results.push(match answer {
                SettleResult::Answered(state) => outcome::of_settlement(state),
                other => self.settle_by_token(*message, settlement, transaction, other).await,
            });
        }
        Ok(results)
    }

    /// Settles a message whose link is lost, or that came over none.
    async fn settle_by_token(
        &self,
        message: SettleHandle,
        settlement: &Settlement,
        transaction: Option<&Transaction>,
        answer: SettleResult,
    ) -> Result<()> {
        let Some(token) = message.lock_token else {
            let detail = "the message is not locked: it was deleted when it was received";
            return Err(ClientError::broker(ErrorKind::InvalidOperation, detail));
        };
        let was_lost = answer == SettleResult::Lost;
        if was_lost && self.session.is_some() {
            return Err(session_lost());
        }
        let management = self.management().await?;
        let settled = management
            .settle(&[token], settlement, transaction, Deadline::NEVER)
            .await;
        settled.map_err(|error| match error.broker_kind() {
            // The first try may have settled it.
            Some(ErrorKind::MessageLockLost) if was_lost => error.with_effect(Effect::Unknown),
            _ => error,
        })
    }
}
