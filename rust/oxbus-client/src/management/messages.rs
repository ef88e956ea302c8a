// SPDX-License-Identifier: Apache-2.0
//! Requests about messages: peek, renew, receive deferred ones, settle by token, schedule, cancel, delete.

use bytes::Bytes;
use oxbus_amqp::codec::{AmqpTimestamp, AmqpValue, Map};
use oxbus_amqp::message::AmqpMessageId;
use oxbus_amqp::record::{read_received, token};
use oxbus_model::options::ReceiveMode;
use oxbus_model::{ErrorKind, LockToken, SequenceNumber, Timestamp};

use super::{Arguments, Management, array};
use crate::connection::{lacks, required};
use crate::deadline::Deadline;
use crate::error::{ClientError, Result};
use crate::message::{EncodedMessage, SettleHandle, routing};
use crate::settle::Settlement;
use crate::transaction::Transaction;

/// A message that was received by its number.
#[derive(Debug, Clone)]
pub struct DeferredMessage {
    /// The sections.
    pub bytes: Bytes,
    /// What settles it.
    pub handle: SettleHandle,
}

/// The numbers of messages, as servers expect them.
fn numbers(numbers: &[SequenceNumber]) -> AmqpValue {
    array(numbers.iter().map(|number| AmqpValue::Long(number.0.cast_signed())))
}

fn items<'a>(body: &'a Map, key: &str) -> Result<&'a [AmqpValue]> {
    required(body, key)?.as_items().ok_or_else(|| lacks(key))
}

fn messages(body: &Map) -> Result<Vec<(Bytes, &Map)>> {
    items(body, "messages")?
        .iter()
        .map(|item| {
            let entry = item.as_map().ok_or_else(|| lacks("messages"))?;
            match entry.get("message") {
                Some(AmqpValue::Binary(bytes)) => Ok((bytes.clone(), entry)),
                _ => Err(lacks("message")),
            }
        })
        .collect()
}

impl Management {
    /// Up to `max` messages from a number on, in order, without locking them. Those of the session, if there is one.
    pub async fn peek(&self, from: SequenceNumber, max: usize, deadline: Deadline) -> Result<Vec<Bytes>> {
        let arguments = self
            .arguments()
            .with("from-sequence-number", from.0.cast_signed())
            .with("message-count", i32::try_from(max).unwrap_or(i32::MAX));
        match self.ask("peek-message", arguments, deadline).await? {
            Some(body) => Ok(messages(&body)?.into_iter().map(|(bytes, _)| bytes).collect()),
            None => Ok(Vec::new()),
        }
    }

    /// Renews locks. Returns their new ends.
    pub async fn renew_locks(&self, tokens: &[LockToken], deadline: Deadline) -> Result<Vec<Timestamp>> {
        let arguments = self.arguments().with("lock-tokens", lock_tokens(tokens));
        let body = self
            .ask("renew-lock", arguments, deadline)
            .await?
            .ok_or_else(|| lacks("expirations"))?;
        items(&body, "expirations")?
            .iter()
            .map(|item| time(item, "expirations"))
            .collect()
    }

    /// Receives deferred messages by number: all, or none.
    pub async fn receive_deferred(
        &self,
        of: &[SequenceNumber],
        mode: ReceiveMode,
        deadline: Deadline,
    ) -> Result<Vec<DeferredMessage>> {
        let settle_mode: u32 = match mode {
            ReceiveMode::PeekLock => 1,
            ReceiveMode::ReceiveAndDelete => 0,
        };
        let arguments = self
            .arguments()
            .with("sequence-numbers", numbers(of))
            .with("receiver-settle-mode", settle_mode);
        let Some(body) = self
            .tell("receive-by-sequence-number", arguments, None, deadline)
            .await?
        else {
            return Ok(Vec::new());
        };
        let deferred = |(bytes, entry): (Bytes, &Map)| {
            let lock_token = match (mode, entry.get("lock-token")) {
                (ReceiveMode::PeekLock, Some(AmqpValue::Uuid(uuid))) => Some(token::from_guid(*uuid)),
                _ => None,
            };
            DeferredMessage {
                bytes,
                handle: SettleHandle { id: None, lock_token },
            }
        };
        Ok(messages(&body)?.into_iter().map(deferred).collect())
    }

    /// Settles messages by their lock tokens.
    pub async fn settle(
        &self,
        tokens: &[LockToken],
        settlement: &Settlement,
        transaction: Option<&Transaction>,
        deadline: Deadline,
    ) -> Result<()> {
        let mut arguments = self.arguments().with("lock-tokens", lock_tokens(tokens));
        for (key, value) in settlement.arguments().iter() {
            arguments.0.push(key.clone(), value.clone());
        }
        self.tell("update-disposition", arguments, transaction, deadline)
            .await
            .map(drop)
    }

    /// Schedules messages, each with its time in `x-opt-scheduled-enqueue-time`: all, or none. Returns their numbers.
    pub async fn schedule(
        &self,
        scheduled: &[EncodedMessage],
        transaction: Option<&Transaction>,
        deadline: Deadline,
    ) -> Result<Vec<SequenceNumber>> {
        let entries: Vec<AmqpValue> = scheduled.iter().map(entry).collect::<Result<_>>()?;
        let arguments = Arguments::new().with("messages", entries);
        let body = self.tell("schedule-message", arguments, transaction, deadline).await?;
        let body = body.ok_or_else(|| lacks("sequence-numbers"))?;
        let number = |item: &AmqpValue| {
            let number = item.as_i64().ok_or_else(|| lacks("sequence-numbers"))?;
            Ok(SequenceNumber(number.cast_unsigned()))
        };
        items(&body, "sequence-numbers")?.iter().map(number).collect()
    }

    /// Cancels scheduled messages: all, or none.
    pub async fn cancel_scheduled(&self, of: &[SequenceNumber], deadline: Deadline) -> Result<()> {
        let arguments = Arguments::new().with("sequence-numbers", numbers(of));
        self.tell("cancel-scheduled-message", arguments, None, deadline)
            .await
            .map(drop)
    }

    /// Deletes up to `max` messages that were enqueued before a time. Returns how many.
    pub async fn delete_messages(&self, max: usize, before: Timestamp, deadline: Deadline) -> Result<usize> {
        let arguments = self
            .arguments()
            .with("message-count", i32::try_from(max).unwrap_or(i32::MAX))
            .with("enqueued-time-utc", AmqpTimestamp(before.0.cast_signed()));
        let Some(body) = self.tell("batch-delete-messages", arguments, None, deadline).await? else {
            return Ok(0);
        };
        let count = required(&body, "message-count")?.as_i64();
        count
            .and_then(|count| usize::try_from(count).ok())
            .ok_or_else(|| lacks("message-count"))
    }
}

fn lock_tokens(tokens: &[LockToken]) -> AmqpValue {
    array(tokens.iter().map(|lock_token| token::to_guid(*lock_token).into()))
}

pub(super) fn time(value: &AmqpValue, key: &str) -> Result<Timestamp> {
    match value {
        AmqpValue::Timestamp(AmqpTimestamp(ms)) => Ok(Timestamp(u64::try_from(*ms).unwrap_or(0))),
        _ => Err(lacks(key)),
    }
}

/// A message to schedule, with what routes it.
fn entry(message: &EncodedMessage) -> Result<AmqpValue> {
    let routing = routing(message.bytes())?;
    let id = routing.properties.message_id.map_or(AmqpValue::Null, AmqpValue::from);
    let mut entry = Arguments::new();
    if id == AmqpValue::Null {
        // The service wants an id here; ours gives one to a message without.
        entry = entry.with("message-id", AmqpValue::from(AmqpMessageId::from("")));
    } else {
        entry = entry.with("message-id", id);
    }
    if let Some(session) = routing.properties.group_id {
        entry = entry.with("session-id", session);
    }
    if let Some(key) = routing.annotations.get("x-opt-partition-key") {
        entry = entry.with("partition-key", key.clone());
    }
    Ok(entry.with("message", message.bytes().clone()).0.into())
}

impl DeferredMessage {
    /// Calls `take` with the fields and the broker's metadata.
    pub fn read<R>(
        &self,
        take: impl FnOnce(
            &oxbus_model::message::Fields<'_>,
            &oxbus_amqp::record::AmqpMessageMetadata,
        ) -> oxbus_model::Result<R>,
    ) -> Result<R> {
        read_received(&self.bytes, take).map_err(ClientError::from)
    }
}

/// The error of a request about a session without one.
pub(super) fn no_session() -> ClientError {
    let detail = "the receiver has no session; accept one";
    ClientError::broker(ErrorKind::InvalidOperation, detail)
}
