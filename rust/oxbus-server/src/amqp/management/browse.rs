// SPDX-License-Identifier: Apache-2.0
//! `peek-message`: browses messages without locking them (B-290 … B-305).

use bytes::BytesMut;
use oxbus_amqp::codec::{AmqpValue, Map};
use oxbus_broker::Receiver;
use oxbus_broker::client::BrowseItem;
use oxbus_broker::entity::Entity;
use oxbus_model::caps::PEEK_MESSAGES_MAX;
use oxbus_model::message::Fields;
use oxbus_model::options::ReceiveMode;
use oxbus_model::{Counter, Error, ErrorKind, Result, SequenceNumber};
use oxbus_store::MessagePhase;
use oxbus_store::Wait;

use super::reply::OperationOutcome;
use super::request::{ManagementRequest, wrong_type};
use oxbus_amqp::record::{self, AmqpMessageMetadata, MessageStateAnnotation};

/// Returns complete messages from a sequence number on.
pub(super) fn peek(request: &ManagementRequest<'_>, wait: &Wait<'_>) -> Result<OperationOutcome> {
    request.reject_transaction()?;
    let from = request.number("from-sequence-number")?;
    let max = request.count("message-count")?;
    if max == 0 {
        return Err(wrong_type("message-count", "a whole number from 1 on"));
    }
    // The cast keeps all 64 bits. Clients that have peeked nothing yet start from 0 or 1 (B-294).
    let from = SequenceNumber(from.cast_unsigned());
    let receiver = request.new_receiver(ReceiveMode::PeekLock)?;
    let found = match request.optional_text("session-id")? {
        Some(id) => of_session(&receiver, id, from, max, wait)?,
        None => receiver.browse(max, Some(from), wait)?,
    };
    let entries: Vec<AmqpValue> = found.iter().map(|it| to_entry(&receiver, it)).collect::<Result<_>>()?;
    if entries.is_empty() {
        return Ok(OperationOutcome::Nothing);
    }
    Ok(OperationOutcome::of("messages", entries))
}

fn fields(browsed: &BrowseItem) -> Result<Fields<'_>> {
    let record = browsed.message.record.in_memory().ok_or_else(|| {
        let detail = "a message is no longer in memory; peek again";
        Error::new(ErrorKind::ServerBusy, detail)
    })?;
    Fields::decode(record)
}

fn number(browsed: &BrowseItem) -> SequenceNumber {
    Entity::sequence_number(browsed.index, browsed.message.counter)
}

/// Returns messages of one session, whether it is locked or not (B-302). All its messages are in one partition, so the
/// other partitions contribute none.
fn of_session(
    receiver: &Receiver,
    id: &str,
    from: SequenceNumber,
    max: usize,
    wait: &Wait<'_>,
) -> Result<Vec<BrowseItem>> {
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

fn to_entry(receiver: &Receiver, browsed: &BrowseItem) -> Result<AmqpValue> {
    let metadata = AmqpMessageMetadata {
        number: number(browsed),
        enqueued_at: browsed.message.enqueued_at,
        expires_at: browsed.message.expires_at,
        delivery_count: browsed.message.delivery_count,
        locked_until: None,
        lock_token: None,
        state: match browsed.message.phase {
            MessagePhase::Deferred | MessagePhase::DeferredLocked => MessageStateAnnotation::Deferred,
            MessagePhase::Scheduled => MessageStateAnnotation::Scheduled,
            MessagePhase::Ready | MessagePhase::Cached | MessagePhase::Locked => MessageStateAnnotation::Active,
        },
        partition: receiver
            .entity()
            .visible_partition(browsed.index)
            .map(|partition| partition.0),
    };
    let mut out = BytesMut::new();
    record::write(&mut out, &fields(browsed)?, &metadata);
    let mut entry = Map::new();
    entry.push("message", out.freeze());
    Ok(entry.into())
}
