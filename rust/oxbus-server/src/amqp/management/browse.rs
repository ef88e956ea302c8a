// SPDX-License-Identifier: Apache-2.0
//! `peek-message`: looking at messages without touching them (B-290 … B-305).

use bytes::BytesMut;
use oxbus_amqp::codec::{Map, Value};
use oxbus_broker::Receiver;
use oxbus_broker::client::Browsed;
use oxbus_broker::entity::Entity;
use oxbus_model::caps::PEEK_MESSAGES_MAX;
use oxbus_model::message::Fields;
use oxbus_model::options::ReceiveMode;
use oxbus_model::{Counter, Error, ErrorKind, Result, SequenceNumber};
use oxbus_store::Phase;
use oxbus_store::Wait;

use super::reply::Answer;
use super::request::{Request, wrong};
use crate::amqp::message::{self, Seen, State};

/// Messages from a number on, as whole messages.
pub(super) fn peek(request: &Request<'_>, wait: &Wait<'_>) -> Result<Answer> {
    request.refuse_transaction()?;
    let from = request.number("from-sequence-number")?;
    let max = request.count("message-count")?;
    if max == 0 {
        return Err(wrong("message-count", "a whole number from 1 on"));
    }
    // The same 64 bits; clients that have seen nothing ask from 0 or 1 on (B-294).
    let from = SequenceNumber(from.cast_unsigned());
    let receiver = request.own_receiver(ReceiveMode::PeekLock)?;
    let found = match request.text_if_any("session-id")? {
        Some(id) => of_session(&receiver, id, from, max, wait)?,
        None => receiver.browse(max, Some(from), wait)?,
    };
    let shown: Vec<Value> = found.iter().map(show).collect::<Result<_>>()?;
    if shown.is_empty() {
        return Ok(Answer::Nothing);
    }
    Ok(Answer::of("messages", shown))
}

fn fields(browsed: &Browsed) -> Result<Fields<'_>> {
    let record = browsed.message.record.in_memory().ok_or_else(|| {
        let detail = "a message is not in memory any more; peek again";
        Error::new(ErrorKind::ServerBusy, detail)
    })?;
    Fields::decode(record)
}

fn number(browsed: &Browsed) -> SequenceNumber {
    Entity::sequence_number(browsed.index, browsed.message.counter)
}

/// Messages of one session, whoever holds it (B-302). A session lives in one partition, so those before it have none of it.
fn of_session(
    receiver: &Receiver,
    id: &str,
    from: SequenceNumber,
    max: usize,
    wait: &Wait<'_>,
) -> Result<Vec<Browsed>> {
    let max = max.min(PEEK_MESSAGES_MAX);
    let mut from = from;
    let mut found = Vec::new();
    loop {
        let page = receiver.browse(PEEK_MESSAGES_MAX, Some(from), wait)?;
        let Some(last) = page.last().map(number) else {
            return Ok(found);
        };
        for browsed in page {
            if fields(&browsed)?.session_id == Some(id) {
                found.push(browsed);
            }
            if found.len() == max {
                return Ok(found);
            }
        }
        from = if last.counter() == Counter::MAX {
            return Ok(found);
        } else {
            SequenceNumber(last.0 + 1)
        };
    }
}

fn show(browsed: &Browsed) -> Result<Value> {
    let seen = Seen {
        number: number(browsed),
        enqueued_at: browsed.message.enqueued_at,
        expires_at: browsed.message.expires_at,
        delivery_count: browsed.message.delivery_count,
        locked_until: None,
        lock_token: None,
        state: match browsed.message.phase {
            Phase::Deferred | Phase::DeferredLocked => State::Deferred,
            Phase::Scheduled => State::Scheduled,
            Phase::Ready | Phase::Cached | Phase::Locked => State::Active,
        },
    };
    let mut out = BytesMut::new();
    message::write(&mut out, &fields(browsed)?, &seen);
    let mut entry = Map::new();
    entry.push("message", out.freeze());
    Ok(entry.into())
}
