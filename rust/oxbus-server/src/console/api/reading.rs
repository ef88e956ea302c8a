// SPDX-License-Identifier: Apache-2.0
//! Reading messages without locking them, as all resources with messages do.

use oxbus_broker::client::BrowseItem;
use oxbus_broker::entity::Entity;
use oxbus_broker::{Receiver, ReceiverOptions};
use oxbus_model::caps::PEEK_MESSAGES_MAX;
use oxbus_model::message::Fields;
use oxbus_model::name::EntityName;
use oxbus_model::{EntityKind, PartitionId, SequenceNumber};
use oxbus_store::Wait;

use super::Request;
use crate::console::error::{ConsoleError, Result};

/// The number of a browsed message.
pub(super) fn number_of(item: &BrowseItem) -> SequenceNumber {
    Entity::sequence_number(item.index, item.message.counter)
}

/// A receiver that only browses.
pub(super) fn receiver(request: &Request, path: &str, partition: Option<u16>) -> Result<Receiver> {
    let (own, sub_queue) = EntityName::split_sub_queue(path);
    let (entity, _) = request.entity_of(path)?;
    let options = ReceiverOptions {
        sub_queue,
        partition: partition.filter(|_| entity.is_partitioned()).map(PartitionId),
        ..ReceiverOptions::default()
    };
    if entity.kind() == EntityKind::Topic {
        return Err(ConsoleError::bad_request(
            "a topic keeps no messages; look at one of its subscriptions",
        ));
    }
    Ok(request.context.namespace().receiver(own, options)?)
}

/// Browses from a number on, until `take` returns false, the end, or the limit. Returns the number to continue at.
pub(super) fn browse_each(
    receiver: &Receiver,
    from: SequenceNumber,
    looked_at_max: usize,
    mut take: impl FnMut(&BrowseItem, &Fields<'_>) -> Result<bool>,
    wait: &Wait<'_>,
) -> Result<(usize, Option<SequenceNumber>)> {
    let mut from = from;
    let mut looked_at = 0;
    loop {
        let items = receiver.browse(PEEK_MESSAGES_MAX, Some(from), wait)?;
        if items.is_empty() {
            return Ok((looked_at, None));
        }
        for item in items {
            from = SequenceNumber(number_of(&item).0 + 1);
            looked_at += 1;
            let Some(record) = item.message.record.in_memory() else {
                continue;
            };
            let wants_more = take(&item, &Fields::decode(record)?)?;
            if !wants_more || looked_at >= looked_at_max {
                return Ok((looked_at, Some(from)));
            }
        }
    }
}

/// The first messages of an entity.
pub(super) fn peek_first(
    request: &Request,
    path: &str,
    max: usize,
    wait: &Wait<'_>,
) -> Result<(Receiver, Vec<BrowseItem>)> {
    let receiver = receiver(request, path, None)?;
    let mut items: Vec<BrowseItem> = Vec::new();
    let mut from = SequenceNumber(0);
    while items.len() < max {
        let mut page = receiver.browse(PEEK_MESSAGES_MAX.min(max - items.len()), Some(from), wait)?;
        let Some(last) = page.last() else { break };
        from = SequenceNumber(number_of(last).0 + 1);
        items.append(&mut page);
    }
    Ok((receiver, items))
}

/// A sequence number, which JavaScript cannot have as a number.
pub(super) fn parse_number(text: &str) -> Result<SequenceNumber> {
    let number = text.parse().map(SequenceNumber);
    number.map_err(|_| ConsoleError::bad_request(format!("`{text}` is not a sequence number; use digits")))
}
