// SPDX-License-Identifier: Apache-2.0
//! The stored record of a consumer: its epoch, its progress and its reservations.
//!
//! ```text
//! record       = varint epoch, varint done, varint stamp,
//!                varint count, each start: varint number,
//!                varint count, each reservation, by rising n
//! reservation  = varint n, varint stamp, varint epoch, varint lock ms, varint reserved, u8 expired,
//!                varint count, each part: varint partition, ranges
//! ranges       = varint count, each: varint gap, varint length - 1
//! ```

use oxbus_model::Counter;
use oxbus_model::varint::{self, VarintReader};

use super::ranges::Ranges;

/// A consumer of an entity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConsumerRecord {
    /// Its latest epoch.
    pub epoch: u64,
    /// The highest completed reservation number.
    pub done: u64,
    /// The stamp of the next reservation.
    pub stamp: u64,
    /// For each partition, the first number that it reserves.
    pub starts: Vec<Counter>,
    /// Its reservations, by rising number.
    pub reservations: Vec<ReservationRecord>,
}

/// A reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationRecord {
    /// Its number.
    pub n: u64,
    /// Unique among the consumer's reservations.
    pub stamp: u64,
    /// The epoch in which it was created, less the attempts that counted already. Earlier versions wrote that in which it was planned last.
    pub epoch: u64,
    /// How long its locks last.
    pub lock_ms: u64,
    /// Number of messages that it had at first, without those settled one by one.
    pub reserved: u64,
    /// True once it has expired.
    pub expired: bool,
    /// Its messages, by partition.
    pub parts: Vec<(u16, Ranges)>,
}

impl ConsumerRecord {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for value in [self.epoch, self.done, self.stamp, self.starts.len() as u64] {
            varint::push(out, value);
        }
        self.starts.iter().for_each(|start| varint::push(out, start.0));
        varint::push(out, self.reservations.len() as u64);
        for it in &self.reservations {
            for value in [it.n, it.stamp, it.epoch, it.lock_ms, it.reserved] {
                varint::push(out, value);
            }
            out.push(it.expired.into());
            varint::push(out, it.parts.len() as u64);
            for (partition, ranges) in &it.parts {
                varint::push(out, (*partition).into());
                ranges.encode(out);
            }
        }
    }

    pub(super) fn decode(from: &mut VarintReader<'_>) -> Option<Self> {
        Some(Self {
            epoch: from.varint()?,
            done: from.varint()?,
            stamp: from.varint()?,
            starts: super::decode::many(from, |from| from.varint().map(Counter))?,
            reservations: super::decode::many(from, ReservationRecord::decode)?,
        })
    }
}

impl ReservationRecord {
    fn decode(from: &mut VarintReader<'_>) -> Option<Self> {
        Some(Self {
            n: from.varint()?,
            stamp: from.varint()?,
            epoch: from.varint()?,
            lock_ms: from.varint()?,
            reserved: from.varint()?,
            expired: super::decode::flag(from)?,
            parts: super::decode::many(from, |from| {
                Some((u16::try_from(from.varint()?).ok()?, Ranges::decode(from)?))
            })?,
        })
    }
}
