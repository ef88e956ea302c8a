// SPDX-License-Identifier: Apache-2.0
//! `receive-by-sequence-number`: receives deferred messages (B-276 … B-287).

use bytes::BytesMut;
use oxbus_amqp::codec::{AmqpValue, Map};
use oxbus_broker::Receiver;
use oxbus_broker::client::{Delivery, SettleKey};
use oxbus_broker::entity::Entity;
use oxbus_model::message::Fields;
use oxbus_model::options::ReceiveMode;
use oxbus_model::{Error, ErrorKind, LockToken, Result};
use oxbus_store::Wait;

use super::reply::OperationOutcome;
use super::request::{ManagementRequest, wrong_type};
use oxbus_amqp::record::token;
use oxbus_amqp::record::{self, AmqpMessageMetadata, MessageStateAnnotation};

/// Receives all requested messages, or none.
pub(super) async fn receive(request: &ManagementRequest<'_>, wait: &Wait<'_>) -> Result<OperationOutcome> {
    request.reject_transaction()?;
    let mode = match request.number("receiver-settle-mode")? {
        0 => ReceiveMode::ReceiveAndDelete,
        1 => ReceiveMode::PeekLock,
        _ => return Err(wrong_type("receiver-settle-mode", "0 to delete, or 1 to lock")),
    };
    let numbers = request.numbers()?;
    if numbers.is_empty() {
        return Err(wrong_type("sequence-numbers", "an array of at least one long"));
    }
    let receiver = request.receiver(mode)?;
    let deliveries = receiver.receive_deferred_async(&numbers, wait).await?;
    let entries: Result<Vec<AmqpValue>> = deliveries
        .iter()
        .map(|delivery| to_entry(&receiver, delivery))
        .collect();
    match entries {
        Ok(messages) => Ok(OperationOutcome::of("messages", messages)),
        Err(error) => {
            // The client does not get the lock tokens, so the messages are released.
            let keys: Vec<SettleKey> = deliveries.iter().map(settle_key).collect();
            receiver.release(&keys, wait);
            Err(error)
        }
    }
}

fn settle_key(delivery: &Delivery) -> SettleKey {
    SettleKey {
        index: delivery.index,
        key: delivery.claimed.key,
    }
}

fn to_entry(receiver: &Receiver, delivery: &Delivery) -> Result<AmqpValue> {
    let claimed = &delivery.claimed;
    let record = claimed.record.in_memory().ok_or_else(|| {
        let detail = "a message is not in memory; receive it again";
        Error::new(ErrorKind::ServerBusy, detail)
    })?;
    let token = (receiver.mode() == ReceiveMode::PeekLock).then(|| receiver.token(settle_key(delivery)));
    let metadata = AmqpMessageMetadata {
        number: Entity::sequence_number(delivery.index, claimed.key.counter),
        enqueued_at: claimed.enqueued_at,
        expires_at: claimed.expires_at,
        delivery_count: claimed.delivery_count,
        locked_until: delivery.locked_until,
        lock_token: token,
        state: MessageStateAnnotation::Deferred,
        partition: receiver
            .entity()
            .visible_partition(delivery.index)
            .map(|partition| partition.0),
    };
    let mut out = BytesMut::new();
    record::write(&mut out, &Fields::decode(record)?, &metadata);
    let mut entry = Map::new();
    // Clients read the token in both modes.
    entry.push("lock-token", token::to_guid(token.unwrap_or(LockToken([0; 16]))));
    entry.push("message", out.freeze());
    Ok(entry.into())
}
