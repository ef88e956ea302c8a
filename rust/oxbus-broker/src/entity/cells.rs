// SPDX-License-Identifier: Apache-2.0
//! The cells of an entity: their shards, partitions and sequence numbers.

use std::sync::Arc;

use oxbus_model::{Counter, PartitionId, SequenceNumber};

use oxbus_store::Wait;

use super::Entity;
use crate::shard::journal::EntityState;
use crate::shard::{Cell, Shard};
use crate::write::DeadLetterReason;

impl Entity {
    /// Puts recovered messages into a cell, before other threads see the entity. `announce_ready` announces them once
    /// all entities exist, because announcing may dead-letter messages, move them into sessions and forward them.
    pub(crate) fn restore(&self, index: usize, queues: EntityState) {
        // Every send is a use, and uses are not always journaled.
        let newest = queues.main.iter().map(|(_, message)| message.enqueued_at).max();
        if let Some(newest) = newest {
            match self.topic() {
                Some(topic) => topic.note_use_at(newest),
                None => self.note_use_at(newest),
            }
        }
        let max_delivery_count = self.settings().max_delivery_count;
        let entity = (self.id, self.name.as_str());
        let (cell, exhausted) = Cell::restore(&self.shards[index], entity, queues, max_delivery_count, self.features);
        cell.dead_letter_removed(exhausted, DeadLetterReason::DeliveriesExhausted, &Wait::FOREVER);
        assert!(self.cells[index].set(cell).is_ok(), "messages are restored once");
        self.forget_expired_identities();
    }

    /// Number of partitions, which is also the number of cells.
    #[inline]
    pub fn partitions(&self) -> u16 {
        self.shards.len() as u16
    }

    /// The shard of a cell.
    #[inline]
    pub fn shard(&self, index: usize) -> &Arc<Shard> {
        &self.shards[index]
    }

    /// True if no shard of the entity has a fault.
    pub fn is_available(&self) -> bool {
        self.shards.iter().all(|shard| shard.health().fault().is_none())
    }

    /// The cell with this index, if it exists.
    #[inline]
    pub fn cell(&self, index: usize) -> Option<&Cell> {
        self.cells.get(index)?.get()
    }

    /// Returns the cell with this index. Creates it if it does not exist.
    #[inline]
    pub(crate) fn cell_for_append(&self, index: usize) -> &Cell {
        let entity = (self.id, self.name.as_str());
        self.cells[index].get_or_init(|| Cell::new(&self.shards[index], entity, self.features))
    }

    /// The cells that exist, with their index.
    pub fn cells(&self) -> impl Iterator<Item = (usize, &Cell)> {
        self.cells
            .iter()
            .enumerate()
            .filter_map(|(index, cell)| Some((index, cell.get()?)))
    }

    /// The partition that users see for a cell; `None` if the entity is not partitioned.
    pub fn visible_partition(&self, index: usize) -> Option<PartitionId> {
        self.is_partitioned().then_some(PartitionId(index as u16))
    }

    /// The sequence number of a message. Its top 16 bits are the cell index, which is 0 when the entity is not
    /// partitioned.
    #[inline]
    pub fn sequence_number(index: usize, counter: Counter) -> SequenceNumber {
        SequenceNumber::new(PartitionId(index as u16), counter)
    }

    /// The cell index in a sequence number, if the entity has that many partitions.
    pub fn index_of(&self, number: SequenceNumber) -> Option<usize> {
        let index = usize::from(number.partition().0);
        (index < self.shards.len()).then_some(index)
    }
}
