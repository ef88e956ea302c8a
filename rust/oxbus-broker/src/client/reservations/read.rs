// SPDX-License-Identifier: Apache-2.0
//! Reads the messages of a reservation, repeatedly if needed.

use oxbus_model::caps::RESERVATION_READ_BYTES_MAX;
use oxbus_model::options::in_range;
use oxbus_model::{Counter, Error, ErrorKind, Result, SequenceNumber, Ticks, Timestamp};
use oxbus_store::Wait;
use oxbus_store::{ClaimedMessage, PeekedMessage};

use super::Reservations;
use crate::client::{Deliveries, Delivery};
use crate::entity::Entity;
use crate::shard::{Cell, ReservedMessage};

/// Messages read from a reservation.
#[derive(Debug)]
pub struct ReadPage {
    /// The messages in the order of their numbers. They can be settled only through the reservation.
    pub messages: Deliveries,
    /// The sequence number at which the next page starts; `None` at the end.
    pub next: Option<u64>,
}

impl Reservations {
    /// Reads the unsettled messages of one partition between two sequence numbers, up to `bytes_max` bytes but at least
    /// one message. Reading renews the reservation for its lock duration.
    pub fn read(
        &self,
        (id, epoch): (&str, u64),
        partition: u16,
        from: u64,
        to: u64,
        bytes_max: usize,
        wait: &Wait<'_>,
    ) -> Result<ReadPage> {
        self.check_reserves()?;
        in_range("max_bytes", bytes_max as u64, 1, u64::MAX, "bytes")?;
        let index = usize::from(partition);
        let mut next = Some(self.counter_of(partition, from)?);
        let to = self.counter_of(partition, to)?;
        let shard = self.entity().shard(index);
        shard.health().check_serves(shard.id(), wait)?;
        let mut bytes_left = bytes_max.min(RESERVATION_READ_BYTES_MAX);
        let mut messages = Deliveries::new();
        while let Some(from) = next {
            let (locked, until) =
                self.entity()
                    .read_reservation(self.sub_queue(), (id, epoch), index, (from, to), wait)?;
            let Some(cell) = self.entity().cell(index).filter(|_| !locked.is_empty()) else {
                next = None;
                break;
            };
            next = self.load(cell, index, (&locked, until), &mut bytes_left, &mut messages)?;
            if bytes_left == 0 && !messages.is_empty() {
                break;
            }
        }
        let next = next.filter(|next| *next <= to);
        Ok(ReadPage {
            messages,
            next: next.map(|next| Entity::sequence_number(index, next).0),
        })
    }

    /// Returns the counter of a sequence number. Fails if the number belongs to another partition.
    fn counter_of(&self, partition: u16, number: u64) -> Result<Counter> {
        let number = SequenceNumber(number);
        if partition < self.entity().partitions() && number.partition().0 == partition {
            return Ok(number.counter());
        }
        let detail = format!(
            "not a sequence number of that partition; use those of the plan: sequence_number={number} partition={partition}"
        );
        Err(Error::new(ErrorKind::InvalidArgument, detail))
    }

    /// Adds messages up to `bytes_left` bytes. Returns where to continue.
    fn load(
        &self,
        cell: &Cell,
        index: usize,
        (locked, until): (&[ReservedMessage], Timestamp),
        bytes_left: &mut usize,
        messages: &mut Deliveries,
    ) -> Result<Option<Counter>> {
        let follows = |a: &ReservedMessage, b: &ReservedMessage| a.key.counter.next() == b.key.counter;
        for run in locked.chunk_by(follows) {
            let mut page: Vec<PeekedMessage> = Vec::with_capacity(run.len());
            cell.store(self.sub_queue())
                .peek(run[0].key.counter, run.len(), &mut page);
            let mut page = page.into_iter().peekable();
            for reserved in run {
                while page.next_if(|it| it.counter < reserved.key.counter).is_some() {}
                let is_same =
                    |it: &PeekedMessage| it.counter == reserved.key.counter && it.generation == reserved.key.generation;
                let Some(mut message) = page.next_if(is_same) else {
                    continue;
                };
                let bytes = message.record.len();
                if bytes > *bytes_left && !messages.is_empty() {
                    *bytes_left = 0;
                    return Ok(Some(reserved.key.counter));
                }
                *bytes_left = bytes_left.saturating_sub(bytes);
                cell.load_in_place(&mut message.record)?;
                messages.push(Delivery {
                    index,
                    claimed: ClaimedMessage {
                        key: reserved.key,
                        record: message.record,
                        delivery_count: message.delivery_count,
                        enqueued_at: message.enqueued_at,
                        expires_at: message.expires_at,
                        deadline: Ticks::NEVER,
                        deferred: false,
                    },
                    locked_until: Some(until),
                });
            }
        }
        Ok(locked.last().map(|last| last.key.counter.next()))
    }
}
