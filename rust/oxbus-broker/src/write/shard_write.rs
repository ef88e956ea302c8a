// SPDX-License-Identifier: Apache-2.0
//! What a call changes in one shard, as a plain value: a list of operations on cells, in the order of their events.
//!
//! Messages that come in name their cells by position, because they get numbers there. All other operations name the cell
//! itself. A write says nothing about how it is journaled, waited for or undone: that is `begin` and `ticket`.

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
use crate::shard::{AcceptedSession, Admission, Cell, SessionState};

/// A record and the cells that get a copy of it.
#[derive(Debug)]
pub struct FanOutRecord {
    /// Its bytes.
    pub record: Record,
    /// The position of each cell, and when the copy there expires.
    pub copies: SmallVec<[(usize, Timestamp); 1]>,
}

/// How a lock ends.
#[derive(Debug)]
pub enum LockEnd {
    /// In the store that has the message.
    Outcome(Outcome),
    /// The message goes to the dead-letter queue with this record.
    DeadLetter(Record),
}

/// Which messages leave, and when.
#[derive(Debug)]
pub enum Removal<'a> {
    /// Those whose locks hold. They leave before the journal says so.
    Completed(&'a [LockKey]),
    /// The one whose lock holds.
    One(LockKey),
    /// Locked ones. They leave once the journal says so.
    Received(Vec<LockKey>),
    /// Scheduled ones, all or none.
    Cancelled(&'a [Counter]),
    /// Those that have left already.
    AlreadyRemoved(Ranges),
}

/// What comes into a dead-letter queue.
#[derive(Debug)]
pub enum DeadLetterInput {
    /// A locked message, with this record.
    Moved(LockKey, Record),
    /// Messages that have left the main queue, each with an entry of its own.
    Removed(Vec<RemovedMessage>, DeadLetterReason),
    /// A new message, in the cell at this position.
    New(usize, NewMessage),
}

/// What the delivery of handed-out messages does to their locks once the journal has it.
#[derive(Debug)]
pub enum DeliveryEffect {
    /// They hold already. Deferred messages that were fetched are charged now, and their locks get the end given here.
    Delivered(Vec<(LockKey, Ticks)>),
    /// A delivery was charged to locks that stay.
    Charged,
}

/// One operation of a write.
#[derive(Debug)]
pub enum WriteOperation<'a> {
    /// Messages come into the first cell under consecutive numbers.
    Append(Vec<NewMessage>),
    /// A message comes in that waits for its time, under the number that was taken for it or the next one.
    Schedule {
        /// The position of its cell.
        to: usize,
        /// Its number, if that was taken before.
        counter: Option<Counter>,
        /// Its time.
        due: Timestamp,
        /// The message.
        message: NewMessage,
    },
    /// Records come in, each into several cells.
    FanOut {
        /// The entity of the cell the write is made by; copies name their own.
        of: EntityId,
        /// The records, in order.
        fans: Vec<FanOutRecord>,
    },
    /// A scheduled message is due: it gets a new number in its cell, the first one, or goes out as copies.
    Activate {
        /// Where it waited.
        cell: &'a Cell,
        /// Its number until now.
        counter: Counter,
        /// The message, if it stays in the cell.
        message: Option<NewMessage>,
    },
    /// Messages went out under locks.
    HandOut {
        /// Where.
        cell: &'a Cell,
        /// From which queue of it.
        sub_queue: SubQueue,
        /// Which.
        messages: Vec<DeliveryRecord>,
        /// What becomes of their locks.
        then: DeliveryEffect,
    },
    /// A lock ends and the message stays: abandoned, deferred or released.
    Return {
        /// Where.
        cell: &'a Cell,
        /// In which queue of it.
        sub_queue: SubQueue,
        /// Which lock.
        key: LockKey,
        /// How.
        outcome: Outcome,
    },
    /// Messages leave.
    Remove {
        /// Where.
        cell: &'a Cell,
        /// From which queue of it.
        sub_queue: SubQueue,
        /// Which, and when.
        removal: Removal<'a>,
    },
    /// Messages come into the dead-letter queue.
    DeadLetter {
        /// Where.
        cell: &'a Cell,
        /// Which.
        dead_letter: DeadLetterInput,
    },
    /// Identities of messages that come in are remembered.
    Seen(&'a Cell, &'a Admission<'a>),
    /// The name of rows that are attached is remembered.
    Attached(&'a Cell, &'a Admission<'a>),
    /// Messages came from other shards; or they have left there.
    Arrived {
        /// Where they came to.
        cell: &'a Cell,
        /// They have left there.
        is_over: bool,
        /// Which.
        origins: Vec<Origin>,
    },
    /// The state of a session changes.
    SessionState {
        /// Where.
        cell: &'a Cell,
        /// Which session.
        accepted: Arc<AcceptedSession>,
        /// The state from then on.
        state: Option<SessionState>,
    },
    /// The record of a consumer is replaced.
    Consumer {
        /// Where.
        cell: &'a Cell,
        /// Of which queue of it.
        sub_queue: SubQueue,
        /// Which consumer.
        name: Arc<str>,
        /// Its record from then on.
        record: Box<ConsumerRecord>,
        /// Whether the record adds something.
        room: SpaceClass,
    },
    /// A batch of staged sends is committed, or what is known of it changes.
    Intent {
        /// By which sink.
        sink: &'a str,
        /// What it is from then on.
        intent: Box<Intent>,
        /// Whether this decides the batch: then it counts once the journal has it.
        room: SpaceClass,
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
            },
            LockEnd::DeadLetter(record) => Self::DeadLetter {
                cell,
                dead_letter: DeadLetterInput::Moved(key, record),
            },
        }
    }

    /// True when it changes something in memory once the journal has it.
    #[inline]
    pub(super) fn changes_later(&self) -> bool {
        match self {
            Self::Remove {
                removal: Removal::Received(_),
                ..
            }
            | Self::Intent {
                room: SpaceClass::Adds, ..
            } => true,
            Self::HandOut {
                then: DeliveryEffect::Delivered(fetched),
                ..
            } => !fetched.is_empty(),
            _ => false,
        }
    }

    /// True for messages that come in: they take effect once the journal has them.
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

/// What changes in one shard with one entry of its journal.
#[derive(Debug)]
pub struct ShardWrite<'a> {
    /// The cells in which messages get numbers, by position.
    pub(super) cells: SmallVec<[&'a Cell; 1]>,
    pub(super) operations: SmallVec<[WriteOperation<'a>; 1]>,
    pub(super) moment: Moment,
    /// Something of it takes effect once the journal has it.
    pub(super) takes_effect_later: bool,
    /// All locks hold and all sessions are their receivers', or nothing happens.
    pub(super) is_atomic: bool,
    /// No numbers are set aside beyond those of the messages, and none is shown before the caller has synced them: nobody
    /// goes on in this process, or it is not open yet.
    pub(super) exact_numbers: bool,
}

impl<'a> ShardWrite<'a> {
    /// One operation on what the shard has.
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

    /// Nothing yet into these cells.
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

    /// Makes space for so many operations.
    pub fn reserve_operations(&mut self, count: usize) {
        self.operations.reserve(count);
    }

    /// Adds an operation.
    pub fn push(&mut self, operation: WriteOperation<'a>) {
        self.operations.push(operation);
    }

    /// Adds records for cells of this write. It is made by the cell `coordinator`; copies name their own.
    pub(crate) fn push_fans(&mut self, coordinator: &'a Cell, fans: Vec<FanOutRecord>) {
        if fans.is_empty() {
            return;
        }
        let stays_here = |fan: &FanOutRecord| matches!(fan.copies[..], [(0, _)]);
        let is_plain =
            matches!(self.cells[..], [cell] if std::ptr::eq(cell, coordinator)) && fans.iter().all(stays_here);
        if !is_plain {
            let of = coordinator.entity;
            return self.push(WriteOperation::FanOut { of, fans });
        }
        // Shorter, and read back faster.
        let message = |FanOutRecord { record, copies }| NewMessage {
            record: record.into(),
            expires_at: copies[0].1,
        };
        self.push(WriteOperation::Append(fans.into_iter().map(message).collect()));
    }

    /// The cell at a position.
    pub(crate) fn cell(&self, position: usize) -> &'a Cell {
        self.cells[position]
    }

    /// Makes a cell one of those whose numbers the journal has to know.
    pub fn add_cell(&mut self, cell: &'a Cell) {
        if !self.cells.iter().any(|known| std::ptr::eq(*known, cell)) {
            self.cells.push(cell);
        }
    }

    /// All of it happens, or nothing: locks and sessions that are lost refuse it.
    pub fn set_atomic(&mut self) {
        self.is_atomic = true;
    }

    /// Sets no numbers aside.
    pub fn set_exact_numbers(&mut self, exact: bool) {
        self.exact_numbers = exact;
    }

    /// Sends its messages to this cell, and not to the one that did not take them.
    pub fn redirect(&mut self, cell: &'a Cell) {
        debug_assert!(self.cells.len() < 2, "messages for several cells stay in their shard");
        self.cells.clear();
        self.cells.push(cell);
    }

    /// True when messages come in, or came to a topic of which no subscription wants them.
    #[inline]
    pub(super) fn arrives(&self) -> bool {
        debug_assert!(
            !self.cells.is_empty() || !self.operations.iter().any(WriteOperation::arrives),
            "what comes in has a cell"
        );
        !self.cells.is_empty()
    }

    /// True when messages come in and nothing else changes, as with most sends.
    pub(super) fn only_arrives(&self) -> bool {
        matches!(&self.operations[..], [operation] if operation.arrives())
    }

    /// Begins the write in the shard of a cell.
    pub fn begin<'w>(
        &'w mut self,
        cell: &'a Cell,
        level: Durability,
        wait: &Wait<'_>,
    ) -> Result<Ticket<'w, 'a>, WriteError> {
        cell.shard.begin(self, level, wait)
    }

    /// Begins and finishes the write in the shard of a cell.
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

    /// Most writes in memory are one of these two, and one step in the store; `None` for others.
    #[inline]
    fn commit_in_memory(&mut self) -> Option<Result<CommittedWrite, WriteError>> {
        let [operation] = &mut *self.operations else {
            return None;
        };
        match operation {
            WriteOperation::Append(messages) => {
                let ready = messages.len();
                let first = self.cells[0].main.append(messages, self.moment.now);
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
                Some(settled.map(|_| CommittedWrite::default()).map_err(WriteError::from))
            }
            _ => None,
        }
    }
}
