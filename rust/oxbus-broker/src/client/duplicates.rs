// SPDX-License-Identifier: Apache-2.0
//! Sends with duplicate detection (B-219): detects duplicates among the messages of a call, and stores the others.

use oxbus_model::message::Fields;
use oxbus_model::{Counter, Error, ErrorKind, Identity, Result, SequenceNumber};
use oxbus_store::Wait;

use super::batch::Batch;
use super::sender::{RoutedMessages, Sender};
use crate::entity::Entity;
use crate::routing::{PartitionRoute, route};
use crate::shard::{CallKind, Meter};
use crate::write::WriteError;

/// Result of storing the messages of a call.
pub(super) struct SendReceipt {
    pub(super) index: usize,
    /// Counter of the first stored message.
    pub(super) first: Counter,
    /// By position, whether the message is not a duplicate; `None` if there are no duplicates.
    pub(super) fresh: Option<Vec<bool>>,
}

impl SendReceipt {
    /// Returns the numbers of `count` messages. The number of a duplicate identifies no message (B-227).
    pub(super) fn numbers(&self, count: usize) -> Vec<SequenceNumber> {
        let mut next = self.first;
        let mut number = |position: usize| {
            let is_duplicate = self.fresh.as_ref().is_some_and(|fresh| !fresh[position]);
            let counter = if is_duplicate { Counter::MAX } else { next };
            if !is_duplicate {
                next = next.next();
            }
            Entity::sequence_number(self.index, counter)
        };
        (0..count).map(&mut number).collect()
    }
}

impl Sender {
    /// Determines the partition of a batch, and sets the identities of its messages. In a partitioned entity all
    /// messages of a batch must have the same key (B-080).
    pub(super) fn route_batch(&self, batch: &mut Batch) -> Result<PartitionRoute> {
        let entity = &self.entity;
        let (has_sessions, detects_duplicates) = (entity.requires_session(), entity.detects_duplicates());
        let mut shared_key: Option<String> = None;
        if has_sessions || detects_duplicates {
            for message in &mut batch.messages {
                let fields = Fields::decode(&message.record)?;
                entity.check_session(fields.session_id)?;
                if !detects_duplicates {
                    continue;
                }
                if entity.is_partitioned() {
                    let own = entity.key_of(&fields)?.unwrap_or_default();
                    if shared_key.get_or_insert_with(|| own.to_owned()) != own {
                        // The service's text, with its two spaces (B-068, B-082).
                        let detail = "Batching brokered messages with distinct SessionId, PartitionKey, or MessageId  is not supported \
                                      for an entity with partitioning and duplicate detection enabled. Send one batch per key, or use \
                                      send_arrow.";
                        return Err(Error::new(ErrorKind::InvalidOperation, detail));
                    }
                }
                let identity = entity.identity_of(&fields)?;
                message.identity = identity;
            }
        }
        let key = match &shared_key {
            _ if !entity.is_partitioned() => None,
            Some(key) => Some(&**key),
            None => batch.key()?,
        };
        Ok(route(key, entity.partitions()))
    }

    /// Stores the messages that are not duplicates, all or none. Messages without identities are never duplicates.
    pub(super) async fn store_new(
        &self,
        routed: RoutedMessages,
        wait: &Wait<'_>,
    ) -> std::result::Result<SendReceipt, WriteError> {
        if !routed.have_identities() {
            return self.store(routed, wait).await;
        }
        let RoutedMessages {
            route,
            bytes,
            mut messages,
            now,
            durability,
        } = routed;
        // A message with an identity has one possible cell: that of its key, or the only one of the entity.
        let index = route.partition().map_or(0, |partition| usize::from(partition.0));
        let cell = self.admit_to(index, bytes, messages.len(), wait)?;
        let history = cell.history().expect("an entity with identities has a history");
        let identities: Vec<Option<Identity>> = messages.iter().map(|message| message.identity).collect();
        let window_ms = self.entity.settings().duplicate_window_ms;
        let admission = history.admit_async(&identities, now, window_ms, wait).await?;
        let durability = cell.durability(durability);
        if admission.duplicates() > 0 {
            // A duplicate is acknowledged once the earlier message is durable.
            cell.shard.await_all_async(durability, CallKind::Send, wait).await?;
            self.reach(durability);
        }
        let mut is_fresh = admission.fresh().iter();
        messages.retain(|_| *is_fresh.next().expect("one flag per message"));
        let mut first = Counter::MAX;
        if !messages.is_empty() {
            let mut pending = self.entity.pending_send(messages, now);
            let at = (index, cell);
            first = self
                .entity
                .append(at, &mut pending, durability, Some(&admission), wait)
                .await?;
            self.reach(durability);
        }
        cell.meter(Meter::Duplicate, admission.duplicates());
        self.entity.touch(now);
        let fresh = Some(admission.fresh().to_vec());
        Ok(SendReceipt { index, first, fresh })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Namespace, NamespaceOptions};
    use oxbus_model::message::MessageId;
    use oxbus_model::options::QueueSettings;

    #[test]
    fn batch_of_several_keys_fails_with_the_text_of_the_service_b068_b082() {
        let namespace = Namespace::open(NamespaceOptions::default()).expect("a namespace in memory");
        let settings = QueueSettings {
            enable_partitioning: true,
            requires_duplicate_detection: true,
            ..QueueSettings::default()
        };
        namespace
            .create_queue("q", settings, &Wait::FOREVER)
            .expect("the queue is new");
        let mut batch = Batch::new(1 << 20);
        for message_id in ["1", "2"] {
            let fields = Fields {
                message_id: Some(MessageId::Given(message_id)),
                ..Fields::default()
            };
            batch.push(&fields).expect("the message fits");
        }
        let sender = namespace.sender("q").expect("the queue exists");
        let error = sender.send_batch(batch, None, &Wait::FOREVER);
        assert_eq!(
            error.expect_err("the ids are different keys").detail(),
            "Batching brokered messages with distinct SessionId, PartitionKey, or MessageId  is not supported for an entity with \
             partitioning and duplicate detection enabled. Send one batch per key, or use send_arrow."
        );
    }
}
