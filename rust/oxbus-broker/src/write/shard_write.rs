// SPDX-License-Identifier: Apache-2.0
//! A write to one shard as a plain value: a list of operations on cells, in the order of their events.
//!
//! Operations of arriving messages name their cells by position, because messages get numbers there. All other
//! operations reference the cell. `begin` and `ticket` decide how a write is journaled, awaited or undone.

use std::sync::Arc;

use oxbus_model::name::SubQueue;
use oxbus_model::options::Durability;
use oxbus_model::{Counter, Moment, Ticks, Timestamp};
use oxbus_store::shard_log::SpaceClass;
use oxbus_store::{LockKey, MessageStore, NewMessage, Outcome, Record, RemovedMessage, Wait};
use smallvec::{SmallVec, smallvec};

use super::DeadLetterReason;
use super::error::WriteError;
use super::ticket::{CommittedWrite, Ticket};
use crate::shard::journal::{ConsumerRecord, DeliveryRecord, EntityId, Intent, Origin, Ranges};
use crate::shard::{AcceptedSession, Admission, Cell, Delay, Meter, SessionState};

/// A record and the cells that get a copy of it.
#[derive(Debug)]
pub struct FanOutRecord {
    /// Its bytes.
    pub record: Record,
    /// For each copy, the position of its cell and when it expires.
    pub copies: SmallVec<[(usize, Timestamp); 1]>,
}

/// How a lock ends.
#[derive(Debug)]
pub enum LockEnd {
    /// Settled in its store.
    Outcome(Outcome),
    /// Settled in its store by a [`Outcome::Hold`], and available again after the delay.
    Delayed(Outcome, Delay),
    /// Moved to the dead-letter queue with this record.
    DeadLetter(Record),
}

/// Messages to remove, and when they are removed.
#[derive(Debug)]
pub enum Removal<'a> {
    /// The messages whose locks hold, removed before the journal has the entry.
    Completed(&'a [LockKey]),
    /// A message whose lock holds, removed before the journal has the entry.
    One(LockKey),
    /// Locked messages, removed once the journal has the entry.
    Received(Vec<LockKey>),
    /// Scheduled messages, all or none, removed before the journal has the entry.
    Cancelled(&'a [Counter]),
    /// Messages that were removed already.
    AlreadyRemoved(Ranges),
}

/// Messages for a dead-letter queue.
#[derive(Debug)]
pub enum DeadLetterInput {
    /// A locked message, with this record.
    Moved(LockKey, Record),
    /// Messages removed from the main queue, each with a separate entry.
    Removed(Vec<RemovedMessage>, DeadLetterReason),
    /// A new message in the cell at this position.
    New(usize, NewMessage),
}

/// The effect on the locks of delivered messages once the journal has the entry.
#[derive(Debug)]
pub enum DeliveryEffect {
    /// The locks hold already. The fetched deferred messages listed here get these deadlines, and their deliveries are
    /// counted.
    Delivered(Vec<(LockKey, Ticks)>),
    /// No effect: the deliveries are counted in memory already.
    Charged,
}

/// One operation of a write.
#[derive(Debug)]
pub enum WriteOperation<'a> {
    /// Messages arrive in the first cell under consecutive numbers.
    Append(Vec<NewMessage>),
    /// A scheduled message arrives under a reserved number or the next one.
    Schedule {
        /// Position of its cell.
        to: usize,
        /// Its number, if one was reserved.
        counter: Option<Counter>,
        /// Its due time.
        due: Timestamp,
        /// The message.
        message: NewMessage,
    },
    /// Records arrive, each in several cells.
    FanOut {
        /// Entity of the coordinating cell. Each copy has its own.
        coordinator: EntityId,
        /// The records, in order.
        fans: Vec<FanOutRecord>,
    },
    /// A scheduled message is activated: it gets a new number in the first cell, or goes out as copies.
    Activate {
        /// The cell where it is scheduled.
        cell: &'a Cell,
        /// Its number so far.
        counter: Counter,
        /// The message, if it stays in the cell.
        message: Option<NewMessage>,
    },
    /// Messages are delivered under locks.
    HandOut {
        /// Their cell.
        cell: &'a Cell,
        /// Their queue.
        sub_queue: SubQueue,
        /// The deliveries.
        messages: Vec<DeliveryRecord>,
        /// The effect on their locks.
        then: DeliveryEffect,
    },
    /// A lock ends and the message stays: abandoned, deferred or released.
    Return {
        /// Its cell.
        cell: &'a Cell,
        /// Its queue.
        sub_queue: SubQueue,
        /// The lock.
        key: LockKey,
        /// How it ends.
        outcome: Outcome,
        /// The delay of a [`Outcome::Hold`].
        delay: Option<Delay>,
    },
    /// Messages are removed.
    Remove {
        /// Their cell.
        cell: &'a Cell,
        /// Their queue.
        sub_queue: SubQueue,
        /// The messages.
        removal: Removal<'a>,
    },
    /// Messages are dead-lettered.
    DeadLetter {
        /// Their cell.
        cell: &'a Cell,
        /// The messages.
        dead_letter: DeadLetterInput,
    },
    /// Identities of arriving messages are remembered.
    Seen(&'a Cell, &'a Admission<'a>),
    /// The name of attached rows is remembered.
    Attached(&'a Cell, &'a Admission<'a>),
    /// Messages arrive from other shards, or their origins are forgotten.
    Arrived {
        /// The cell where they arrive.
        cell: &'a Cell,
        /// True to forget the origins: the messages have left their source, or did not arrive.
        forget: bool,
        /// Their origins.
        origins: Vec<Origin>,
    },
    /// The state of a session changes.
    SessionState {
        /// Its cell.
        cell: &'a Cell,
        /// The session.
        accepted: Arc<AcceptedSession>,
        /// The new state.
        state: Option<SessionState>,
    },
    /// The record of a consumer is replaced.
    Consumer {
        /// Its cell.
        cell: &'a Cell,
        /// Its queue.
        sub_queue: SubQueue,
        /// Its name.
        name: Arc<str>,
        /// The new record.
        record: Box<ConsumerRecord>,
        /// `Adds` if the record adds data.
        space_class: SpaceClass,
    },
    /// An intent is decided or changes.
    Intent {
        /// Its sink.
        sink: &'a str,
        /// The new intent.
        intent: Box<Intent>,
        /// `Adds` if it decides the batch; the decision takes effect once the journal has it.
        space_class: SpaceClass,
    },
}

impl<'a> WriteOperation<'a> {
    /// The operation that ends a lock.
    #[inline]
    pub fn settle(cell: &'a Cell, sub_queue: SubQueue, key: LockKey, settle: LockEnd) -> Self {
        match settle {
            LockEnd::Outcome(Outcome::Complete | Outcome::Remove) => Self::Remove {
                cell,
                sub_queue,
                removal: Removal::One(key),
            },
            LockEnd::Outcome(outcome) => Self::Return {
                cell,
                sub_queue,
                key,
                outcome,
                delay: None,
            },
            LockEnd::Delayed(outcome, delay) => Self::Return {
                cell,
                sub_queue,
                key,
                outcome,
                delay: Some(delay),
            },
            LockEnd::DeadLetter(record) => Self::DeadLetter {
                cell,
                dead_letter: DeadLetterInput::Moved(key, record),
            },
        }
    }

    /// True if it changes memory after the journal has it.
    #[inline]
    pub(super) fn changes_later(&self) -> bool {
        match self {
            Self::Remove {
                removal: Removal::Received(_),
                ..
            }
            | Self::Intent {
                space_class: SpaceClass::Adds,
                ..
            } => true,
            Self::HandOut {
                then: DeliveryEffect::Delivered(fetched),
                ..
            } => !fetched.is_empty(),
            _ => false,
        }
    }

    /// True for arriving messages, which are published after the journal has them.
    #[inline]
    pub(super) fn arrives(&self) -> bool {
        matches!(
            self,
            Self::Append(_)
                | Self::Schedule { .. }
                | Self::FanOut { .. }
                | Self::Activate { .. }
                | Self::DeadLetter {
                    dead_letter: DeadLetterInput::New(..),
                    ..
                }
        )
    }
}

/// Changes of one shard in one entry of its journal.
#[derive(Debug)]
pub struct ShardWrite<'a> {
    /// Cells in which messages get numbers, by position.
    pub(super) cells: SmallVec<[&'a Cell; 1]>,
    pub(super) operations: SmallVec<[WriteOperation<'a>; 1]>,
    pub(super) moment: Moment,
    /// True if a part takes effect after the journal has the entry.
    pub(super) takes_effect_later: bool,
    /// True if nothing happens unless all locks and sessions hold.
    pub(super) is_atomic: bool,
    /// True to reserve no numbers beyond those of its messages. The caller syncs before it makes them visible. For a
    /// process that assigns no more numbers, or has not opened the namespace yet.
    pub(super) exact_numbers: bool,
}

impl<'a> ShardWrite<'a> {
    /// A write of one operation that adds no messages.
    #[inline]
    pub fn of(operation: WriteOperation<'a>, moment: Moment) -> Self {
        Self {
            cells: SmallVec::new(),
            takes_effect_later: operation.changes_later(),
            operations: smallvec![operation],
            moment,
            is_atomic: false,
            exact_numbers: false,
        }
    }

    /// An empty write for messages that arrive in these cells.
    pub fn into_cells(cells: impl IntoIterator<Item = &'a Cell>, moment: Moment) -> Self {
        Self {
            cells: cells.into_iter().collect(),
            takes_effect_later: true,
            operations: SmallVec::new(),
            moment,
            is_atomic: false,
            exact_numbers: false,
        }
    }

    /// Reserves capacity for operations.
    pub fn reserve_operations(&mut self, count: usize) {
        self.operations.reserve(count);
    }

    /// Adds an operation.
    pub fn push(&mut self, operation: WriteOperation<'a>) {
        self.operations.push(operation);
    }

    /// Adds records that the cell `coordinator` copies to cells of this write.
    pub(crate) fn push_fans(&mut self, coordinator: &'a Cell, fans: Vec<FanOutRecord>) {
        if fans.is_empty() {
            return;
        }
        let stays_here = |fan: &FanOutRecord| matches!(fan.copies[..], [(0, _)]);
        let is_plain =
            matches!(self.cells[..], [cell] if std::ptr::eq(cell, coordinator)) && fans.iter().all(stays_here);
        if !is_plain {
            let coordinator = coordinator.entity;
            return self.push(WriteOperation::FanOut { coordinator, fans });
        }
        // An `Append` is shorter and replayed faster.
        let message = |FanOutRecord { record, copies }| NewMessage {
            record: record.into(),
            expires_at: copies[0].1,
        };
        self.push(WriteOperation::Append(fans.into_iter().map(message).collect()));
    }

    /// The records of its appended and scheduled messages, in order.
    pub(crate) fn into_arriving(self) -> impl Iterator<Item = Record> {
        self.operations
            .into_iter()
            .flat_map(|operation| match operation {
                WriteOperation::Append(messages) => messages,
                WriteOperation::Schedule { message, .. } => vec![message],
                _ => Vec::new(),
            })
            .map(|message| Record::try_from(message.record).expect("an arriving message is in memory"))
    }

    /// The cell at a position.
    pub(crate) fn cell(&self, position: usize) -> &'a Cell {
        self.cells[position]
    }

    /// Adds a cell whose numbers the journal must know.
    pub fn add_cell(&mut self, cell: &'a Cell) {
        if !self.cells.iter().any(|known| std::ptr::eq(*known, cell)) {
            self.cells.push(cell);
        }
    }

    /// Makes it atomic: it fails without effect if a lock or session is lost.
    pub fn set_atomic(&mut self) {
        self.is_atomic = true;
    }

    /// Reserves no numbers beyond those of its messages.
    pub fn set_exact_numbers(&mut self, exact: bool) {
        self.exact_numbers = exact;
    }

    /// Redirects its messages to another cell after the first one rejected them.
    #[inline]
    pub fn redirect(&mut self, cell: &'a Cell) {
        debug_assert!(self.cells.len() < 2, "messages for several cells stay in their shard");
        self.cells.clear();
        self.cells.push(cell);
    }

    /// True if messages arrive, or arrived at a topic where no subscription selects them.
    #[inline]
    pub(super) fn arrives(&self) -> bool {
        debug_assert!(
            !self.cells.is_empty() || !self.operations.iter().any(WriteOperation::arrives),
            "an arriving message has a cell"
        );
        !self.cells.is_empty()
    }

    /// True if messages arrive and nothing else changes, as with most sends.
    pub(super) fn only_arrives(&self) -> bool {
        matches!(&self.operations[..], [operation] if operation.arrives())
    }

    /// Begins the write in the shard of `cell`.
    pub fn begin<'w>(
        &'w mut self,
        cell: &'a Cell,
        level: Durability,
        wait: &Wait<'_>,
    ) -> Result<Ticket<'w, 'a>, WriteError> {
        cell.shard.begin(self, level, wait)
    }

    /// True if it holds off snapshots while it is journaled and has not taken effect.
    pub(super) fn holds_off_snapshots(&self) -> bool {
        self.takes_effect_later && (self.is_atomic || !self.arrives())
    }

    /// Suspends a call while a snapshot keeps the write from beginning. Ends at once if the caller's thread waits.
    pub async fn until_it_may_begin(&self, cell: &Cell, wait: &Wait<'_>) {
        if wait.suspends() && self.holds_off_snapshots() {
            cell.shard.until_snapshot_ended(wait).await;
        }
    }

    /// Begins and finishes the write in the shard of `cell`.
    #[inline]
    pub fn commit(&mut self, cell: &'a Cell, level: Durability, wait: &Wait<'_>) -> Result<CommittedWrite, WriteError> {
        if cell.shard.journal().is_none()
            && let Some(done) = self.commit_in_memory()
        {
            return done;
        }
        let mut ticket = Ticket::new(&cell.shard, self, level);
        ticket.start(wait)?;
        ticket.finish(wait)
    }

    /// [`ShardWrite::commit`] for a call that may be suspended.
    #[inline]
    pub async fn commit_async(
        &mut self,
        cell: &'a Cell,
        level: Durability,
        wait: &Wait<'_>,
    ) -> Result<CommittedWrite, WriteError> {
        if wait.suspends() {
            self.commit_suspended(cell, level, wait).await
        } else {
            self.commit(cell, level, wait)
        }
    }

    async fn commit_suspended(
        &mut self,
        cell: &'a Cell,
        level: Durability,
        wait: &Wait<'_>,
    ) -> Result<CommittedWrite, WriteError> {
        self.until_it_may_begin(cell, wait).await;
        let mut ticket = Ticket::new(&cell.shard, self, level);
        ticket.start(wait)?;
        ticket.until_committed(wait).await;
        ticket.finish(wait)
    }

    /// Fast path for the two most common writes in memory, which are one step in the store. Returns `None` for other
    /// writes.
    #[inline]
    fn commit_in_memory(&mut self) -> Option<Result<CommittedWrite, WriteError>> {
        let [operation] = &mut *self.operations else {
            return None;
        };
        match operation {
            WriteOperation::Append(messages) => {
                let ready = messages.len();
                let first = self.cells[0].main.append(messages, self.moment.now);
                self.cells[0].meter(Meter::Sent, ready);
                let done = CommittedWrite::default();
                Some(Ok(CommittedWrite { first, ready, ..done }))
            }
            WriteOperation::Remove {
                cell,
                sub_queue,
                removal: Removal::One(key),
            } if !self.is_atomic => {
                let store = cell.store(*sub_queue);
                let settled = store.settle(*key, Outcome::Complete, self.moment.ticks);
                if settled.is_ok() {
                    cell.meter_settled(Meter::Completed, [*key]);
                }
                Some(settled.map(|_| CommittedWrite::default()).map_err(WriteError::from))
            }
            _ => None,
        }
    }
}
