// SPDX-License-Identifier: Apache-2.0
//! Rows of a table as messages, grouped by partition.
//!
//! All rows are checked and encoded before the first is stored. Each group is stored whole and in row order; a group
//! that its partition refuses keeps its keyed rows unstored and passes its keyless rows on.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use oxbus_broker::Sender;
use oxbus_broker::client::Row;
use oxbus_broker::routing::Route;
use oxbus_broker::shard::Refusal;
use oxbus_model::message::{AssignedId, Fields, MessageId, PropertiesBuilder};
use oxbus_model::{Effect, Error, ErrorKind, PartitionId, Result};

use crate::rows::Columns;

/// Makes ids that no other message has, for rows without one: the first of as many as asked for, which follow it.
pub type NewId = fn(u64) -> AssignedId;

/// What became of the rows.
#[derive(Debug, Default)]
pub struct Sent {
    /// Partition id → rows that it stored.
    pub stored: BTreeMap<u16, usize>,
    /// Indexes of the rows that were not stored, rising.
    pub refused: Vec<usize>,
    /// Why the first of them was refused, or the first of those of which nobody knows.
    pub refusal: Option<Error>,
}

/// Why not all rows were stored.
#[derive(Debug)]
pub enum NotSent {
    /// None was.
    Nothing(Error),
    /// Some were.
    Part {
        /// What happened and what to do.
        detail: String,
        /// A part, or unknown when some rows may be stored that are not counted.
        effect: Effect,
        /// Indexes of the rows that were not stored, rising.
        rows: Vec<usize>,
        /// Partition id → rows that it stored.
        stored: BTreeMap<u16, usize>,
    },
}

impl Sent {
    /// Notes why rows were refused: the first reason, or the first of which nobody knows the effect.
    fn refuse(&mut self, error: Error) {
        let is_unknown = |error: &Error| error.effect() == Some(Effect::Unknown);
        match &self.refusal {
            Some(known) if is_unknown(known) || !is_unknown(&error) => {}
            _ => self.refusal = Some(error),
        }
    }

    /// Partition id → rows that it stored, if all were.
    pub fn outcome(self) -> std::result::Result<BTreeMap<u16, usize>, NotSent> {
        if self.refused.is_empty() {
            return Ok(self.stored);
        }
        let refusal = self
            .refusal
            .unwrap_or_else(|| Error::new(ErrorKind::PartitionUnavailable, "no partition took the rows; try again"));
        if self.stored.is_empty() {
            return Err(NotSent::Nothing(refusal));
        }
        let effect = match refusal.effect() {
            Some(Effect::Unknown) => Effect::Unknown,
            _ => Effect::Partial,
        };
        let detail = format!(
            "{} rows were not stored, send them again; one was refused because: {refusal}",
            self.refused.len()
        );
        Err(NotSent::Part {
            detail,
            effect,
            rows: self.refused,
            stored: self.stored,
        })
    }
}

/// Rows on their way: checked and encoded, in groups for their partitions.
pub struct Outgoing<S> {
    sender: S,
    new_id: NewId,
    groups: Vec<Group>,
    /// Where rows without a key go, in turn.
    keyless: Vec<PartitionId>,
    next_keyless: usize,
    number: usize,
    properties: PropertiesBuilder,
}

impl<S: Borrow<Sender>> Outgoing<S> {
    /// No rows yet. Those without a key go to the partitions that work now, in turn.
    pub fn new(sender: S, new_id: NewId) -> Result<Self> {
        let to = sender.borrow();
        to.check_sends()?;
        let serves = |it: &PartitionId| to.queue().shard(usize::from(it.0)).health().fault().is_none();
        Ok(Self {
            new_id,
            groups: (0..to.queue().partitions()).map(|_| Group::default()).collect(),
            keyless: to.turn().filter(serves).collect(),
            next_keyless: 0,
            number: 0,
            properties: PropertiesBuilder::default(),
            sender,
        })
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.number
    }

    /// Checks and encodes further rows.
    pub fn push(&mut self, chunk: &Columns) -> Result<()> {
        let Self {
            sender,
            groups,
            keyless,
            next_keyless,
            number,
            ..
        } = self;
        // All at once: a count that threads share is dear.
        let ids = (self.new_id)(chunk.rows() as u64);
        for row in 0..chunk.rows() {
            let id = ids.following(row as u64);
            row_of(
                (*sender).borrow(),
                chunk,
                row,
                &mut self.properties,
                id,
                |wish, route, fields, len| {
                    let (partition, keyed) = match (wish, route) {
                        (Some(partition), _) | (None, Route::Keyed(partition)) => (partition, true),
                        (None, Route::Keyless) => (in_turn(keyless, next_keyless), false),
                    };
                    groups[usize::from(partition.0)].push(Row::encode(fields, len), *number, keyed);
                },
            )
            .map_err(|error| at_row(*number, &error))?;
            *number += 1;
        }
        Ok(())
    }

    /// Stores the rows.
    pub fn send(self) -> Sent {
        store(self.sender.borrow(), self.groups)
    }
}

/// Rows for one partition.
#[derive(Default)]
struct Group {
    rows: Vec<Row>,
    numbers: Vec<usize>,
    /// Places in `rows` that have no key.
    keyless: Vec<usize>,
}

impl Group {
    #[inline]
    fn push(&mut self, row: Row, number: usize, keyed: bool) {
        if !keyed {
            self.keyless.push(self.rows.len());
        }
        self.rows.push(row);
        self.numbers.push(number);
    }

    /// The rows without a key as a group of their own; the others stay.
    fn split_keyless(&mut self) -> Self {
        let mut apart = Self::default();
        let mut keyless = std::mem::take(&mut self.keyless).into_iter().peekable();
        let rows = std::mem::take(&mut self.rows)
            .into_iter()
            .zip(std::mem::take(&mut self.numbers));
        for (place, (row, number)) in rows.enumerate() {
            let is_keyless = keyless.next_if_eq(&place).is_some();
            if is_keyless {
                apart.push(row, number, false);
            } else {
                self.push(row, number, true);
            }
        }
        apart
    }
}

/// The next partition in turn.
fn in_turn(partitions: &[PartitionId], next: &mut usize) -> PartitionId {
    let Some(partition) = partitions.get(*next) else {
        return PartitionId(0);
    };
    *next = (*next + 1) % partitions.len();
    *partition
}

/// A row as a message, with `id` if it has none: `take` gets the partition that it names, where its key sends it, its fields,
/// which are checked, and how long they are when encoded.
#[inline]
pub(crate) fn row_of(
    sender: &Sender,
    chunk: &Columns,
    row: usize,
    properties: &mut PropertiesBuilder,
    id: AssignedId,
    take: impl FnOnce(Option<PartitionId>, Route, &Fields<'_>, usize),
) -> Result<()> {
    let queue = sender.queue();
    chunk.with_row(row, properties, |fields| {
        if fields.message_id.is_none() {
            fields.message_id = Some(MessageId::Assigned(id));
        }
        let route = sender.route(fields)?;
        let wish = chunk.partition(row, queue.partitions())?;
        if let (Some(wish), Route::Keyed(_)) = (wish, route) {
            let detail = format!(
                "partition_id cannot be set together with a key, which names the partition; set one of them: {wish}"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        let len = Row::checked_len(fields, queue.message_size_bytes_max())?;
        take(wish, route, fields, len);
        Ok(())
    })
}

/// An error with the index of its row.
pub(crate) fn at_row(number: usize, error: &Error) -> Error {
    Error::new(error.kind(), format!("row {number}: {}", error.detail()))
}

fn store(sender: &Sender, groups: Vec<Group>) -> Sent {
    let mut sent = Sent::default();
    let mut passed_on = Vec::new();
    for (index, mut group) in groups.into_iter().enumerate() {
        if group.rows.is_empty() {
            continue;
        }
        let partition = PartitionId(index as u16);
        let count = group.rows.len();
        match sender.send_rows(partition, &mut group.rows) {
            Ok(()) => *sent.stored.entry(partition.0).or_default() += count,
            Err(Refusal { error, is_definite, .. }) => {
                // Nobody knows whether rows were stored that were not refused for certain: elsewhere they might double.
                if is_definite {
                    passed_on.push((partition, group.split_keyless()));
                }
                sent.refused.append(&mut group.numbers);
                sent.refuse(error);
            }
        }
    }
    for (refused_by, mut group) in passed_on {
        let count = group.rows.len();
        if count == 0 {
            continue;
        }
        let others = sender.turn().filter(|partition| *partition != refused_by);
        match others
            .into_iter()
            .find(|partition| sender.send_rows(*partition, &mut group.rows).is_ok())
        {
            Some(partition) => *sent.stored.entry(partition.0).or_default() += count,
            None => sent.refused.append(&mut group.numbers),
        }
    }
    sent.refused.sort_unstable();
    sent
}
