// SPDX-License-Identifier: Apache-2.0
//! `receive-by-sequence-number`: fetching deferred messages (B-276 … B-287).

use bytes::BytesMut;
use oxbus_amqp::codec::{Map, Value};
use oxbus_broker::Receiver;
use oxbus_broker::client::{Delivery, SettleKey};
use oxbus_broker::entity::Entity;
use oxbus_model::message::Fields;
use oxbus_model::options::ReceiveMode;
use oxbus_model::{Error, ErrorKind, LockToken, Result};
use oxbus_store::Wait;

use super::reply::Answer;
use super::request::{Request, wrong};
use crate::amqp::message::{self, Seen, State};
use crate::amqp::token;

/// Fetches all of some messages, or none.
pub(super) fn receive(request: &Request<'_>, wait: &Wait<'_>) -> Result<Answer> {
    request.refuse_transaction()?;
    let mode = match request.number("receiver-settle-mode")? {
        0 => ReceiveMode::ReceiveAndDelete,
        1 => ReceiveMode::PeekLock,
        _ => return Err(wrong("receiver-settle-mode", "0 to delete, or 1 to lock")),
    };
    let numbers = request.numbers()?;
    if numbers.is_empty() {
        return Err(wrong("sequence-numbers", "an array of at least one long"));
    }
    let receiver = request.receiver(mode)?;
    let deliveries = receiver.receive_deferred(&numbers, wait)?;
    let shown: Result<Vec<Value>> = deliveries.iter().map(|delivery| show(&receiver, delivery)).collect();
    match shown {
        Ok(messages) => Ok(Answer::of("messages", messages)),
        Err(error) => {
            // Nobody learns their tokens: they go back where they were.
            let held = |delivery: &Delivery| hold(delivery);
            receiver.release(&deliveries.iter().map(held).collect::<Vec<_>>(), wait);
            Err(error)
        }
    }
}

fn hold(delivery: &Delivery) -> SettleKey {
    SettleKey {
        index: delivery.index,
        key: delivery.claimed.key,
    }
}

fn show(receiver: &Receiver, delivery: &Delivery) -> Result<Value> {
    let claimed = &delivery.claimed;
    let record = claimed.record.in_memory().ok_or_else(|| {
        let detail = "a message is not in memory; receive it again";
        Error::new(ErrorKind::ServerBusy, detail)
    })?;
    let token = (receiver.mode() == ReceiveMode::PeekLock).then(|| receiver.token(hold(delivery)));
    let seen = Seen {
        number: Entity::sequence_number(delivery.index, claimed.key.counter),
        enqueued_at: claimed.enqueued_at,
        expires_at: claimed.expires_at,
        delivery_count: claimed.delivery_count,
        locked_until: delivery.locked_until,
        lock_token: token,
        state: State::Deferred,
    };
    let mut out = BytesMut::new();
    message::write(&mut out, &Fields::decode(record)?, &seen);
    let mut entry = Map::new();
    // Clients read it in either mode.
    entry.push("lock-token", token::guid(token.unwrap_or(LockToken([0; 16]))));
    entry.push("message", out.freeze());
    Ok(entry.into())
}
