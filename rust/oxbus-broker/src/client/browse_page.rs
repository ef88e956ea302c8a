// SPDX-License-Identifier: Apache-2.0
//! Browsing one partition page by page, for tables.

use oxbus_model::caps::PEEK_MESSAGES_MAX;
use oxbus_model::{Counter, PartitionId, Result, SequenceNumber};
use oxbus_store::Wait;

use super::browse::BrowseItem;
use super::receiver::Receiver;
use crate::entity::Entity;

impl Receiver {
    /// Browses a partition from one number to another, inclusive: up to `bytes_max` bytes, but at least one message.
    /// Returns the messages and the number at which the next page begins. Fails if the partition is out of service.
    pub fn browse_page(
        &self,
        partition: PartitionId,
        (from, to): (u64, u64),
        bytes_max: usize,
        wait: &Wait<'_>,
    ) -> Result<(Vec<BrowseItem>, Option<SequenceNumber>)> {
        let index = usize::from(partition.0);
        let shard = (index < usize::from(self.entity.partitions())).then(|| self.entity.shard(index));
        if let Some(shard) = shard {
            shard.health().check_serves(shard.id(), wait)?;
        }
        let first = Entity::sequence_number(index, Counter::FIRST);
        let mut from = SequenceNumber(from.max(first.0));
        let mut found: Vec<BrowseItem> = Vec::new();
        let mut bytes = 0;
        while from.partition() == partition {
            let items = self.browse(PEEK_MESSAGES_MAX, Some(from), wait)?;
            if items.is_empty() {
                break;
            }
            for item in items {
                let number = Entity::sequence_number(item.index, item.message.counter);
                if number.0 > to || item.index != index {
                    return Ok((found, None));
                }
                let size = item.message.record.len();
                if !found.is_empty() && bytes + size > bytes_max {
                    return Ok((found, Some(number)));
                }
                bytes += size;
                from = SequenceNumber(number.0 + 1);
                found.push(item);
            }
        }
        Ok((found, None))
    }
}
