// SPDX-License-Identifier: Apache-2.0
//! Senders to queues and topics.

use std::sync::Arc;

use oxbus_amqp::client::LinkRequest;
use oxbus_amqp::codec::AmqpValue;
use oxbus_amqp::performative::{DeliveryState, Source, Target};
use oxbus_model::{Effect, ErrorKind};

use crate::connection::{LinkHandle, SendResult, Transfer};
use crate::deadline::Deadline;
use crate::error::{ClientError, Result};
use crate::link_slot::{Link, LinkSlot};
use crate::message::EncodedMessage;
use crate::outcome;
use crate::retry::Retries;
use crate::shared::SharedClient;
use crate::transaction::Transaction;

/// Limits of a server that announces none.
const SIZE_MAX_DEFAULT: u64 = 256 << 10;
const SIZE_MAX_LARGE: u64 = 1 << 20;

/// Limits of messages and batches, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendLimits {
    /// Of a message. Zero means unknown.
    pub message: u64,
    /// Of a batch.
    pub batch: u64,
}

/// A sender. Threads may share it.
pub struct Sender {
    client: Arc<SharedClient>,
    path: String,
    link: LinkSlot<SenderLink>,
}

pub(crate) struct SenderLink {
    handle: LinkHandle,
    limits: SendLimits,
}

impl Link for SenderLink {
    fn handle(&self) -> &LinkHandle {
        &self.handle
    }
}

impl Sender {
    pub(crate) fn new(client: Arc<SharedClient>, path: String) -> Self {
        Self {
            client,
            path,
            link: LinkSlot::default(),
        }
    }

    /// The path of the entity.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The limits of the entity. Attaches the link if need be.
    pub async fn limits(&self, deadline: Deadline) -> Result<SendLimits> {
        let link = self.client.retry(deadline, "opening the sender", || self.link());
        Ok(link.await?.limits)
    }

    /// Sends a message or a batch. Returns once the server has stored it.
    pub async fn send(
        &self,
        message: &EncodedMessage,
        transaction: Option<&Transaction>,
        deadline: Deadline,
    ) -> Result<()> {
        let mut results = self
            .send_each(std::slice::from_ref(message), transaction, deadline)
            .await?;
        results.pop().unwrap_or(Ok(()))
    }

    /// Sends messages or batches in order, each for itself, in one write as far as the server allows it. Returns a
    /// result for each.
    pub async fn send_each(
        &self,
        messages: &[EncodedMessage],
        transaction: Option<&Transaction>,
        deadline: Deadline,
    ) -> Result<Vec<Result<()>>> {
        let state = transaction.map(|transaction| transaction.state(None));
        let mut results: Vec<Option<Result<()>>> = messages.iter().map(|_| None).collect();
        let mut retries = Retries::new(self.client.options().retry, deadline);
        loop {
            let todo: Vec<usize> = (0..messages.len())
                .filter(|index| results[*index].as_ref().is_none_or(is_retried))
                .collect();
            let one_try = self.client.one_try(deadline);
            let attempt = one_try.limit(self.try_send(messages, &todo, state.as_ref(), transaction));
            let error = match attempt.await {
                Some(Ok(sent)) => {
                    for (index, sent) in todo.into_iter().zip(sent) {
                        results[index] = Some(outcome::of_send(sent));
                    }
                    let mut retried = results.iter().flatten().filter_map(|result| result.as_ref().err());
                    match retried.find(|error| error.is_retried()).cloned() {
                        Some(error) => error,
                        None => break,
                    }
                }
                Some(Err(error)) => error,
                None => timed_out(),
            };
            if !self.client.again(&mut retries, &error, &self.path).await {
                for missing in results.iter_mut().filter(|result| result.is_none()) {
                    *missing = Some(Err(error.clone()));
                }
                break;
            }
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// Sends the messages with these indexes once.
    async fn try_send(
        &self,
        messages: &[EncodedMessage],
        todo: &[usize],
        state: Option<&DeliveryState>,
        transaction: Option<&Transaction>,
    ) -> Result<Vec<SendResult>> {
        let link = self.link_for(transaction).await?;
        let transfers: Vec<_> = todo.iter().map(|index| transfer(&messages[*index], state)).collect();
        link.handle.send(&transfers).await
    }

    /// Detaches the link.
    pub async fn close(&self) {
        self.link.close().await;
    }

    async fn link(&self) -> Result<Arc<SenderLink>> {
        self.link.get(|| self.attach()).await
    }

    /// The link, on the connection of the transaction.
    async fn link_for(&self, transaction: Option<&Transaction>) -> Result<Arc<SenderLink>> {
        if let Some(transaction) = transaction {
            transaction.check_alive()?;
        }
        let link = self.link().await?;
        if let Some(transaction) = transaction {
            transaction.check_connection(link.handle.connection())?;
        }
        Ok(link)
    }

    async fn attach(&self) -> Result<SenderLink> {
        let connection = self.client.authorized(&self.path).await?;
        let name = connection.link_name("sender");
        let request = LinkRequest::sender(name.clone(), Source::of(name), Target::of(self.path.clone()));
        let (handle, attach) = connection.attach(request).await?;
        let message = attach.max_message_size.unwrap_or(0);
        let announced = attach
            .properties
            .as_ref()
            .and_then(|properties| properties.get("com.microsoft:max-message-batch-size"))
            .and_then(AmqpValue::as_i64)
            .and_then(|size| u64::try_from(size).ok())
            .filter(|size| *size > 0);
        let batch = announced.unwrap_or(match message {
            0 | SIZE_MAX_LARGE.. => SIZE_MAX_LARGE,
            _ => SIZE_MAX_DEFAULT.min(message),
        });
        Ok(SenderLink {
            handle,
            limits: SendLimits { message, batch },
        })
    }
}

fn transfer<'a>(message: &'a EncodedMessage, state: Option<&'a DeliveryState>) -> Transfer<'a> {
    Transfer {
        format: message.format,
        message: &message.bytes,
        state,
    }
}

fn is_retried(result: &Result<()>) -> bool {
    result.as_ref().is_err_and(ClientError::is_retried)
}

/// The server may still store what it was sent.
fn timed_out() -> ClientError {
    let detail = "sending took longer than the call allows; the message may still be stored";
    ClientError::broker(ErrorKind::Timeout, detail).with_effect(Effect::Unknown)
}
